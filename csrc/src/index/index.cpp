// The writing half of an index: each change makes a new version of its contents and publishes it at once.
#include <idcwh/index.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "base/fail.hpp"
#include "base/given_ids.hpp"
#include "index/compact.hpp"
#include "index/writer_state.hpp"
#include "scan/plan.hpp"
#include "structures/structures.hpp"

namespace idcwh {
namespace {

using detail::Buffer;
using detail::Contents;
using detail::IndexState;
using detail::Segment;

constexpr std::int64_t max_id = std::numeric_limits<std::int64_t>::max();

std::size_t grown(std::size_t room, std::size_t needed) {
    return needed <= room ? room : std::max({needed, room + room / 2, std::size_t{64}});
}

std::shared_ptr<Buffer> copy_to(const Buffer* from, std::size_t used, std::size_t size) {
    auto to = std::make_shared<Buffer>(size);
    if (used) std::memcpy(to->data(), from->data(), used);
    return to;
}

// Grows the buffers to `room` rows. Readers of older versions keep the old buffers.
void give_room(Contents& contents, std::size_t room) {
    if (room <= contents.room()) return;
    const std::size_t bytes = contents.bytes(), rows = contents.rows;
    contents.codes = copy_to(contents.codes.get(), rows * bytes, room * bytes);
    if (contents.ids)
        contents.ids = copy_to(contents.ids.get(), rows * sizeof(std::int64_t), room * sizeof(std::int64_t));
    if (contents.alive) {
        const std::size_t used = contents.alive->size();
        contents.alive = copy_to(contents.alive.get(), used, std::max(used, (room + 63) / 64 * 8));
        std::memset(contents.alive->data() + used, 0xff, contents.alive->size() - used);
    }
}

// Stores the ids of rows whose ids were their row numbers.
void store_ids(Contents& contents) {
    if (contents.ids) return;
    contents.ids = std::make_shared<Buffer>(contents.room() * sizeof(std::int64_t));
    auto* ids = reinterpret_cast<std::int64_t*>(contents.ids->data());
    for (std::size_t row = 0; row < contents.rows; ++row) ids[row] = static_cast<std::int64_t>(row);
}

// Appends the ids of rows whose codes are already stored, and the entries that find them.
void append_ids(Contents& contents, const std::int64_t* ids, std::size_t n) {
    const std::size_t first = contents.rows;
    const auto next_id = static_cast<std::int64_t>(contents.next_id);
    const auto id = [&](std::size_t i) { return ids ? ids[i] : next_id + static_cast<std::int64_t>(i); };
    if (!contents.ids) {
        bool rows = true;
        for (std::size_t i = 0; rows && i < (ids ? n : 1); ++i) rows = id(i) == static_cast<std::int64_t>(first + i);
        if (!rows) store_ids(contents);
    }
    std::int64_t last = first ? contents.segment().id(first - 1) : -1;
    bool ascending = contents.ascending;
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t next = id(i);
        if (contents.ids) std::memcpy(contents.ids->data() + (first + i) * 8, &next, 8);
        ascending &= last < next;
        last = next;
    }
    if (!ascending) {
        const bool fresh = contents.ascending || contents.table->room() < first + n;
        if (fresh) contents.table = std::make_shared<IdTable>(contents.room());
        for (std::size_t row = fresh ? 0 : first; row < first + n; ++row)
            contents.table->insert(contents.id_data()[row], row);
    }
    contents.ascending = ascending;
    for (std::size_t i = 0; i < n; ++i)
        contents.next_id = std::max(contents.next_id, static_cast<std::uint64_t>(id(i)) + 1);
}

}  // namespace

Index::Index(unsigned bits) {
    check_bits(bits);
    auto contents = std::make_unique<Contents>();
    contents->bits = bits;
    state_ = std::make_shared<IndexState>(std::move(contents));
}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

unsigned Index::bits() const { return snapshot().bits(); }
std::size_t Index::size() const { return snapshot().size(); }
Snapshot Index::snapshot() const { return Snapshot(std::make_shared<detail::IndexView>(state_)); }
void Index::set_threads(unsigned threads) {
    if (threads > max_threads)
        fail({.path = "threads", .found = std::to_string(threads), .expected = "0 to " + std::to_string(max_threads)});
    state_->threads.store(threads);
}

