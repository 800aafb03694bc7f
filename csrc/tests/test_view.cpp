// Snapshots of many segments with ids in any order, compared with a plain list of (id, code).
#include <idcwh/index.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <string>

#include "check.hpp"
#include "index/id_table.hpp"
#include "index/subsearch.hpp"
#include "index/view.hpp"
#include "model.hpp"
#include "structures/structures.hpp"

namespace {

using idcwh::detail::Segment;
using idcwh::detail::Structures;

// The ids of a segment: row numbers from a first one on; ascending after those of the previous segment; ascending among
// those of other segments; in any order.
enum class Ids { consecutive, ascending, interleaved, shuffled };

struct TestView final : idcwh::detail::View {
    // The memory of a segment. Each buffer has its exact size, so that a sanitizer detects reads beyond it.
    struct Memory {
        std::vector<std::uint8_t> codes;
        std::vector<std::int64_t> ids;
        std::vector<std::uint64_t> alive;
        std::unique_ptr<idcwh::IdTable> table;
        std::shared_ptr<const Structures> structures;
    };
    std::deque<Memory> memory_of;
    std::vector<Segment> list;
    check::Model model;
    bool gone = false;

    explicit TestView(unsigned width) : model{width, {}, {}} { bits = width; }
    std::span<const Segment> segments() const override { return list; }
    void check() const override {
        if (gone) throw idcwh::Error(idcwh::ErrorCode::unsupported, "the file was truncated");
    }

    // Adds a segment whose ids are of this kind. One in `dead` rows is dead (0: none). The structure covers the first
    // `covered` rows.
    void add(Ids kind, const std::vector<std::int64_t>& ids, std::vector<std::uint8_t> codes, unsigned dead,
             std::size_t covered, std::mt19937& random) {
        Memory& memory = memory_of.emplace_back();
        Segment segment;
        const std::size_t rows = ids.size(), bytes = idcwh::code_bytes(bits);
        segment.bits = bits;
        segment.rows = segment.live = rows;
        memory.codes = std::move(codes);
        memory.codes.insert(memory.codes.begin(), 0xff);  // an odd address
        segment.codes = memory.codes.data() + 1;
        if (kind == Ids::consecutive) {
            segment.first_id = rows ? ids[0] : 0;
        } else {
            memory.ids = ids;
            segment.ids = memory.ids.data();
            segment.ascending = kind != Ids::shuffled;
        }
        if (kind == Ids::shuffled) {
            memory.table = std::make_unique<idcwh::IdTable>(rows);
            for (std::size_t row = 0; row < rows; ++row) memory.table->insert(ids[row], row);
            segment.table = memory.table.get();
        }
        if (covered) {
            Segment front = segment;
            front.rows = front.live = covered;
            memory.structures = idcwh::detail::build_structures(front, {});
            CHECK(memory.structures != nullptr);
            segment.structures = memory.structures.get();
        }
        if (dead) {
            memory.alive.assign((rows + 63) / 64, ~std::uint64_t{0});  // bits after the last row are ignored
            for (std::size_t row = 0; row < rows; ++row)
                if (random() % dead == 0) memory.alive[row / 64] &= ~(std::uint64_t{1} << row % 64), --segment.live;
            segment.alive = memory.alive.data();
        }
        for (std::size_t row = 0; row < rows; ++row) {
            next_id = std::max(next_id, static_cast<std::uint64_t>(ids[row]) + 1);
            if (!segment.is_alive(row)) continue;
            model.ids.push_back(ids[row]);
            model.codes.emplace_back(segment.code(row), segment.code(row) + bytes);
        }
        live += segment.live;
        list.push_back(segment);
    }
};

std::vector<std::uint8_t> some_codes(std::size_t rows, unsigned bits, bool repeating, std::mt19937& random) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    auto codes = check::random_codes(rows, bits, static_cast<std::uint32_t>(random()));
    for (std::size_t row = 0; repeating && row < rows; ++row)
        std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(random() % (1 + rows / 20) * bytes), bytes,
                    codes.begin() + static_cast<std::ptrdiff_t>(row * bytes));
    return codes;
}

