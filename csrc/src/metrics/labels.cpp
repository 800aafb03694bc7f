// Relevance as lists of database rows per class. For a label of one class, the common case, that list is the result.
#include "metrics/labels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace idcwh::metrics {
namespace {

// Calls body(class) for each class of a set, ascending.
template <class Body>
void for_each_class(const std::uint8_t* set, std::size_t classes, Body body) {
    for (std::size_t byte = 0; byte < (classes + 7) / 8; ++byte)
        for (unsigned left = set[byte]; left; left &= left - 1)
            body(8 * byte + static_cast<std::size_t>(std::countr_zero(left)));
}

}  // namespace

Relevance::Relevance(const LabelledCodes& queries, const LabelledCodes& database) : database_(database.codes.size) {
    // for_each(body) calls body(row, class) for all pairs of the database, rows ascending.
    const auto fill = [&](std::size_t classes, auto for_each) {
        begin_.assign(classes + 1, 0);
        for_each([&](std::size_t, std::size_t number) { ++begin_[number + 1]; });
        for (std::size_t i = 0; i < classes; ++i) begin_[i + 1] += begin_[i];
        rows_.resize(begin_[classes]);
        std::vector<std::uint64_t> next(begin_);
        for_each([&](std::size_t row, std::size_t number) { rows_[next[number]++] = static_cast<std::uint32_t>(row); });
    };
    if (queries.labels.classes) {
        const auto* const classes = reinterpret_cast<const std::uint8_t*>(queries.labels.classes);
        labels_ = distinct_rows(classes, queries.codes.size, sizeof(std::int64_t));
        const auto* const theirs = database.labels.classes;
        const Distinct numbered =
            distinct_rows(reinterpret_cast<const std::uint8_t*>(theirs), database_, sizeof(std::int64_t));
        fill(numbered.size(), [&](auto body) {
            for (std::size_t row = 0; row < database_; ++row) body(row, numbered.number[row]);
        });
        std::unordered_map<std::int64_t, std::uint32_t> number;
        for (std::uint32_t i = 0; i < numbered.size(); ++i) number[theirs[numbered.first[i]]] = i;
        for (const auto query : labels_.first) {
            const auto found = number.find(queries.labels.classes[query]);
            wanted_.emplace_back();
            if (found != number.end()) wanted_.back().push_back(found->second);
        }
        return;
    }
    const std::size_t classes = queries.labels.set_classes, bytes = (classes + 7) / 8;
    labels_ = distinct_rows(queries.labels.sets, queries.codes.size, bytes);
    for (const auto query : labels_.first) {
        wanted_.emplace_back();
        for_each_class(queries.labels.sets + query * bytes, classes,
                       [&](std::size_t number) { wanted_.back().push_back(static_cast<std::uint32_t>(number)); });
    }
    fill(classes, [&](auto body) {
        for (std::size_t row = 0; row < database_; ++row)
            for_each_class(database.labels.sets + row * bytes, classes, [&](std::size_t number) { body(row, number); });
    });
}

RowList Relevance::relevant(std::uint32_t label, std::vector<std::uint32_t>& scratch) const {
    const auto& wanted = wanted_[label];
    if (wanted.empty()) return {nullptr, 0};
    if (wanted.size() == 1) return of_class(wanted[0]);
    // Marks the rows of several lists, then collects them in row order.
    std::vector<std::uint8_t> marked(database_);
    for (const auto number : wanted) {
        const RowList list = of_class(number);
        for (std::size_t i = 0; i < list.size; ++i) marked[list.rows[i]] = 1;
    }
    scratch.resize(database_);
    std::size_t count = 0;
    for (std::size_t row = 0; row < database_; ++row) {
        scratch[count] = static_cast<std::uint32_t>(row);
        count += marked[row];
    }
    return {scratch.data(), count};
}

}  // namespace idcwh::metrics
