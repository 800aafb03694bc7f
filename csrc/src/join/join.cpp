// Joins: equal codes first, then each part of the plan; threads find pairs of distinct codes ahead of the caller, who
// gets the pairs of their rows.
#include <idcwh/join.hpp>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/fail.hpp"
#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "join/compare.hpp"
#include "join/distinct.hpp"
#include "join/expand.hpp"
#include "scan/plan.hpp"

namespace idcwh {

namespace join_detail {

static void check_codes(const Codes& codes, const char* name, unsigned radius, const JoinOptions& options) {
    SearchOptions search;
    search.threads = options.threads;
    check(codes, nullptr, 0, search);
    if (std::uint64_t{codes.size} >> 32)
        fail({.path = name, .found = std::to_string(codes.size), .expected = "fewer than 2^32 codes"});
    if (radius > codes.bits)
        fail({.path = "radius", .found = std::to_string(radius), .expected = "0 to " + std::to_string(codes.bits)});
    if (options.block == 0) fail({.path = "block", .found = "0", .expected = "at least 1"});
    check_padding(codes, name);
}

// The pairs of distinct codes of a join, those of equal codes left out.
class CodePairs {
public:
    CodePairs(const Codes& a, const Codes* b, unsigned radius, const JoinOptions& options)
        : threads_(options.threads ? options.threads : pool::available_threads()), stop_(options.interrupt), self_(!b) {
        check_codes(a, b ? "a" : "codes", radius, options);
        if (b) check_codes(*b, "b", radius, options);
        if (b && a.bits != b->bits)
            fail({.path = "b",
                  .problem = "does not match",
                  .found = std::to_string(b->bits) + " bits",
                  .expected = std::to_string(a.bits)});
        active_kernels();  // a wrong IDCWH_ISA is reported before threads begin
        a_ = distinct_codes(a, threads_, stop_);
        if (b) b_ = distinct_codes(*b, threads_, stop_);
        finder_.emplace(a_.view(), this->b().view(), self_, radius, threads_, stop_);
    }
    CodePairs(const CodePairs&) = delete;
    CodePairs& operator=(const CodePairs&) = delete;

    bool self() const { return self_; }
    const Distinct& a() const { return a_; }
    const Distinct& b() const { return self_ ? a_ : b_; }
    const JoinPlan& plan() const { return finder_->plan(); }
    Stop& stop() { return stop_; }
    unsigned threads() const { return threads_; }

    // See PairFinder::next.
    bool next(std::vector<std::vector<CodePair>>& found) { return finder_->next(found); }
    // Returns the number of pairs of rows of the pairs that are left.
    std::uint64_t count_rest() {
        const auto repeats = [](const Distinct& codes) {
            return codes.size < codes.rows.size() ? codes.begins.data() : nullptr;
        };
        return finder_->count({repeats(a_), repeats(b())});
    }

private:
    unsigned threads_;
    Stop stop_;
    bool self_;
    Distinct a_, b_;
    std::optional<PairFinder> finder_;
};

// Returns the number of pairs of rows with equal codes, from one code on.
static std::uint64_t count_equal(const Distinct& codes, std::size_t from = 0) {
    std::uint64_t sum = 0;
    for (std::size_t code = from; code < codes.size; ++code) sum += codes.count(code) * (codes.count(code) - 1) / 2;
    return sum;
}

static std::uint64_t count_all(CodePairs& codes) {
    return (codes.self() ? count_equal(codes.a()) : 0) + codes.count_rest();
}

}  // namespace join_detail

using namespace join_detail;

namespace {

// A copy of the items of a snapshot that `where` selects.
struct Items {
    Items(const Snapshot& snapshot, const Where& where)
        : ids(snapshot.eligible(where)),
          codes(ids.size() * code_bytes(snapshot.bits())),
          view{codes.data(), ids.size(), snapshot.bits()} {
        snapshot.copy(codes.data(), ids.data(), where);
    }
    std::vector<std::int64_t> ids;
    HugeArray<std::uint8_t> codes;
    Codes view;
};

constexpr std::size_t first_room = std::size_t{1} << 16;   // pairs for which a block has memory at first
constexpr std::size_t equal_codes = std::size_t{1} << 16;  // codes whose pairs are written together

}  // namespace

struct PairStream::Impl {
    // ids: by row; null if rows are reported.
    Impl(const Codes& a, const Codes* b, unsigned radius, const JoinOptions& options,
         const std::vector<std::int64_t>* ids_a = nullptr, const std::vector<std::int64_t>* ids_b = nullptr)
        : codes(a, b, radius, options),
          options(options),
          a(codes.a(), ids_a ? ids_a->data() : nullptr),
          b(b ? Members(codes.b(), ids_b ? ids_b->data() : nullptr) : Members()),
          equal(b ? 0 : codes.a().size) {}

