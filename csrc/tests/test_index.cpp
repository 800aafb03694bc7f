// Index compared with a plain list of (id, code), through random adds and removals. After each, every operation is
// compared with every kind of selection.
#include <idcwh/index.hpp>

#include <algorithm>
#include <limits>

#include "check.hpp"
#include "index/planner.hpp"
#include "model.hpp"
#include "structures/structures.hpp"

namespace {

using check::compare;
using check::Model;

void compare_everywhere(const idcwh::Index& index, const Model& model, std::mt19937& random) {
    CHECK(index.size() == model.ids.size());
    check::compare_everywhere(index.snapshot(), model, random);
}

// Order 0: default ids; 1: ascending with gaps; 2: in any order.
void live_through(unsigned bits, unsigned order, bool optimized, std::uint32_t seed) {
    std::mt19937 random(seed);
    idcwh::Index index(bits);
    Model model{bits, {}, {}};
    std::int64_t next = 0;
    for (int step = 0; step < 6; ++step) {
        const std::size_t n = random() % 200;
        const auto codes = check::random_codes(n, bits, static_cast<std::uint32_t>(random()));
        std::vector<std::int64_t> ids(n);
        if (order == 0) {
            index.add(codes.data(), n, nullptr, ids.data());
            for (std::size_t i = 0; i < n; ++i) CHECK(ids[i] == next + static_cast<std::int64_t>(i));
        } else {
            for (std::size_t i = 0; i < n; ++i) ids[i] = next + static_cast<std::int64_t>(2 * i + 1);
            if (order == 2) std::shuffle(ids.begin(), ids.end(), random);
            index.add(codes.data(), n, ids.data());
        }
        for (std::size_t i = 0; i < n; ++i) next = std::max(next, ids[i] + 1);
        const std::size_t bytes = idcwh::code_bytes(bits);
        for (std::size_t i = 0; i < n; ++i) {
            model.ids.push_back(ids[i]);
            model.codes.emplace_back(codes.begin() + static_cast<std::ptrdiff_t>(i * bytes),
                                     codes.begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
        }
        if (optimized && step % 4 == 1) index.optimize();
        compare_everywhere(index, model, random);

        const auto before = index.snapshot();
        const Model old = model;
        std::vector<std::int64_t> gone;
        const unsigned share = random() % 2 ? 20 : 2;
        for (std::size_t row = model.ids.size(); row-- > 0;)
            if (random() % share == 0) {
                gone.push_back(model.ids[row]);
                model.ids.erase(model.ids.begin() + static_cast<std::ptrdiff_t>(row));
                model.codes.erase(model.codes.begin() + static_cast<std::ptrdiff_t>(row));
            }
        CHECK(index.remove(gone.data(), gone.size()) == gone.size());
        compare_everywhere(index, model, random);
        if (order == 2 && !gone.empty() && random() % 2) {  // an id may be used again
            const auto code = check::random_codes(1, bits, 5);
            index.add(code.data(), 1, gone.data());
            model.ids.push_back(gone[0]);
            model.codes.push_back(code);
            compare_everywhere(index, model, random);
        }
        // Older snapshots are unchanged.
        CHECK(before.size() == old.ids.size());
        compare(before, old, check::random_codes(1, bits, 3), {}, [](std::size_t) { return true; });
    }
}

// Enough codes for a multi-index, changed after the build. The oracle is the engine without an index.
void structures_of_many_codes(unsigned bits, bool repeating, bool shuffled) {
    const std::size_t bytes = idcwh::code_bytes(bits), n = 70000, more = 700;
    std::mt19937 random(bits);
    auto codes = check::random_codes(n + more, bits, bits);
    for (std::size_t row = 0; repeating && row < n + more; ++row)
        std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(random() % 900 * bytes), bytes,
                    codes.begin() + static_cast<std::ptrdiff_t>(row * bytes));
    std::vector<std::int64_t> ids(n + more);
    for (std::size_t row = 0; row < ids.size(); ++row) ids[row] = static_cast<std::int64_t>(3 * row + 7);
    if (shuffled) std::shuffle(ids.begin() + n - 5, ids.end(), random);  // the covered rows too, or only later ones
    idcwh::Index index(bits);
    index.add(codes.data(), n, ids.data());
    index.optimize();
    CHECK(index.snapshot().structures().size() == 1);
    index.add(codes.data() + n * bytes, more, ids.data() + n);
    std::vector<std::int64_t> gone;
    for (std::size_t row = 0; row < ids.size(); row += 1 + random() % 40) gone.push_back(ids[row]);
    CHECK(index.remove(gone.data(), gone.size()) == gone.size());
    const auto snapshot = index.snapshot();
    const std::size_t left = snapshot.size();
    CHECK(left == n + more - gone.size());
    CHECK(snapshot.structures()[0].codes == n);
    std::vector<std::uint8_t> now(left * bytes);
    snapshot.copy(now.data(), ids.data());

    const std::size_t nq = 4, k = 60;
    std::vector<std::uint8_t> queries(now.begin() + static_cast<std::ptrdiff_t>(1000 * bytes),
                                      now.begin() + static_cast<std::ptrdiff_t>((1000 + nq) * bytes));
    std::vector<std::uint8_t> mask(left);
    for (auto& byte : mask) byte = random() % 5 == 0;
    for (const bool masked : {false, true}) {
        idcwh::QueryOptions options;
        idcwh::SearchOptions plain;
        plain.ids = ids.data();
        if (masked) {
            options.where = idcwh::Where::of_bytes(mask.data(), left);
            plain.rows = idcwh::Rows::of_bytes(mask.data());
        }
        const idcwh::Codes all{now.data(), left, bits};
        std::vector<std::int32_t> distances(nq * k), expected_distances(nq * k);
        std::vector<std::int64_t> found(nq * k), expected(nq * k);
        CHECK(snapshot.topk(queries.data(), nq, k, distances.data(), found.data(), options) == k);
        idcwh::topk(all, queries.data(), nq, k, expected_distances.data(), expected.data(), plain);
        CHECK(found == expected);
        CHECK(distances == expected_distances);
        const auto ties = snapshot.topk_ties(queries.data(), nq, k, options);
        const auto expected_ties = idcwh::topk_ties(all, queries.data(), nq, k, plain);
        CHECK(ties.limits == expected_ties.limits);
        CHECK(ties.ids == expected_ties.ids);
        CHECK(ties.distances == expected_ties.distances);
        for (const unsigned radius : {0u, 2u, bits / 3}) {
            const auto hits = snapshot.radius(queries.data(), nq, radius, options);
            const auto expected_hits = idcwh::radius(all, queries.data(), nq, radius, plain);
            CHECK(hits.limits == expected_hits.limits);
            CHECK(hits.ids == expected_hits.ids);
            CHECK(hits.distances == expected_hits.distances);
            std::vector<std::int64_t> counts(nq), expected_counts(nq);
            snapshot.count(queries.data(), nq, radius, counts.data(), options);
            idcwh::count(all, queries.data(), nq, radius, expected_counts.data(), plain);
            CHECK(counts == expected_counts);
        }
        const std::size_t rows = snapshot.eligible(options.where);
        distances.resize(nq * rows), expected_distances.resize(nq * rows);
        found.resize(nq * rows), expected.resize(nq * rows);
        CHECK(snapshot.rank(queries.data(), nq, distances.data(), found.data(), options) == rows);
        idcwh::rank(all, queries.data(), nq, expected_distances.data(), expected.data(), plain);
        CHECK(found == expected);
        CHECK(distances == expected_distances);
    }
    // explain_topk() names the path that is used. Dropping the structure leaves nothing.
    CHECK(snapshot.explain_topk(1).chosen.name == (repeating ? "groups" : "multi-index"));
    index.drop_structures();
    CHECK(index.snapshot().structures().empty());
    CHECK(snapshot.structures().size() == 1);
    CHECK(index.snapshot().explain_topk(1).chosen.name == "scan");
}

template <class Action>
void throws(idcwh::ErrorCode code, const char* words, Action action) {
    try {
        action();
    } catch (const idcwh::Error& error) {
        CHECK(error.code() == code);
        CHECK(std::string(error.what()).find(words) != std::string::npos);
        return;
    }
    CHECK(!"an error was expected");
}

TEST("calls that raise leave the index as it was") {
    using idcwh::ErrorCode;
    throws(ErrorCode::invalid_argument, "bits: is invalid (found 0, expected 1 to 65535)",
           [] { idcwh::Index index(0); });
    idcwh::Index index(12);
    const std::uint8_t codes[] = {1, 2, 3, 4, 5, 6}, padded[] = {0, 16};
    index.add(codes, 3);
    const std::int64_t twice[] = {7, 8, 7}, taken[] = {9, 2, 10}, negative[] = {5, -1, 6}, missing[] = {0, 77};
    throws(ErrorCode::invalid_argument, "7 is given twice", [&] { index.add(codes, 3, twice); });
    throws(ErrorCode::invalid_argument, "2 already exists in the index", [&] { index.add(codes, 3, taken); });
    throws(ErrorCode::invalid_argument, "ids: is invalid (found -1, expected at least 0)",
           [&] { index.add(codes, 3, negative); });
    throws(ErrorCode::invalid_argument, "codes: is invalid (found nonzero padding bits", [&] { index.add(padded, 1); });
    throws(ErrorCode::invalid_argument, "codes: is invalid (found null, expected 1 codes)",
           [&] { index.add(nullptr, 1); });
    throws(ErrorCode::invalid_argument, "address space", [&] { index.add(codes, ~std::size_t{0} / 2); });
    throws(ErrorCode::not_found, "id 77 is missing; the index contains 3 codes", [&] { index.remove(missing, 2); });
    throws(ErrorCode::invalid_argument, "(found a mask of 2 entries, expected one per code: 3)", [&] {
        std::int32_t d;
        std::int64_t i;
        idcwh::QueryOptions options;
        options.where = idcwh::Where::of_bytes(codes, 2);
        index.snapshot().topk(codes, 1, 1, &d, &i, options);
    });
    CHECK(index.size() == 3);
    const std::int64_t last = std::numeric_limits<std::int64_t>::max();
    index.add(codes, 1, &last);
    throws(ErrorCode::invalid_argument, "none are left", [&] { index.add(codes, 1); });
    CHECK(index.size() == 4);
    CHECK(index.snapshot().contains(last));
    CHECK(!index.snapshot().contains(3));
}

// Ids have 64 bits, even if row numbers have 32.
TEST("ids beyond 32 bits are not row numbers") {
    const auto codes = check::random_bytes(3, 1);
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1} << 33}) {
        idcwh::Index index(8);
        const std::int64_t ids[] = {first, first + 1, first + 2};
        index.add(codes.data(), 3, ids);
        const auto view = index.snapshot();
        const std::int64_t other = first + (std::int64_t{1} << 32);
        CHECK(view.contains(first + 1));
        CHECK(!view.contains(other + 1));
        CHECK(view.eligible(idcwh::Where::id_range(first + 1, other + 1)) == 2);
        CHECK(view.eligible(idcwh::Where::id_range(other, other + 3)) == 0);
    }
}

