// Groups as searchers, one per way to find the groups near a query.
#pragma once

#include <memory>
#include <vector>

#include "structures/groups/groups.hpp"
#include "structures/searcher.hpp"

namespace idcwh {

class GroupSearch final : public Searcher {
public:
    // Finds near groups by a scan of the distinct codes, by direct addressing, or by multi-index hashing. The last two
    // fall back to a scan for queries that exceed their budget.
    enum class Finder { scan, table, multi_index };

    GroupSearch(const Groups& groups, Finder finder) : groups_(groups), finder_(finder) {}
    // Returns a searcher per finder that the groups have. They refer to the groups.
    static std::vector<std::unique_ptr<const Searcher>> all_of(const Groups& groups);

    const char* name() const override;
    std::string describe() const override { return groups_.describe(); }
    double expected_ns(const Request& request) const override;

    Unfinished topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const override;
    Hits topk_ties(const Batch& batch, std::size_t k) const override;
    Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const override;
    Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const override;
    void histogram(const Batch& batch, std::int64_t* counts) const override;
    void rank(const Batch& batch, std::int32_t* distances, std::int64_t* ids) const override;

private:
    double finder_ns(const Request& request) const;

    const Groups& groups_;
    Finder finder_;
};

}  // namespace idcwh