    // Replaces `found` by the next codes that are equal to others, each as a pair. Returns false if there are no more.
    bool find_equal() {
        if (next_equal == equal) return false;
        found.resize(1);
        found[0].clear();
        for (; next_equal < equal && found[0].size() < equal_codes; ++next_equal) {
            if (next_equal % equal_codes == 0) codes.stop().check();
            const auto code = static_cast<std::uint32_t>(next_equal);
            if (a.count(code) > 1) found[0].push_back({code, code, 0});
        }
        return !found[0].empty();
    }
    // Replaces the pairs of codes, all of which have been written, by the next ones.
    bool next_pairs() {
        if (!find_equal() && !codes.next(found)) return false;
        pairs.assign(a, codes.self() ? a : b, found, codes.threads(), codes.stop());
        written = 0;
        total += pairs.size();
        if (total > options.max_pairs) fail();
        return true;
    }
    // Counts what is left, for the message.
    [[noreturn]] void fail() {
        if (codes.self()) total += count_equal(codes.a(), next_equal);
        total += codes.count_rest();
        idcwh::fail({.path = "max_pairs",
                     .found = std::to_string(total) + " pairs",
                     .expected = "at most " + std::to_string(options.max_pairs),
                     .hint = "give a smaller radius, or a larger max_pairs"});
    }

    std::size_t next(std::int64_t* first, std::int64_t* second, std::int32_t* distances, std::size_t capacity) {
        if (error) std::rethrow_exception(error);
        codes.stop().continue_here();
        try {
            std::size_t size = 0;
            while (size < capacity && (written < pairs.size() || next_pairs())) {
                const auto count =
                    static_cast<std::size_t>(std::min<std::uint64_t>(capacity - size, pairs.size() - written));
                pairs.write(written, count, {first + size, second + size, distances + size}, codes.threads(),
                            codes.stop());
                written += count, size += count;
            }
            return size;
        } catch (...) {
            error = std::current_exception();
            throw;
        }
    }

    bool next(Pairs& block) {
        std::size_t size = 0;
        const auto resize = [&](std::size_t to) {
            block.first.resize(to), block.second.resize(to), block.distances.resize(to);
        };
        // The block grows with the pairs, because options.block may be larger than memory. A full one is often followed
        // by another.
        if (full)
            block.first.reserve(options.block), block.second.reserve(options.block),
                block.distances.reserve(options.block);
        while (size < options.block) {
            // The elements of an earlier block are not set to zero again.
            const std::size_t most = size ? size : std::max(block.first.size(), first_room);
            const std::size_t room = std::min(options.block - size, most);
            std::size_t count;
            try {
                resize(size + room);
                count =
                    next(block.first.data() + size, block.second.data() + size, block.distances.data() + size, room);
            } catch (...) {
                error = std::current_exception();  // the next call would leave out the pairs of this one
                resize(0);
                throw;
            }
            size += count;
            if (count < room) break;
        }
        resize(size);
        full = size == options.block;
        return size > 0;
    }