TEST("a snapshot outlives its index") {
    auto index = std::make_unique<idcwh::Index>(8);
    const std::uint8_t code = 3;
    index->add(&code, 1);
    std::vector<idcwh::Snapshot> held;
    for (int i = 0; i < 700; ++i) {  // more than one chunk of versions
        held.push_back(index->snapshot());
        index->add(&code, 1);
    }
    index.reset();
    for (std::size_t i = 0; i < held.size(); ++i) {
        CHECK(held[i].size() == i + 1);
        std::vector<std::int32_t> distances(i + 1);
        std::vector<std::int64_t> ids(i + 1);
        CHECK(held[i].topk(&code, 1, i + 1, distances.data(), ids.data()) == i + 1);
        CHECK(ids[i] == static_cast<int>(i));
    }
}

TEST("an index equals a list of codes through adds, removals and optimize") {
    idcwh::detail::always_structures.store(true);
    std::uint32_t seed = 1;
    for (const unsigned bits : {8u, 12u, 64u, 100u})
        for (const unsigned order : {0u, 1u, 2u})
            for (const bool optimized : {false, true}) live_through(bits, order, optimized, ++seed);
}

TEST("an index with structures that changed since equals the scan") {
    idcwh::detail::always_structures.store(true);
    for (const bool repeating : {false, true})
        for (const bool shuffled : {false, true}) structures_of_many_codes(64, repeating, shuffled);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
