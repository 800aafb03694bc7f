// The version of these headers. CMakeLists.txt reads it from here.
#pragma once

#define IDCWH_VERSION_MAJOR 0
#define IDCWH_VERSION_MINOR 1
#define IDCWH_VERSION_PATCH 0