    CodePairs codes;
    JoinOptions options;
    Members a, b;  // b: empty in a self-join
    std::exception_ptr error;
    std::size_t equal, next_equal = 0;  // codes that may be equal to others
    std::vector<std::vector<CodePair>> found;
    Expansion pairs;
    std::uint64_t written = 0, total = 0;  // pairs of `pairs`; pairs of rows so far
    bool full = false;                     // the last block was
};

PairStream::PairStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PairStream::PairStream(PairStream&&) noexcept = default;
PairStream& PairStream::operator=(PairStream&&) noexcept = default;
PairStream::~PairStream() = default;

bool PairStream::next(Pairs& block) { return impl_->next(block); }

std::size_t PairStream::next(std::int64_t* first, std::int64_t* second, std::int32_t* distances, std::size_t capacity) {
    if (capacity == 0) idcwh::fail({.path = "capacity", .found = "0", .expected = "at least 1"});
    if (!first || !second || !distances)
        idcwh::fail({.path = "first, second and distances", .found = "null", .expected = "memory for the pairs"});
    return impl_->next(first, second, distances, capacity);
}

std::string PairStream::explain() const {
    const CodePairs& codes = impl_->codes;
    std::string text =
        std::to_string(codes.a().rows.size()) + " codes, " + std::to_string(codes.a().size) + " distinct";
    if (!codes.self())
        text += ", with " + std::to_string(codes.b().rows.size()) + ", " + std::to_string(codes.b().size) + " distinct";
    return text + "; " + (codes.plan().parts.empty() ? "nothing to compare" : codes.plan().describe());
}

PairStream self_join(const Codes& codes, unsigned radius, const JoinOptions& options) {
    return PairStream(std::make_unique<PairStream::Impl>(codes, nullptr, radius, options));
}

PairStream join(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options) {
    return PairStream(std::make_unique<PairStream::Impl>(a, &b, radius, options));
}

PairStream self_join(const Snapshot& snapshot, unsigned radius, const JoinOptions& options, const Where& where) {
    const Items items(snapshot, where);
    return PairStream(std::make_unique<PairStream::Impl>(items.view, nullptr, radius, options, &items.ids));
}

PairStream join(const Snapshot& a, const Snapshot& b, unsigned radius, const JoinOptions& options, const Where& where) {
    const Items first(a, where), second(b, {});
    return PairStream(
        std::make_unique<PairStream::Impl>(first.view, &second.view, radius, options, &first.ids, &second.ids));
}

std::uint64_t count_pairs(const Codes& codes, unsigned radius, const JoinOptions& options) {
    CodePairs pairs(codes, nullptr, radius, options);
    return count_all(pairs);
}

std::uint64_t count_pairs(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options) {
    CodePairs pairs(a, &b, radius, options);
    return count_all(pairs);
}

std::uint64_t count_pairs(const Snapshot& snapshot, unsigned radius, const JoinOptions& options, const Where& where) {
    return count_pairs(Items(snapshot, where).view, radius, options);
}

std::uint64_t count_pairs(const Snapshot& a, const Snapshot& b, unsigned radius, const JoinOptions& options,
                          const Where& where) {
    return count_pairs(Items(a, where).view, Items(b, {}).view, radius, options);
}

namespace {

// Union-find over distinct codes; a root is the lowest number of its set.
class Sets {
public:
    explicit Sets(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0u); }
    std::uint32_t root(std::uint32_t at) {
        for (; parent_[at] != at; at = parent_[at]) parent_[at] = parent_[parent_[at]];
        return at;
    }
    void join(std::uint32_t a, std::uint32_t b) {
        a = root(a), b = root(b);
        parent_[std::max(a, b)] = std::min(a, b);
    }

private:
    std::vector<std::uint32_t> parent_;
};

std::vector<std::uint32_t> components(CodePairs& codes) {
    Sets sets(codes.a().size);
    std::vector<std::vector<CodePair>> found;
    while (codes.next(found))
        for (const auto& list : found)
            for (const CodePair& pair : list) sets.join(pair.first, pair.second);
    std::vector<std::uint32_t> keeper(codes.a().size);
    for (std::uint32_t code = 0; code < keeper.size(); ++code) keeper[code] = sets.root(code);
    return keeper;
}

// Distinct codes are numbered by their first rows, so that ascending numbers are ascending rows.
std::vector<std::uint32_t> greedy(CodePairs& codes) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    std::vector<std::vector<CodePair>> found;
    while (codes.next(found))
        for (const auto& list : found)
            for (const CodePair& pair : list) pairs.emplace_back(pair.first, pair.second);
    std::sort(pairs.begin(), pairs.end());
    constexpr std::uint32_t none = ~std::uint32_t{0};
    std::vector<std::uint32_t> keeper(codes.a().size, none);
    std::size_t at = 0;
    for (std::uint32_t code = 0; code < keeper.size(); ++code) {
        const bool keeps = keeper[code] == none;
        if (keeps) keeper[code] = code;
        for (; at < pairs.size() && pairs[at].first == code; ++at)
            if (keeps && keeper[pairs[at].second] == none) keeper[pairs[at].second] = code;
    }
    return keeper;
}

}  // namespace

std::size_t cluster(const Codes& codes, unsigned radius, ClusterMode mode, std::int64_t* clusters,
                    const JoinOptions& options) {
    CodePairs pairs(codes, nullptr, radius, options);
    if (codes.size && !clusters)
        idcwh::fail(
            {.path = "clusters", .found = "null", .expected = "memory for " + std::to_string(codes.size) + " numbers"});
    const Distinct& distinct = pairs.a();
    const std::vector<std::uint32_t> keeper = mode == ClusterMode::components ? components(pairs) : greedy(pairs);
    // A keeper is the first code of its cluster, so that it has a number before the others need it.
    std::vector<std::int64_t> number(keeper.size());
    std::int64_t count = 0;
    for (std::uint32_t code = 0; code < keeper.size(); ++code) {
        number[code] = keeper[code] == code ? count++ : number[keeper[code]];
        for (std::uint32_t at = distinct.begins[code]; at < distinct.begins[code + 1]; ++at)
            clusters[distinct.rows[at]] = number[code];
    }
    return static_cast<std::size_t>(count);
}

std::size_t cluster(const Snapshot& snapshot, unsigned radius, ClusterMode mode, std::int64_t* ids,
                    std::int64_t* clusters, const JoinOptions& options, const Where& where) {
    const Items items(snapshot, where);
    if (items.view.size && !ids)
        idcwh::fail(
            {.path = "ids", .found = "null", .expected = "memory for " + std::to_string(items.view.size) + " ids"});
    const std::size_t count = cluster(items.view, radius, mode, clusters, options);
    std::copy(items.ids.begin(), items.ids.end(), ids);
    return count;
}

}  // namespace idcwh
