// Which symbols leave the library: everything is built with hidden visibility, and what a caller may use is marked.
#pragma once

#if defined(_WIN32)
#if defined(IDCWH_SHARED_BUILD)
#define IDCWH_API __declspec(dllexport)
#elif defined(IDCWH_SHARED)
#define IDCWH_API __declspec(dllimport)
#else
#define IDCWH_API
#endif
#else
#define IDCWH_API __attribute__((visibility("default")))
#endif
