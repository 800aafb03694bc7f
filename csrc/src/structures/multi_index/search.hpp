// One query over the tables of a multi-index: shells of growing distance around the query's chunks, in the order of
// their cost. What a search keeps is the business of its sink; here it is only told what to look for.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

struct Found {
    std::uint32_t row;
    std::int32_t distance;
};

// A sink, for code that is not a template. See MultiIndex::search.
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

// False when it gave up. The codes are read only where they have more than 64 bits.
//   scan_ns      what a scan of the same rows costs: a search that looks as expensive is not continued
//   most_ns      no more is spent than this
//   patience_ns  so much is spent without asking how expensive the rest looks
//   spent_ns     receives what the search did, in the nanoseconds of cost.hpp
struct Budget {
    double scan_ns, most_ns, patience_ns = 0;
};
bool search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
            const Budget& budget, double& spent_ns);

}  // namespace idcwh::multi