// Makes segments of up to `most` rows, with one kind of ids or all kinds in turn. The middle segment has `big` rows and
// a structure. Some ids that are dead in one segment are alive in a later one.
std::shared_ptr<TestView> make_view(unsigned bits, std::size_t count, int kind, bool some_dead, std::size_t most,
                                    std::size_t big, bool repeating, std::mt19937& random) {
    auto view = std::make_shared<TestView>(bits);
    const std::size_t universe = count * (most + 10) + big;
    std::vector<std::int64_t> scattered(universe), freed;  // odd ids; the others are even
    for (std::size_t i = 0; i < universe; ++i) scattered[i] = static_cast<std::int64_t>(2 * i + 1);
    std::shuffle(scattered.begin(), scattered.end(), random);
    std::int64_t next = kind == 4 ? static_cast<std::int64_t>(2 * universe) : random() % 2 ? 0 : 77;
    for (std::size_t s = 0; s < count; ++s) {
        const auto ids_are = static_cast<Ids>(kind == 4 ? s % 4 : static_cast<std::size_t>(kind));
        const bool is_big = big && s == count / 2;
        const std::size_t rows = is_big ? big : random() % 5 == 0 ? 0 : random() % most;
        std::vector<std::int64_t> ids(rows);
        if (ids_are == Ids::consecutive) {
            std::iota(ids.begin(), ids.end(), next);
            next += static_cast<std::int64_t>(rows + random() % 3);
        } else if (ids_are == Ids::ascending) {
            for (auto& id : ids) id = next += 1 + static_cast<std::int64_t>(random() % 3);
            next += 1;
        } else {
            for (auto& id : ids) {
                auto& from = freed.empty() || random() % 4 ? scattered : freed;
                id = from.back();
                from.pop_back();
            }
            if (ids_are == Ids::interleaved) std::sort(ids.begin(), ids.end());
        }
        const unsigned dead = some_dead && random() % 3 ? 1 + static_cast<unsigned>(random() % 6) : 0;
        view->add(ids_are, ids, some_codes(rows, bits, repeating, random), dead, is_big ? rows - rows / 9 : 0, random);
        for (std::size_t row = 0; row < rows; ++row)
            if (!view->list.back().is_alive(row)) freed.push_back(ids[row]);
    }
    return view;
}

TEST("a snapshot of segments of every kind equals a list of codes") {
    idcwh::detail::always_structures.store(true);
    std::mt19937 random(1);
    for (const unsigned bits : {1u, 12u, 48u, 64u, 130u})
        for (const std::size_t count : {0, 1, 2, 7, 40})
            for (int kind = 0; kind < 5; ++kind)
                for (const bool dead : {false, true}) {
                    const auto view = make_view(bits, count, kind, dead, count > 7 ? 30 : 150, 0, false, random);
                    check::compare_everywhere(idcwh::Snapshot(view), view->model, random);
                }
}

TEST("a snapshot with a structure on one segment equals a list of codes") {
    idcwh::detail::always_structures.store(true);
    std::mt19937 random(2);
    for (const unsigned bits : {12u, 48u, 64u, 130u})
        for (int kind = 0; kind < 5; ++kind) {
            const auto view = make_view(bits, 7, kind, kind % 2, 200, 3000, true, random);
            CHECK(idcwh::Snapshot(view).structures().size() == 1);
            check::compare_everywhere(idcwh::Snapshot(view), view->model, random);
        }
    // enough results to merge on several threads
    const auto view = make_view(64, 5, 4, true, 2000, 80000, false, random);
    const idcwh::Snapshot snapshot(view);
    CHECK(snapshot.structures()[0].name == "multi-index");
    check::compare_everywhere(snapshot, view->model, random);
    CHECK(snapshot.memory() >= 80000 * 8 + snapshot.structures()[0].bytes);
}

TEST("the cost of two segments is the sum of both") {
    idcwh::detail::always_structures.store(false);
    std::mt19937 random(3);
    const auto one = make_view(64, 1, 0, false, 0, 80000, false, random);
    const auto two = std::make_shared<TestView>(64);
    two->list = {one->list[0], one->list[0]};
    two->list[1].first_id = 100000;
    two->live = 2 * one->live;
    const auto a = idcwh::Snapshot(one).explain_radius(1), b = idcwh::Snapshot(two).explain_radius(1);
    CHECK(a.chosen.name == "multi-index");
    CHECK(b.chosen.name == "multi-index");
    CHECK(b.others.size() == 1);
    CHECK(b.others[0].name == "scan");
    const auto doubled = [](double x, double y) { return y > 1.999 * x && y < 2.001 * x; };
    CHECK(doubled(a.chosen.nanoseconds, b.chosen.nanoseconds));
    CHECK(doubled(a.others[0].nanoseconds, b.others[0].nanoseconds));
    two->list[1].structures = nullptr;
    const auto mixed = idcwh::Snapshot(two).explain_radius(1);
    CHECK(mixed.chosen.name == "multi-index");
    CHECK(mixed.chosen.because.find(std::to_string(80000 / 9 + 80000) + " other codes are scanned") !=
          std::string::npos);
    CHECK(idcwh::Snapshot(make_view(64, 7, 0, false, 100, 0, false, random)).explain_radius(3).chosen.name == "scan");
    CHECK(idcwh::Snapshot(make_view(64, 0, 0, false, 100, 0, false, random)).explain_topk(3).chosen.name == "scan");
}

