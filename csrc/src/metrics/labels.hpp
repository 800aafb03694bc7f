// Relevance: the database rows that are relevant to each query, for both forms of labels.
#pragma once

#include <idcwh/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "metrics/distinct.hpp"

namespace idcwh::metrics {

struct RowList {
    const std::uint32_t* rows;  // ascending
    std::size_t size;
};

class Relevance {
public:
    Relevance(const LabelledCodes& queries, const LabelledCodes& database);

    // Returns the number of a query's label. Equal labels have equal numbers, 0 .. labels() - 1.
    std::uint32_t label(std::size_t query) const { return labels_.number[query]; }
    std::size_t labels() const { return labels_.size(); }

    // Returns the database rows relevant to a label. They are valid as long as `scratch` does not change.
    RowList relevant(std::uint32_t label, std::vector<std::uint32_t>& scratch) const;

private:
    RowList of_class(std::size_t number) const {
        return {rows_.data() + begin_[number], static_cast<std::size_t>(begin_[number + 1] - begin_[number])};
    }

    std::size_t database_;
    Distinct labels_;                                 // labels of the queries
    std::vector<std::vector<std::uint32_t>> wanted_;  // [labels], the classes of each label
    std::vector<std::uint64_t> begin_;                // [classes + 1], start of each class in rows_
    std::vector<std::uint32_t> rows_;                 // the rows of all classes, class by class
};

}  // namespace idcwh::metrics
