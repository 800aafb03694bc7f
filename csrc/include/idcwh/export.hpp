// IDCWH_API marks the symbols that the library exports. All others have hidden visibility.
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
