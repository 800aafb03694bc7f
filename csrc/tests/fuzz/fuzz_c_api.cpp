// Turns bytes into the operations on an index: adds, removals, optimize and snapshots, with searches of every kind and
// a join. Each is compared with brute force. The same codes are also searched in memory, with every kind of selection.
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <tuple>

#include "searches.hpp"

namespace fuzz {
namespace {

constexpr std::size_t most_codes = 3000;

struct View {
    idcwh_snapshot* snapshot = nullptr;
    Model model;
};

struct SnapshotEngine {
    idcwh_snapshot* view;
    const idcwh_query_options* with;
    int eligible(std::size_t* count) const { return idcwh_snapshot_eligible(view, &with->where, count); }
    int topk(const std::uint8_t* q, std::size_t nq, std::size_t k, std::int32_t* d, std::int64_t* i,
             std::size_t* kept) const {
        return idcwh_snapshot_topk(view, q, nq, k, with, d, i, kept);
    }
    int topk_ties(const std::uint8_t* q, std::size_t nq, std::size_t k, idcwh_hits** hits) const {
        return idcwh_snapshot_topk_ties(view, q, nq, k, with, hits);
    }
    int radius(const std::uint8_t* q, std::size_t nq, unsigned radius, idcwh_hits** hits) const {
        return idcwh_snapshot_radius(view, q, nq, radius, with, hits);
    }
    int count(const std::uint8_t* q, std::size_t nq, unsigned radius, std::int64_t* counts) const {
        return idcwh_snapshot_count(view, q, nq, radius, with, counts);
    }
    int histogram(const std::uint8_t* q, std::size_t nq, std::int64_t* counts) const {
        return idcwh_snapshot_histogram(view, q, nq, with, counts);
    }
    int rank(const std::uint8_t* q, std::size_t nq, std::int32_t* d, std::int64_t* i, std::size_t* kept) const {
        return idcwh_snapshot_rank(view, q, nq, with, d, i, kept);
    }
};

struct MemoryEngine {
    const idcwh_codes* codes;
    const idcwh_search_options* with;
    int eligible(std::size_t* count) const { return idcwh_eligible(codes, with, count); }
    int topk(const std::uint8_t* q, std::size_t nq, std::size_t k, std::int32_t* d, std::int64_t* i,
             std::size_t* kept) const {
        return idcwh_topk(codes, q, nq, k, with, d, i, kept);
    }
    int topk_ties(const std::uint8_t* q, std::size_t nq, std::size_t k, idcwh_hits** hits) const {
        return idcwh_topk_ties(codes, q, nq, k, with, hits);
    }
    int radius(const std::uint8_t* q, std::size_t nq, unsigned radius, idcwh_hits** hits) const {
        return idcwh_radius(codes, q, nq, radius, with, hits);
    }
    int count(const std::uint8_t* q, std::size_t nq, unsigned radius, std::int64_t* counts) const {
        return idcwh_count(codes, q, nq, radius, with, counts);
    }
    int histogram(const std::uint8_t* q, std::size_t nq, std::int64_t* counts) const {
        return idcwh_histogram(codes, q, nq, with, counts);
    }
    int rank(const std::uint8_t* q, std::size_t nq, std::int32_t* d, std::int64_t* i, std::size_t* kept) const {
        return idcwh_rank(codes, q, nq, with, d, i, kept);
    }
};

// Returns one row in `every`, or whole ranges of rows.
std::vector<std::uint8_t> selection(Input& input, std::size_t n) {
    std::vector<std::uint8_t> flags(n);
    const unsigned every = 1 + input.below(130), offset = input.byte(), stretch = 1 + input.below(300);
    for (std::size_t row = 0; row < n; ++row) flags[row] = (row / stretch + offset) % every == 0;
    return flags;
}

std::vector<std::uint64_t> bitmap_of(const std::vector<std::uint8_t>& flags) {
    std::vector<std::uint64_t> words((flags.size() + 63) / 64);
    for (std::size_t row = 0; row < flags.size(); ++row) words[row / 64] |= std::uint64_t{flags[row]} << row % 64;
    return words;
}

void search_snapshot(const View& view, Input& input) {
    const Model& model = view.model;
    auto flags = selection(input, model.size());
    const auto words = bitmap_of(flags);
    std::vector<std::int64_t> ids;
    idcwh_query_options with{};
    with.threads = input.below(4);
    with.where.kind = static_cast<int>(input.below(5));
    with.where.count = model.size();
    with.where.bytes = flags.data();
    with.where.bitmap = words.data();
    if (with.where.kind == IDCWH_WHERE_ALL) {
        flags.assign(model.size(), 1);
    } else if (with.where.kind == IDCWH_WHERE_IDS) {  // in another order, with repeats and missing ids
        for (std::size_t row = model.size(); row--;)
            if (flags[row]) ids.insert(ids.end(), 1 + row % 2, model.ids[row]);
        ids.push_back(model.next + 5);
        ids.push_back(-3);
        with.where.ids = ids.data(), with.where.count = ids.size();
    } else if (with.where.kind == IDCWH_WHERE_ID_RANGE) {
        with.where.first = static_cast<std::int64_t>(input.below(700)) - 5;
        with.where.last = with.where.first + input.below(900) - 10;
        for (std::size_t row = 0; row < model.size(); ++row)
            flags[row] = model.ids[row] >= with.where.first && model.ids[row] < with.where.last;
    }
    compare(SnapshotEngine{view.snapshot, &with}, model, flags, input);
}

void search_memory(const Model& model, Input& input) {
    auto flags = selection(input, model.size());
    const auto words = bitmap_of(flags);
    std::vector<std::int64_t> list;
    idcwh_search_options with{};
    with.ids = model.ids.data();
    with.threads = input.below(4);
    with.rows.kind = static_cast<int>(input.below(5));
    with.rows.bytes = flags.data();
    with.rows.bitmap = words.data();
    if (with.rows.kind == IDCWH_ROWS_ALL) {
        flags.assign(model.size(), 1);
    } else if (with.rows.kind == IDCWH_ROWS_LIST) {
        for (std::size_t row = 0; row < model.size(); ++row)
            if (flags[row]) list.push_back(static_cast<std::int64_t>(row));
        with.rows.list = list.data(), with.rows.count = list.size();
    } else if (with.rows.kind == IDCWH_ROWS_RANGE) {
        with.rows.begin = input.below(1000), with.rows.end = with.rows.begin + input.below(1000);
        for (std::size_t row = 0; row < model.size(); ++row) flags[row] = row >= with.rows.begin && row < with.rows.end;
    }
    const idcwh_codes codes{model.codes.data(), model.size(), model.bits};
    compare(MemoryEngine{&codes, &with}, model, flags, input);
}

void add(idcwh_index* index, Model& model, Input& input, std::size_t n) {
    n = std::min(n, most_codes - model.size());
    const auto fresh = codes(input, n, model.bits);
    std::vector<std::int64_t> ids(n);
    if (input.coin()) {
        require_ok(idcwh_index_add(index, fresh.data(), n, nullptr, ids.data()));
        for (const auto id : ids) REQUIRE(id == model.next), model.add(id, &fresh[(id - ids[0]) * model.bytes()]);
        return;
    }
    std::set<std::int64_t> seen;
    bool valid = true;
    const unsigned step = 1 + input.below(3), start = input.below(600), negative = input.below(40000);
    for (std::size_t i = 0; i < n; ++i) {
        ids[i] = static_cast<std::int64_t>(start + (n - i) * step);
        if (i == negative) ids[i] = -1;
        valid = valid && ids[i] >= 0 && !model.holds(ids[i]) && seen.insert(ids[i]).second;
    }
    REQUIRE(idcwh_index_add(index, fresh.data(), n, ids.data(), nullptr) ==
            (valid ? IDCWH_OK : IDCWH_INVALID_ARGUMENT));
    if (valid)
        for (std::size_t i = 0; i < n; ++i) model.add(ids[i], &fresh[i * model.bytes()]);
}

void remove(idcwh_index* index, Model& model, Input& input) {
    std::set<std::int64_t> chosen;
    std::vector<std::int64_t> ids;
    bool valid = true;
    for (unsigned i = input.below(40); i; --i) {
        if (model.size() == 0 || input.byte() == 99) {
            ids.push_back(model.next + i), valid = false;
        } else {
            ids.push_back(model.ids[input.below(static_cast<unsigned>(model.size()))]);
            chosen.insert(ids.back());
        }
    }
    std::size_t removed = 0;
    REQUIRE(idcwh_index_remove(index, ids.data(), ids.size(), &removed) == (valid ? IDCWH_OK : IDCWH_NOT_FOUND));
    if (!valid) return;
    REQUIRE(removed == chosen.size());
    for (const auto id : chosen) model.remove(id);
}

void take(idcwh_index* index, const Model& model, View& view) {
    idcwh_snapshot_free(view.snapshot);
    require_ok(idcwh_index_snapshot(index, &view.snapshot));
    view.model = model;
}

// Compares all codes and ids of the snapshot, in the order of the adds.
void read_back(const View& view, Input& input) {
    const Model& model = view.model;
    REQUIRE(idcwh_snapshot_size(view.snapshot) == model.size());
    std::vector<std::uint8_t> codes(model.codes.size());
    std::vector<std::int64_t> ids(model.size());
    require_ok(idcwh_snapshot_copy(view.snapshot, codes.data(), ids.data()));
    REQUIRE(codes == model.codes && ids == model.ids);
    const std::int64_t id = input.below(700);
    int found = -1;
    require_ok(idcwh_snapshot_contains(view.snapshot, id, &found));
    REQUIRE(found == model.holds(id));
    std::vector<std::uint8_t> one(model.bytes());
    REQUIRE(idcwh_snapshot_get(view.snapshot, &id, 1, one.data()) == (found ? IDCWH_OK : IDCWH_NOT_FOUND));
    if (found)
        REQUIRE(std::equal(one.begin(), one.end(),
                           model.codes.begin() + static_cast<std::ptrdiff_t>(model.row_of(id) * model.bytes())));
    std::array<char, 64> text;
    require_ok(idcwh_snapshot_explain_topk(view.snapshot, input.below(50), 1 + input.below(50), nullptr, text.data(),
                                           text.size(), nullptr));
}

// Compares the pairs of some codes with each other, or of all with them.
void join(const View& view, Input& input) {
    const Model& model = view.model;
    const unsigned radius = input.below(model.bits + 1);
    const std::size_t capacity = 1 + input.below(100);
    const bool self = input.coin();
    const auto flags = selection(input, model.size());
    idcwh_where where{};
    where.kind = IDCWH_WHERE_BYTES;
    where.bytes = flags.data();
    where.count = flags.size();
    idcwh_join_options with{};
    with.threads = input.below(4);
    using Pair = std::tuple<std::int64_t, std::int64_t, std::int32_t>;
    std::vector<Pair> expected, found;
    for (std::size_t row = 0; row < model.size(); ++row) {
        if (!flags[row]) continue;
        const auto near = ranking(model, &model.codes[row * model.bytes()],
                                  self ? flags : std::vector<std::uint8_t>(model.size(), 1));
        for (const auto& [distance, id] : near)
            if (distance <= static_cast<std::int32_t>(radius) && (!self || model.ids[row] < id))
                expected.emplace_back(model.ids[row], id, distance);
    }
    idcwh_pairs* pairs = nullptr;
    require_ok(idcwh_snapshot_join(view.snapshot, self ? nullptr : view.snapshot, radius, &where, &with, &pairs));
    // Exactly the required memory, as in compare().
    const auto first = std::make_unique<std::int64_t[]>(capacity), second = std::make_unique<std::int64_t[]>(capacity);
    const auto distances = std::make_unique<std::int32_t[]>(capacity);
    std::size_t count = 0;
    do {
        require_ok(idcwh_pairs_next(pairs, capacity, first.get(), second.get(), distances.get(), &count));
        for (std::size_t i = 0; i < count; ++i) found.emplace_back(first[i], second[i], distances[i]);
    } while (count == capacity);
    idcwh_pairs_free(pairs);
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    REQUIRE(found == expected);
}

void live(Input& input) {
    Model model;
    model.bits = input.coin() ? 1 + input.below(20) : 1 + input.below(300);
    idcwh_index* index = nullptr;
    require_ok(idcwh_index_create(model.bits, &index));
    std::array<View, 2> views;
    for (auto& view : views) take(index, model, view);
    for (int steps = 0; !input.empty() && steps < 40; ++steps) {
        View& view = views[input.coin()];
        switch (input.below(14)) {
            case 0: add(index, model, input, input.below(20)); break;
            case 1: add(index, model, input, input.below(1500)); break;
            case 2: remove(index, model, input); break;
            case 3: {
                idcwh_optimize_options with{};
                if (input.coin()) with.memory = 1 + input.below(60000);
                with.threads = input.below(3);
                require_ok(idcwh_index_optimize(index, &with));
                break;
            }
            case 4: require_ok(idcwh_index_drop_structures(index)); break;
            case 5: take(index, model, view); break;
            case 6: {
                static const char* const names[] = {"portable", "popcnt", "avx2", "neon", "auto"};
                idcwh_isa_force(names[input.below(std::size(names))]);  // an unsupported name changes nothing
                break;
            }
            case 7: read_back(view, input); break;
            case 8: search_memory(model, input); break;
            default:
                if (input.coin()) take(index, model, view);
                search_snapshot(view, input);
        }
    }
    for (auto& view : views) {
        if (view.model.size() <= 300) join(view, input);
        idcwh_snapshot_free(view.snapshot);
    }
    idcwh_index_free(index);
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    fuzz::live(input);
    return 0;
}
