# Builds the same consumers with a compiler and pkg-config alone, by the commands of docs/cpp.md.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${ENGINE} --prefix ${WORK}/prefix --config ${CONFIG} COMMAND_ERROR_IS_FATAL ANY)
set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
unset(ENV{LD_LIBRARY_PATH})
function(run folder command)
  execute_process(COMMAND sh -c "${command} -o ${WORK}/${folder}" WORKING_DIRECTORY ${SOURCE}/${folder}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/${folder} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(rpath "-Wl,-rpath,$(pkg-config --variable=libdir idcwh)")
run(consumer "${CXX} -std=c++20 main.cpp $(pkg-config --cflags --libs idcwh) ${rpath}")
run(consumer_encoder "${CXX} -std=c++20 main.cpp $(pkg-config --cflags --libs idcwh_encoder) ${rpath}")
run(consumer_c "${C} main.c $(pkg-config --cflags --libs idcwh) ${rpath}")
run(consumer_c "${C} -static main.c $(pkg-config --static --cflags --libs idcwh)")

# The libraries are in a folder of their own, as in Debian's lib/x86_64-linux-gnu. The headers are found nevertheless.
set(deeper ${WORK}/deeper/lib/deeper/pkgconfig)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/.. -B ${WORK}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE}
                -DCMAKE_CXX_COMPILER=${CXX} -DIDCWH_TESTS=OFF -DCMAKE_INSTALL_LIBDIR=lib/deeper
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${WORK}/build/idcwh.pc ${WORK}/build/idcwh_encoder.pc DESTINATION ${deeper})
set(ENV{PKG_CONFIG_PATH} ${deeper})
foreach(name idcwh idcwh_encoder)
  execute_process(COMMAND pkg-config --variable=includedir ${name} OUTPUT_VARIABLE include OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(NORMAL_PATH include)
  if(NOT include STREQUAL ${WORK}/deeper/include)
    message(FATAL_ERROR "${name}.pc: includedir is ${include}, expected ${WORK}/deeper/include")
  endif()
endforeach()