template <class Action>
void throws(idcwh::ErrorCode code, Action action) {
    try {
        action();
        CHECK(!"an error was expected");
    } catch (const idcwh::Error& error) {
        CHECK(error.code() == code);
    }
}

TEST("a snapshot whose memory is gone raises an error") {
    idcwh::detail::always_structures.store(false);
    using idcwh::ErrorCode;
    std::mt19937 random(4);
    const auto view = make_view(64, 7, 4, true, 100, 0, false, random);
    const idcwh::Snapshot snapshot(view);
    const std::size_t n = snapshot.size();
    const std::vector<std::uint8_t> mask(n + 1), query(8);
    for (const std::size_t size : {n - 1, n + 1})
        throws(ErrorCode::invalid_argument, [&] { snapshot.eligible(idcwh::Where::of_bytes(mask.data(), size)); });
    throws(ErrorCode::invalid_argument, [&] { snapshot.eligible(idcwh::Where::of_bitmap(nullptr, n)); });
    throws(ErrorCode::invalid_argument, [&] { snapshot.eligible(idcwh::Where::of_ids(nullptr, 1)); });
    std::vector<std::uint8_t> codes(n * 8);
    std::vector<std::int32_t> distances(n);
    std::vector<std::int64_t> ids(n), counts(65);
    const auto missing = static_cast<std::int64_t>(view->next_id);
    throws(ErrorCode::not_found, [&] { snapshot.get(&missing, 1, codes.data()); });

    // Without the memory, no operation returns a result.
    const std::int64_t here = view->model.ids[0];
    view->gone = true;
    throws(ErrorCode::unsupported, [&] { snapshot.topk(query.data(), 1, 3, distances.data(), ids.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.topk_ties(query.data(), 1, 3); });
    throws(ErrorCode::unsupported, [&] { snapshot.radius(query.data(), 1, 3); });
    throws(ErrorCode::unsupported, [&] { snapshot.count(query.data(), 1, 3, counts.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.histogram(query.data(), 1, counts.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.rank(query.data(), 1, distances.data(), ids.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.contains(here); });
    throws(ErrorCode::unsupported, [&] { snapshot.get(&here, 1, codes.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.get(&missing, 1, codes.data()); });  // missing or not read
    throws(ErrorCode::unsupported, [&] { snapshot.copy(codes.data(), ids.data()); });
    throws(ErrorCode::unsupported, [&] { snapshot.eligible({}); });
    throws(ErrorCode::unsupported, [&] { snapshot.explain_topk(3); });
}

// Covers rows with and without a structure, filters of every share, and batches.
TEST("explain names the searchers that run, under each filter") {
    std::mt19937 random(3);
    const std::size_t rows = 40000;
    std::vector<std::int64_t> ids(rows);
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    TestView view(48);
    view.add(Ids::consecutive, ids, some_codes(rows, 48, true, random), 0, rows - 500, random);
    const auto query = some_codes(256, 48, false, random);
    std::vector<std::vector<std::uint8_t>> masks;
    for (const unsigned out_of : {2u, 10u, 100u, 1000u, 20000u}) {
        auto& mask = masks.emplace_back(rows);
        for (auto& kept : mask) kept = random() % out_of == 0;
        mask[7] = 1;
    }
    std::size_t scans = 0, structures = 0;
    const auto compare = [&](const idcwh::Where& where, const idcwh::detail::SearchRequest& request) {
        idcwh::detail::FilteredView filtered(view, view.segments(), where);
        const std::string planned = idcwh::detail::explain(filtered, request).chosen.name;
        const auto parts = subsearches(filtered, request, query.data(), {}, 1);
        CHECK(parts.front().searcher->name() == planned);
        (planned == "scan" ? scans : structures) += where.kind != idcwh::Where::Kind::all;
    };
    std::vector<idcwh::Where> filters{{}, idcwh::Where::id_range(100, 400), idcwh::Where::id_range(rows - 600, rows)};
    for (const auto& mask : masks) filters.push_back(idcwh::Where::of_bytes(mask.data(), rows));
    for (const auto& where : filters)
        for (const std::size_t nq : {1u, 8u, 256u}) {
            for (const std::size_t k : {1u, 10u, 1000u}) compare(where, {idcwh::Work::topk, nq, k});
            for (const std::size_t radius : {0u, 3u, 20u}) compare(where, {idcwh::Work::radius, nq, radius});
        }
    CHECK(scans > 0);
    CHECK(structures > 0);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
