// Finds the ten nearest of a million random 64-bit codes, and all codes within a radius of 12.
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <cstdio>
#include <random>
#include <vector>

int main() {
    constexpr unsigned bits = 64;
    constexpr std::size_t n = 1'000'000, k = 10;
    std::mt19937 random(1);
    std::vector<std::uint8_t> memory(n * idcwh::code_bytes(bits)), query(idcwh::code_bytes(bits));
    for (auto& byte : memory) byte = static_cast<std::uint8_t>(random());
    for (auto& byte : query) byte = static_cast<std::uint8_t>(random());

    try {
        const idcwh::Codes codes{memory.data(), n, bits};
        std::vector<std::int32_t> distances(k);
        std::vector<std::int64_t> ids(k);
        idcwh::topk(codes, query.data(), 1, k, distances.data(), ids.data());
        std::printf("on %s:\n", idcwh::isa_active().c_str());
        for (std::size_t i = 0; i < k; ++i)
            std::printf("%2zu  distance %2d  id %lld\n", i + 1, distances[i], static_cast<long long>(ids[i]));
        const auto near = idcwh::radius(codes, query.data(), 1, 12);
        std::printf("%zu within radius 12\n", near.ids.size());
    } catch (const idcwh::Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
