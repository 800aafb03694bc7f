// One query over the tables of a multi-index: shells of growing radius around the query's substrings, in the order of
// their cost. The caller's sink decides which of the results are kept.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

#include "structures/multi_index/budget.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

struct Found {
    std::uint32_t row;
    std::int32_t distance;
};

// The interface of a sink for code that is not a template. See MultiIndex::search.
class Receiver {
public:
    virtual std::int32_t limit() const = 0;
    virtual std::int32_t limit_from(std::size_t row) const = 0;
    virtual void take(const Found* found, std::size_t count) = 0;

protected:
    ~Receiver() = default;
};

template <class Sink>
class SinkReceiver final : public Receiver {
public:
    explicit SinkReceiver(Sink& sink) : sink_(sink) {}
    std::int32_t limit() const override { return sink_.limit(); }
    std::int32_t limit_from([[maybe_unused]] std::size_t row) const override {
        if constexpr (requires { sink_.limit_from(row); })
            return sink_.limit_from(row);
        else
            return sink_.limit();
    }
    void take(const Found* found, std::size_t count) override {
        for (std::size_t i = 0; i < count; ++i)
            if (found[i].distance <= sink_.limit()) sink_.take(found[i].row, found[i].distance);
    }

private:
    Sink& sink_;
};

// Searches until nothing unseen is within receiver.limit(), or gives up and returns false. spent_ns receives the cost
// of its work. The codes are read only where they have more than 64 bits (ring.hpp).
bool search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
            const CostLimits& limits, double& spent_ns);

}  // namespace idcwh::multi
