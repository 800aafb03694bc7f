# The same consumers, with a compiler and pkg-config alone.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${ENGINE} --prefix ${WORK}/prefix --config ${CONFIG} COMMAND_ERROR_IS_FATAL ANY)
set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${WORK}/prefix/${LIBDIR})
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs idcwh OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(COMMAND ${CXX} -std=c++20 ${SOURCE}/consumer/main.cpp ${flags} -o ${WORK}/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${C} -std=c11 ${SOURCE}/consumer_c/main.c ${flags} -o ${WORK}/consumer_c COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/consumer_c COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs idcwh_encoder OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(COMMAND ${CXX} -std=c++20 ${SOURCE}/consumer_encoder/main.cpp ${flags} -o ${WORK}/consumer_encoder
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/consumer_encoder COMMAND_ERROR_IS_FATAL ANY)
