# The library idcwh_encoder (target idcwh::encoder), which preprocesses images and encodes them. It loads the shared
# library of ONNX Runtime at run time. The C header of ONNX Runtime is in third_party.
file(GLOB sources CONFIGURE_DEPENDS src/images/*.cpp src/encoder/*.cpp src/c_api/encoder.cpp src/base/json.cpp
     src/base/sha256.cpp)
list(FILTER sources EXCLUDE REGEX "/passes.cpp$")
add_library(idcwh_images OBJECT src/images/passes.cpp)
idcwh_compile(idcwh_images -O3)
add_library(idcwh_models OBJECT ${sources})
idcwh_compile(idcwh_models -O2)
target_include_directories(idcwh_models SYSTEM PRIVATE third_party/onnxruntime)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  # No fused multiply-add, because it rounds differently and so changes pixels (src/images/axis.cpp).
  target_compile_options(idcwh_images PRIVATE -ffp-contract=off)
  target_compile_options(idcwh_models PRIVATE -ffp-contract=off)
endif()
add_library(idcwh_encoder_objects INTERFACE)
target_sources(idcwh_encoder_objects INTERFACE $<TARGET_OBJECTS:idcwh_images> $<TARGET_OBJECTS:idcwh_models>)

foreach(kind static shared)
  string(TOUPPER ${kind} type)
  add_library(idcwh_encoder_${kind} ${type})
  target_link_libraries(idcwh_encoder_${kind} PRIVATE $<BUILD_INTERFACE:idcwh_encoder_objects>
                        PUBLIC idcwh_${kind} ${CMAKE_DL_LIBS})
  set_target_properties(idcwh_encoder_${kind} PROPERTIES OUTPUT_NAME idcwh_encoder EXPORT_NAME encoder_${kind}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH $ORIGIN BUILD_WITH_INSTALL_RPATH ON LINKER_LANGUAGE CXX)
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
