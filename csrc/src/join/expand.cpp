// See expand.hpp.
#include "join/expand.hpp"

#include <algorithm>
#include <type_traits>

#include "base/pool.hpp"

namespace idcwh::join_detail {
namespace {

constexpr std::size_t portion = 256;                         // pairs of codes
constexpr std::size_t written_pairs = std::size_t{1} << 16;  // pairs of rows that a thread writes without a check
constexpr std::size_t lanes = 4, slack = 8 * (lanes - 1);    // bytes that are read after the last row

enum class Order { ascending, one_first, one_second };

// Writes pairs one after the other. Short runs are written in whole vectors, whose last lanes the next run overwrites.
template <class Number>
class Writer {
public:
    Writer(const PairArrays& out, std::size_t left) : out_(out), left_(left) {}
    std::size_t left() const { return left_; }

    // One number with each of at most left() others.
    template <Order order>
    void run(Number one, const Number* others, std::size_t count, std::int32_t distance) {
        std::size_t at = 0;
        if (count + lanes <= left_) do
                step<order, lanes>(one, others + at, at, distance);
            while ((at += lanes) < count);
        else {
            for (; at + lanes <= count; at += lanes) step<order, lanes>(one, others + at, at, distance);
            for (; at < count; ++at) step<order, 1>(one, others + at, at, distance);
        }
        out_.first += count, out_.second += count, out_.distances += count;
        left_ -= count;
    }

private:
    template <Order order, std::size_t width>
    void step(Number one, const Number* others, std::size_t at, std::int32_t distance) const {
        for (std::size_t lane = 0; lane < width; ++lane) {
            const Number other = others[lane];
            out_.first[at + lane] = order == Order::ascending   ? std::min(one, other)
                                    : order == Order::one_first ? one
                                                                : other;
            out_.second[at + lane] = order == Order::ascending   ? std::max(one, other)
                                     : order == Order::one_first ? other
                                                                 : one;
        }
        for (std::size_t lane = 0; lane < width; ++lane) out_.distances[at + lane] = distance;
    }

    PairArrays out_;
    std::size_t left_;
};

// Returns the number of pairs of n rows before those of row i with later ones.
std::uint64_t pairs_before(std::uint64_t i, std::uint64_t n) { return i * (2 * n - 1 - i) / 2; }

// All pairs of n rows of one code, but the first `skip`.
template <class Number>
void write_equal(Writer<Number>& writer, const Number* rows, std::uint64_t n, std::uint64_t skip) {
    std::uint64_t i = 0;
    if (skip)
        for (std::uint64_t end = n; end - i > 1;) {
            const std::uint64_t middle = i + (end - i) / 2;
            (pairs_before(middle, n) <= skip ? i : end) = middle;
        }
    std::uint64_t j = i + 1 + (skip - pairs_before(i, n));
    for (; i + 1 < n && writer.left(); ++i, j = i + 1)
        writer.template run<Order::ascending>(rows[i], rows + j, std::min<std::uint64_t>(n - j, writer.left()), 0);
}

// All pairs of a row of a and a row of b, but the first `skip`.
template <class Number, bool self>
void write_product(Writer<Number>& writer, const Number* a, std::uint64_t na, const Number* b, std::uint64_t nb,
                   std::uint64_t skip, std::int32_t distance) {
    if (nb == 1) {
        writer.template run<self ? Order::ascending : Order::one_second>(
            *b, a + skip, std::min<std::uint64_t>(na - skip, writer.left()), distance);
        return;
    }
    std::uint64_t i = skip ? skip / nb : 0, j = skip ? skip % nb : 0;
    for (; i < na && writer.left(); ++i, j = 0)
        writer.template run<self ? Order::ascending : Order::one_first>(
            a[i], b + j, std::min<std::uint64_t>(nb - j, writer.left()), distance);
}

template <class Number>
const Number* numbers_of(const Members& members) {
    if constexpr (std::is_same_v<Number, std::uint32_t>)
        return members.rows;
    else
        return members.ids.data();
}

}  // namespace

Members::Members(const Distinct& codes, const std::int64_t* of_rows)
    : begins(codes.begins.data()), rows(codes.rows.data()) {
    if (!of_rows) return;
    ids = HugeArray<std::int64_t>(codes.rows.size(), slack);
    for (std::size_t at = 0; at < ids.size(); ++at) ids[at] = of_rows[rows[at]];
}

std::uint64_t Expansion::count(const CodePair& pair) const {
    const std::uint64_t first = a_->count(pair.first);
    if (self_ && pair.first == pair.second) return first * (first - 1) / 2;
    return first * b_->count(pair.second);
}

void Expansion::assign(const Members& a, const Members& b, const std::vector<std::vector<CodePair>>& lists,
                       unsigned threads, Stop& stop) {
    a_ = &a, b_ = &b, self_ = a_ == b_;
    lists_ = lists.data();
    before_.resize(lists.size());
    pool::run(
        lists.size(), threads,
        [&](std::size_t list) {
            const std::vector<CodePair>& pairs = lists_[list];
            std::vector<std::uint64_t>& before = before_[list];
            before.assign(1, 0);
            for (std::size_t at = 0; at < pairs.size();) {
                const std::size_t end = std::min(pairs.size(), at + portion);
                std::uint64_t sum = before.back();
                for (; at < end; ++at) sum += count(pairs[at]);
                before.push_back(sum);
                if (at % (std::size_t{1} << 16) == 0) stop.check();
            }
        },
        stop.while_waiting());
    begins_.assign(1, 0);
    for (const auto& before : before_) begins_.push_back(begins_.back() + before.back());
}

void Expansion::write(std::uint64_t from, std::size_t count, const PairArrays& out, unsigned threads,
                      Stop& stop) const {
    pool::run((count + written_pairs - 1) / written_pairs, threads,
              [&](std::size_t task) {
                  stop.check();
                  const std::size_t begin = task * written_pairs, size = std::min(written_pairs, count - begin);
                  const PairArrays to{out.first + begin, out.second + begin, out.distances + begin};
                  if (a_->ids.size())
                      self_ ? write_part<std::int64_t, true>(from + begin, size, to)
                            : write_part<std::int64_t, false>(from + begin, size, to);
                  else
                      self_ ? write_part<std::uint32_t, true>(from + begin, size, to)
                            : write_part<std::uint32_t, false>(from + begin, size, to);
              },
              stop.while_waiting());
}

template <class Number, bool self>
void Expansion::write_part(std::uint64_t from, std::size_t size, const PairArrays& out) const {
    const auto last_of = [&](const std::vector<std::uint64_t>& before) {
        const auto after = std::upper_bound(before.begin(), before.end(), from);
        const auto at = static_cast<std::size_t>(after - before.begin()) - 1;
        from -= before[at];
        return at;
    };
    std::size_t list = last_of(begins_), at = portion * last_of(before_[list]);
    for (std::uint64_t pairs; from >= (pairs = count(lists_[list][at])); ++at) from -= pairs;

    const Number *const a = numbers_of<Number>(*a_), *const b = numbers_of<Number>(*b_);
    Writer<Number> writer(out, size);
    for (; writer.left(); ++list, at = 0) {
        const std::vector<CodePair>& pairs = lists_[list];
        for (; writer.left() && at < pairs.size(); ++at, from = 0) {
            const auto [first, second, distance] = pairs[at];
            if (self && first == second)
                write_equal(writer, a + a_->begins[first], a_->count(first), from);
            else
                write_product<Number, self>(writer, a + a_->begins[first], a_->count(first), b + b_->begins[second],
                                            b_->count(second), from, distance);
        }
    }
}

}  // namespace idcwh::join_detail
