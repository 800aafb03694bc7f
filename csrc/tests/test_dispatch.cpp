// The kernels that are chosen on this processor: test_dispatch [NAME]. Without a name, any are accepted. On emulated
// processors, an unsupported instruction is a crash.
#include <idcwh/crc32c.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <string>

#include "check.hpp"
#include "oracle.hpp"

namespace {

std::string expected;  // name of the instruction set; empty: any

TEST("the best supported instruction set is active") {
    std::string best;
    int active = 0;
    for (const auto& isa : idcwh::isa_list()) {
        if (isa.supported) best = isa.name;
        active += isa.active;
    }
    CHECK(active == 1);
    CHECK(idcwh::isa_active() == best);
    if (!expected.empty()) CHECK(best == expected);
}

TEST("crc32c of 123456789 is the known checksum") { CHECK(idcwh::crc32c("123456789", 9) == 0xE3069283u); }

TEST("topk equals the oracle for several widths") {
    for (const unsigned bits : {12u, 64u, 100u, 256u, 512u}) {
        const std::size_t n = 1000, nq = 9;
        const auto memory = check::random_codes(n, bits, bits), queries = check::random_codes(nq, bits, bits + 1);
        const idcwh::Codes codes{memory.data(), n, bits};
        const auto rankings = check::brute_force(codes, queries);
        std::vector<std::int32_t> distances(nq * n);
        std::vector<std::int64_t> ids(nq * n);
        for (const std::size_t k : {std::size_t{10}, n}) {
            idcwh::topk(codes, queries.data(), nq, k, distances.data(), ids.data());
            for (std::size_t q = 0; q < nq; ++q)
                for (std::size_t i = 0; i < k; ++i) CHECK(ids[q * k + i] == rankings[q][i].second);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && argv[1][0] != '-') expected = argv[1];
    return check::run(argc, argv);
}
