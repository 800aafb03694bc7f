// The self check, which finds each defective kernel and chooses the next lower instruction set.
#include "check.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/self_check.hpp"

#include <idcwh/isa.hpp>

#include <cstring>
#include <string>

namespace {

using idcwh::kernels::Hit;
using idcwh::kernels::Kernels;
using idcwh::kernels::TileQuery;
namespace kernels = idcwh::kernels;

// The defect adds small errors to the results of this kernel, at some widths only.
const Kernels* good;

std::size_t drops_last_hit(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                           std::uint32_t limit, Hit* hits) {
    const std::size_t count = good->scan(codes, rows, bytes, query, limit, hits);
    return bytes == 20 && count ? count - 1 : count;
}
void off_by_one(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                std::uint16_t* out) {
    good->distances(codes, rows, bytes, query, out);
    if (bytes == 3) ++out[rows - 1];
}
std::size_t one_more(const std::uint64_t* words, std::size_t count) { return good->count_bits(words, count) + 1; }
void first_bit(const std::uint8_t* bytes, std::size_t words, std::uint64_t* out) {
    good->pack_bytes(bytes, words, out);
    out[0] ^= 2;
}
kernels::Listed from_zero(const std::uint64_t* words, std::size_t count, std::int64_t, std::int64_t* out,
                          std::size_t room) {
    return good->list_bits(words, count, 0, out, room);
}
void wrong_plane(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes) {
    good->spread(codes, rows, bytes, planes);
    if (bytes == 33) planes[good->group_rows] ^= 1;
}
void wrong_table(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table) {
    good->prepare(query, bytes, table);
    if (bytes == 8) std::memset(table, 1, 16);
}
void deaf_tile(const std::uint8_t* codes, const std::uint8_t* planes, std::size_t rows, std::size_t bytes,
               TileQuery* queries) {
    good->scan_tile(codes, planes, rows, bytes, queries);
    queries[3].count = 0;
}

void check_found(const char* name, Kernels broken) {
    const char* found = idcwh::differing_kernel(broken);
    CHECK((found && std::string(found) == name));
    const auto refused = idcwh::candidate(broken, true);
    CHECK(refused.missing.find(name) != std::string::npos);
    CHECK(idcwh::best_of({{&kernels::portable, ""}, refused}) == &kernels::portable);
}

void check_defects(const Kernels& kernels) {
    good = &kernels;
    CHECK(idcwh::differing_kernel(kernels) == nullptr);
    const auto with = [&](auto change) {
        Kernels broken = kernels;
        change(broken);
        return broken;
    };
    check_found("scan", with([](Kernels& k) { k.scan = drops_last_hit; }));
    check_found("distances", with([](Kernels& k) { k.distances = off_by_one; }));
    check_found("count_bits", with([](Kernels& k) { k.count_bits = one_more; }));
    check_found("pack_bytes", with([](Kernels& k) { k.pack_bytes = first_bit; }));
    check_found("list_bits", with([](Kernels& k) { k.list_bits = from_zero; }));
    if (!kernels.spread) return;
    check_found("scan_tile", with([](Kernels& k) { k.spread = wrong_plane; }));
    check_found("scan_tile", with([](Kernels& k) { k.prepare = wrong_table; }));
    check_found("scan_tile", with([](Kernels& k) { k.scan_tile = deaf_tile; }));
}

TEST("each defective kernel is found, and the next lower instruction set is chosen") {
    for (const auto& isa : idcwh::isa_list()) {
        if (!isa.supported) continue;
        idcwh::isa_force(isa.name);
        check_defects(idcwh::active_kernels());
    }
}

TEST("a candidate that the processor lacks is not chosen, a good one is") {
    CHECK(idcwh::candidate(kernels::portable, false).missing.find("is not supported") != std::string::npos);
    const auto fine = idcwh::candidate(idcwh::active_kernels(), true);
    CHECK(idcwh::best_of({{&kernels::portable, ""}, fine}) == fine.kernels);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
