// What a scan costs: the measure that every structure is held against.
//
// Nanoseconds on a Zen 3 core, rounded; other processors differ, but mostly by the same factor for the scan and for the
// structures, and only ratios decide.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <cstddef>

namespace idcwh {

// What is asked of a structure.
enum class Work { topk, ties, radius, count, histogram, rank };

}  // namespace idcwh

namespace idcwh::cost {

inline constexpr double call_ns = 500;           // of a search, whatever it reads
inline constexpr double read_byte_ns = 0.06;     // one query reads memory once: about 16 GB/s
inline constexpr double cached_byte_ns = 0.035;  // the same where the last-level cache holds them
inline constexpr std::size_t cached_bytes = 16 << 20;
inline constexpr double tile_byte_ns = 0.025;  // a query of a batch, each byte of a code: 5 G codes of 64 bits a second
inline constexpr double least_row_ns = 0.03;   // a row, however short
inline constexpr std::size_t batch = 8;        // queries from which the tile kernels are used

// All of nq queries over these codes, on one thread.
inline double scan_ns(const Codes& codes, std::size_t nq) {
    const auto bytes = static_cast<double>(code_bytes(codes.bits));
    const double read = codes.size * code_bytes(codes.bits) > cached_bytes ? read_byte_ns : cached_byte_ns;
    const double row = std::max(least_row_ns, bytes * (nq < batch ? read : tile_byte_ns));
    return static_cast<double>(nq) * (call_ns + row * static_cast<double>(codes.size));
}

}  // namespace idcwh::cost
