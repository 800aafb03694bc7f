// Which database rows are relevant to which query, whatever the form of the labels.
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

    // The label of a query: equal labels have equal numbers, 0 .. labels() - 1.
    std::uint32_t label(std::size_t query) const { return labels_.number[query]; }
    std::size_t labels() const { return labels_.size(); }

    // The database rows relevant to a label. `scratch` may be used to hold them.
    RowList relevant(std::uint32_t label, std::vector<std::uint32_t>& scratch) const;

private:
    RowList of_class(std::size_t number) const {
        return {rows_.data() + begin_[number], static_cast<std::size_t>(begin_[number + 1] - begin_[number])};
    }

    std::size_t database_;
    Distinct labels_;                                 // of the queries
    std::vector<std::vector<std::uint32_t>> wanted_;  // the classes of each label that the database may have
    std::vector<std::uint64_t> begin_;                // [classes + 1]: where the rows of each class begin
    std::vector<std::uint32_t> rows_;                 // class after class
};

}  // namespace idcwh::metrics
