# The second library, idcwh_encoder (target idcwh::encoder): images to pixels to codes. ONNX Runtime's shared library is
# loaded at run time; its C header is in third_party.
file(STRINGS sources_encoder.txt sources)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS sources_encoder.txt)
if(IDCWH_OBJECTS)
  add_library(idcwh_encoder_objects INTERFACE)
  list(TRANSFORM sources REPLACE "^(.*)[.]cpp$" "${IDCWH_OBJECTS}/\\1.o" OUTPUT_VARIABLE objects)
  target_sources(idcwh_encoder_objects INTERFACE ${objects})
else()
  add_library(idcwh_encoder_objects OBJECT ${sources})
  target_include_directories(idcwh_encoder_objects PRIVATE src)
  target_include_directories(idcwh_encoder_objects SYSTEM PRIVATE third_party/onnxruntime)
  set_target_properties(idcwh_encoder_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    # Pixels are a matter of every rounding: see src/images/axis.cpp.
    target_compile_options(idcwh_encoder_objects PRIVATE -Wall -Wextra -ffp-contract=off)
    if(NOT IDCWH_SANITIZE)
      target_compile_options(idcwh_encoder_objects PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O2>)
      set_source_files_properties(src/images/passes.cpp PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O3>)
    endif()
  endif()
endif()
target_link_libraries(idcwh_encoder_objects ${scope} idcwh_objects)  # headers and sanitizers

foreach(kind static shared)
  string(TOUPPER ${kind} type)
  add_library(idcwh_encoder_${kind} ${type} ${nothing})
  target_link_libraries(idcwh_encoder_${kind} PRIVATE $<BUILD_INTERFACE:idcwh_encoder_objects>
                        PUBLIC idcwh_${kind} ${CMAKE_DL_LIBS})
  set_target_properties(idcwh_encoder_${kind} PROPERTIES OUTPUT_NAME idcwh_encoder EXPORT_NAME encoder_${kind}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH $ORIGIN LINKER_LANGUAGE CXX)
  add_library(idcwh::encoder_${kind} ALIAS idcwh_encoder_${kind})
endforeach()
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  target_link_options(idcwh_encoder_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map)
  set_property(TARGET idcwh_encoder_shared APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map)
endif()
if(BUILD_SHARED_LIBS)
  add_library(idcwh::encoder ALIAS idcwh_encoder_shared)
else()
  add_library(idcwh::encoder ALIAS idcwh_encoder_static)
endif()
