// bit_pairs(): counts of codes in which two bits are both set, by Hamming distances. The codes are transposed, so that
// each bit becomes a code with one bit per item. Then both = (ones of one + ones of the other - distance) / 2.
#include <idcwh/metrics.hpp>

#include <algorithm>
#include <vector>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/plan.hpp"

namespace idcwh {
namespace {

// The constants are chosen by the sizes of caches and the time to start a thread; no benchmark measures them.
constexpr std::size_t chunk_bytes = 512;  // bytes per bit, so that a chunk of all bits stays in the cache
constexpr std::size_t chunk_items = 8 * chunk_bytes;
constexpr std::size_t chunks_per_round = 16;      // transposed at a time
constexpr std::uint64_t least_work = 1ull << 24;  // pairs of bytes; below, one thread is used

// Transposes eight rows of one byte into eight bytes, one per bit (little-endian).
std::uint64_t transpose(std::uint64_t x) {
    std::uint64_t swap = (x ^ x >> 7) & 0x00aa00aa00aa00aau;
    x ^= swap ^ swap << 7;
    swap = (x ^ x >> 14) & 0x0000cccc0000ccccu;
    x ^= swap ^ swap << 14;
    swap = (x ^ x >> 28) & 0x00000000f0f0f0f0u;
    return x ^ swap ^ swap << 28;
}

// Writes the transposed codes to out[chunk][bit][chunk_bytes], with zeros after the last item.
void transpose_codes(const std::uint8_t* codes, std::size_t items, unsigned bits, std::vector<std::uint8_t>& out) {
    const std::size_t bytes = code_bytes(bits), chunks = (items + chunk_items - 1) / chunk_items;
    out.assign(chunks * bits * chunk_bytes, 0);
    for (std::size_t item = 0; item < items; item += 8) {
        std::uint8_t* const to = out.data() + item / chunk_items * bits * chunk_bytes + item % chunk_items / 8;
        for (std::size_t byte = 0; byte < bytes; ++byte) {
            std::uint64_t square = 0;
            for (std::size_t i = 0; i < std::min<std::size_t>(8, items - item); ++i)
                square |= std::uint64_t{codes[(item + i) * bytes + byte]} << 8 * i;
            square = transpose(square);
            for (std::size_t bit = 8 * byte; bit < std::min<std::size_t>(bits, 8 * byte + 8); ++bit, square >>= 8)
                to[bit * chunk_bytes] = static_cast<std::uint8_t>(square);
        }
    }
}

}  // namespace

void bit_pairs(const Codes& codes, std::int64_t* counts, unsigned threads, const Interrupt* interrupt) {
    SearchOptions options;
    options.threads = threads;
    check(codes, nullptr, 0, options);
    const auto& kernels = active_kernels();
    const std::size_t bits = codes.bits;
    const bool small = codes.size * code_bytes(codes.bits) < least_work / bits;
    if (!threads) threads = small ? 1 : pool::available_threads();
    std::fill_n(counts, bits * bits, 0);
    std::vector<std::uint8_t> transposed;
    Stop stop(interrupt);
    constexpr std::size_t items_per_round = chunks_per_round * chunk_items;
    for (std::size_t begin = 0; begin < codes.size; begin += items_per_round) {
        const std::size_t items = std::min(items_per_round, codes.size - begin);
        transpose_codes(codes.data + begin * code_bytes(codes.bits), items, codes.bits, transposed);
        const auto chunk = [&](std::size_t i) { return transposed.data() + i * bits * chunk_bytes; };
        const std::size_t chunks = (items + chunk_items - 1) / chunk_items;
        // The diagonal: the number of ones of each bit, which the formula for pairs needs.
        for (std::size_t i = 0; i < chunks; ++i)
            for (std::size_t bit = 0; bit < bits; ++bit) {
                const std::uint8_t zero[chunk_bytes] = {};
                std::uint16_t ones;
                kernels.distances(chunk(i) + bit * chunk_bytes, 1, chunk_bytes, zero, &ones);
                counts[bit * bits + bit] += ones;
            }
        // Above the diagonal: sums of distances.
        const auto body = [&](std::size_t bit) {
            stop.check();
            std::uint16_t distances[kernels::max_block_rows];
            for (std::size_t i = 0; i < chunks; ++i)
                for (std::size_t first = bit + 1; first < bits; first += kernels::max_block_rows) {
                    const std::size_t some = std::min<std::size_t>(kernels::max_block_rows, bits - first);
                    kernels.distances(chunk(i) + first * chunk_bytes, some, chunk_bytes, chunk(i) + bit * chunk_bytes,
                                      distances);
                    for (std::size_t j = 0; j < some; ++j) counts[bit * bits + first + j] += distances[j];
                }
        };
        pool::run(bits, threads, body, stop.while_waiting());
    }
    for (std::size_t i = 0; i < bits; ++i)
        for (std::size_t j = i + 1; j < bits; ++j) {
            const std::int64_t distance = counts[i * bits + j];
            counts[i * bits + j] = counts[j * bits + i] = (counts[i * bits + i] + counts[j * bits + j] - distance) / 2;
        }
}

}  // namespace idcwh
