// The kernels that are chosen on this processor: test_dispatch NAME, or no name to accept any. Run on emulated
// processors, where an instruction too many is a crash.
#include <idcwh/crc32c.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "check.hpp"

int main(int argc, char** argv) {
    std::string best;
    int active = 0;
    for (const auto& isa : idcwh::isa_list()) {
        if (isa.supported) best = isa.name;
        active += isa.active;
    }
    CHECK(active == 1);
    CHECK(idcwh::isa_active() == best);
    if (argc > 1 && best != argv[1]) {
        std::printf("expected %s, found %s\n", argv[1], best.c_str());
        check::fail(__FILE__, __LINE__, "best == argv[1]");
    }

    CHECK(idcwh::crc32c("123456789", 9) == 0xE3069283u);
    for (const unsigned bits : {12u, 64u, 100u, 256u, 512u}) {
        const std::size_t n = 1000, nq = 9, bytes = idcwh::code_bytes(bits);
        const auto codes = check::random_codes(n, bits, bits), queries = check::random_codes(nq, bits, bits + 1);
        std::vector<std::int32_t> distances(nq * n);
        std::vector<std::int64_t> ids(nq * n);
        for (const std::size_t k : {std::size_t{10}, n}) {
            idcwh::topk({codes.data(), n, bits}, queries.data(), nq, k, distances.data(), ids.data());
            for (std::size_t q = 0; q < nq; ++q) {
                std::vector<std::pair<std::uint32_t, std::int64_t>> ranking;
                for (std::size_t row = 0; row < n; ++row)
                    ranking.emplace_back(check::distance(&codes[row * bytes], &queries[q * bytes], bytes), row);
                std::sort(ranking.begin(), ranking.end());
                for (std::size_t i = 0; i < k; ++i) CHECK(ids[q * k + i] == ranking[i].second);
            }
        }
    }
    return check::finish();
}