void Index::add(const std::uint8_t* codes, std::size_t n, const std::int64_t* ids, std::int64_t* assigned) {
    const std::lock_guard turn(state_->writing);
    const Contents& now = state_->versions.newest();
    if (n && !codes) fail({.path = "codes", .found = "null", .expected = std::to_string(n) + " codes"});
    if (n > static_cast<std::size_t>(max_id) / 8 / now.bytes() - now.rows)
        fail({.path = "n", .found = std::to_string(n), .expected = "a number of codes that fits the address space"});
    check_padding({codes, n, now.bits}, "codes");
    if (ids) {
        check_given_ids(
            ids, n, now.next_id, [segment = now.segment()](std::int64_t id) { return segment.row_of(id).has_value(); },
            "index");
    } else if (static_cast<std::uint64_t>(max_id) + 1 - now.next_id < n) {
        fail({.path = "ids",
              .problem = "none are left after " + std::to_string(now.next_id - 1),
              .hint = "give the ids explicitly"});
    }
    if (n == 0) return;
    const auto first_id = static_cast<std::int64_t>(now.next_id);
    auto next = std::make_unique<Contents>(now);
    give_room(*next, grown(now.room(), now.rows + n));
    std::memcpy(next->codes->data() + now.rows * now.bytes(), codes, n * now.bytes());
    append_ids(*next, ids, n);
    next->rows += n;
    next->live += n;
    detail::maintain(*state_, *next);
    state_->versions.publish(std::move(next));
    for (std::size_t i = 0; assigned && i < n; ++i)
        assigned[i] = ids ? ids[i] : first_id + static_cast<std::int64_t>(i);
}

std::size_t Index::remove(const std::int64_t* ids, std::size_t count) {
    const std::lock_guard turn(state_->writing);
    const Contents& now = state_->versions.newest();
    if (count && !ids) fail({.path = "ids", .found = "null", .expected = std::to_string(count) + " ids"});
    if (count == 0) return 0;
    const Segment segment = now.segment();
    std::vector<std::size_t> rows(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto row = segment.row_of(ids[i]);
        if (!row)
            throw Error(ErrorCode::not_found, "id " + std::to_string(ids[i]) + " is missing; the index contains " +
                                                  std::to_string(now.live) + " codes");
        rows[i] = *row;
    }
    auto next = std::make_unique<Contents>(now);
    const std::size_t words = (now.room() + 63) / 64 * 8;
    if (now.alive) {
        next->alive = copy_to(now.alive.get(), now.alive->size(), now.alive->size());
    } else {
        next->alive = std::make_shared<Buffer>(words);
        std::memset(next->alive->data(), 0xff, words);
    }
    auto* alive = reinterpret_cast<std::uint64_t*>(next->alive->data());
    for (const std::size_t row : rows) {
        const std::uint64_t bit = std::uint64_t{1} << row % 64;
        next->live -= alive[row / 64] & bit ? 1 : 0;
        alive[row / 64] &= ~bit;
    }
    const std::size_t removed = now.live - next->live;
    if (detail::wants_compaction(*next)) {
        *next = detail::compacted(*next);
        detail::rebuild(*state_, *next);
    }
    state_->versions.publish(std::move(next));
    return removed;
}

void Index::reserve(std::size_t size) {
    const std::lock_guard turn(state_->writing);
    const Contents& now = state_->versions.newest();
    if (size > static_cast<std::size_t>(max_id) / 8 / now.bytes())
        fail({.path = "size",
              .found = std::to_string(size),
              .expected = "a number of codes that fits the address space"});
    if (size <= now.room()) return;
    auto next = std::make_unique<Contents>(now);
    give_room(*next, size);
    state_->versions.publish(std::move(next));
}

void Index::optimize(const OptimizeOptions& options) {
    const std::lock_guard turn(state_->writing);
    auto next = std::make_unique<Contents>(state_->versions.newest());
    if (next->alive) *next = detail::compacted(*next);
    next->structures = detail::build_structures(next->segment(), options);
    state_->structure_memory = options.memory;
    state_->tried_at = next->rows;
    state_->versions.publish(std::move(next));
}

void Index::drop_structures() {
    const std::lock_guard turn(state_->writing);
    auto next = std::make_unique<Contents>(state_->versions.newest());
    next->structures.reset();
    state_->structure_memory.reset();
    state_->versions.publish(std::move(next));
}

}  // namespace idcwh
