// See writer.hpp.
#include "storage/writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace idcwh::storage {
namespace {

// Segments are written anew together when eight of them are of one size, so that there are never many, and no item is
// written more often than its segment grows eightfold.
constexpr std::size_t tier = 8;
constexpr std::size_t most_items = std::size_t{1} << 24;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;

int level(std::size_t size) { return (std::bit_width(size | 1) - 1) / 3; }

// How many of the last sizes go together with a new one.
std::size_t tail_to_merge(const std::vector<std::size_t>& sizes, std::size_t added) {
    std::size_t taken = 0, total = added;
    for (;;) {
        std::size_t same = 0, sum = 0;
        while (taken + same < sizes.size() && level(sizes[sizes.size() - 1 - taken - same]) <= level(total))
            sum += sizes[sizes.size() - 1 - taken - same++];
        if (same + 1 < tier || total + sum > most_items) return taken;
        taken += same;
        total += sum;
    }
}

// What a commit will put in force of one segment.
struct Next {
    const FileView::Entry* entry;
    std::size_t index;                   // of the entry
    std::vector<std::uint32_t> removed;  // by this change, ascending
    std::size_t live;
};

std::uint64_t write_removals(Appender& out, std::uint64_t commit, const Items& items,
                             const std::vector<std::uint32_t>& rows) {
    RecordWriter record(out, Kind::removals, commit, {{Part::rows, 4 * rows.size()}}, rows.size(), items.offset());
    record.put(rows.data(), 4 * rows.size());
    return record.finish();
}

// A column that only some rows of a record have takes room for all of them.
std::uint64_t bytes_of_columns(unsigned columns) {
    return 4 * (columns & 1) + 4 * (columns >> 1 & 1) + 4 * (columns >> 2 & 1) + sizeof(Checksum) * (columns >> 3 & 1);
}
unsigned columns_of(const Source& source) {
    return unsigned{source.has_keys()} | unsigned{source.has_labels()} << 1 | unsigned{source.has_stamps()} << 2 |
           unsigned{source.has_checksums()} << 3;
}

// The sources in their order, those together that take no more room in one record than apart.
std::vector<std::vector<const Source*>> alike(const std::vector<const Source*>& sources) {
    constexpr std::uint64_t record = 256;  // bytes of a record, beside what its rows take
    std::vector<std::vector<const Source*>> groups;
    std::uint64_t rows = 0;
    unsigned columns = 0;
    for (const Source* source : sources) {
        const unsigned its = columns_of(*source);
        const std::uint64_t wasted =
            rows * bytes_of_columns(its & ~columns) + source->size() * bytes_of_columns(columns & ~its);
        if (groups.empty() || wasted > record) groups.emplace_back(), rows = 0, columns = 0;
        groups.back().push_back(source);
        rows += source->size();
        columns |= its;
    }
    return groups;
}

// Whether the dead rows of a segment are so many that the living are better written anew.
bool worth_rewriting(const Next& next) {
    const std::size_t rows = next.entry->items->rows(), dead = rows - next.live;
    return !next.removed.empty() && (rows <= 64 || dead > rows / 4) && next.live <= most_items &&
           next.entry->items->record().head().length <= most_bytes;
}

void write_header(File& file, const Header& header) {
    std::vector<std::uint8_t> page(first_record);
    std::memcpy(page.data(), &header, sizeof header);
    file.write(0, page.data(), page.size());
}

std::uint64_t write_manifest(Appender& out, std::uint64_t commit, std::string_view json) {
    RecordWriter record(out, Kind::manifest, commit, {{Part::json, json.size()}});
    record.put(json.data(), json.size());
    return record.finish();
}

// Syncs what was appended, then writes the commit and syncs it: it is in force.
void seal(File& file, Appender& out, Commit& commit) {
    out.flush();
    file.sync();
    RecordWriter record(out, Kind::commit, commit.number, {{Part::directory, 8 * commit.records.size()}}, commit.items,
                        commit.next_id, commit.number);
    record.put(commit.records.data(), 8 * commit.records.size());
    commit.offset = record.finish();
    commit.end = out.end();
    out.flush();
    file.sync();
}

}  // namespace

Commit write_new(File& file, const Header& header, std::uint64_t number, std::string_view manifest,
                 const std::vector<const Source*>& items, std::uint64_t next_id) {
    write_header(file, header);
    Appender out(file, header.crc, first_record);
    Commit commit;
    commit.number = number;
    commit.next_id = next_id;
    commit.records = {write_manifest(out, number, manifest)};
    for (const auto& group : alike(items))
        for (const std::uint64_t offset : write_items(out, header.bits, number, group))
            commit.records.push_back(offset);
    for (const Source* source : items) commit.items += source->size();
    seal(file, out, commit);
    write_mark(file, header, commit);
    file.sync();
    return commit;
}

std::shared_ptr<const FileView> Writer::apply(const FileView& view, const Change& change) {
    try {
        const Commit commit = write(view, change);
        auto next = std::make_shared<const FileView>(file_, header_, commit, &view);
        // Not synced: it only spares the next reader a search, and tells it when the file was cut off. Last, because a
        // commit that has a mark cannot be taken back.
        write_mark(file_, header_, commit);
        return next;
    } catch (...) {
        // What was written so far is of no commit; without it the file ends as it did. After a sync that failed nobody
        // knows what is on the disk.
        usable_ = false;
        if (view.overwritten()) throw;  // what is there now is not ours to cut off
        try {
            file_.truncate(view.commit().end);
            file_.sync();
            usable_ = true;
        } catch (const Error&) {
        }
        throw;
    }
}

Commit Writer::write(const FileView& view, const Change& change) {
    const std::uint64_t number = tried_ = std::max(view.commit().number, tried_) + 1;
    Appender out(file_, header_.crc, view.commit().end);
    Commit commit;
    commit.number = number;
    commit.next_id = view.next_id;
    commit.records = {change.manifest ? write_manifest(out, number, *change.manifest) : view.manifest_offset()};

    std::vector<Next> all;
    for (std::size_t i = 0; i < view.entries().size(); ++i) {
        const auto& entry = view.entries()[i];
        all.push_back({&entry, i, {}, entry.items->rows() - entry.dead});
    }
    for (const auto& place : change.removed) all[place.entry].removed.push_back(static_cast<std::uint32_t>(place.row));
    for (auto& next : all) {
        std::sort(next.removed.begin(), next.removed.end());
        next.live -= next.removed.size();
    }
    std::erase_if(all, [](const Next& next) { return next.live == 0; });

    std::size_t merged = 0;
    if (change.added && change.added->size()) {
        std::vector<std::size_t> sizes;
        for (const auto& next : all) sizes.push_back(next.live);
        merged = tail_to_merge(sizes, change.added->size());
        std::uint64_t bytes = 0;
        for (std::size_t i = all.size() - merged; i < all.size(); ++i)
            bytes += all[i].entry->items->record().head().length;
        if (bytes > most_bytes) merged = 0;
    }

    // The rows of a segment that are alive after this change.
    std::vector<std::vector<std::uint64_t>> bitmaps;
    const auto stored = [&](const Next& next) {
        const std::uint64_t* alive = view.alive(next.index);
        if (!next.removed.empty()) {
            const std::size_t words = (next.entry->items->rows() + 63) / 64;
            bitmaps.emplace_back(words, ~std::uint64_t{0});
            if (alive) std::copy(alive, alive + words, bitmaps.back().begin());
            for (const auto row : next.removed) bitmaps.back()[row / 64] &= ~(std::uint64_t{1} << row % 64);
            alive = bitmaps.back().data();
        }
        return StoredSource(next.entry->items, alive, next.live, 0);
    };

    for (std::size_t i = 0; i + merged < all.size(); ++i) {
        const Next& next = all[i];
        commit.items += next.live;
        if (worth_rewriting(next)) {
            const StoredSource source = stored(next);
            for (const auto offset : write_items(out, header_.bits, number, {&source}))
                commit.records.push_back(offset);
            view.check();
            continue;
        }
        commit.records.push_back(next.entry->items->offset());
        std::vector<std::size_t> sizes;
        for (const auto& record : next.entry->removals) sizes.push_back(static_cast<std::size_t>(record->head().a));
        const std::size_t again = next.removed.empty() ? 0 : tail_to_merge(sizes, next.removed.size());
        for (std::size_t r = 0; r + again < sizes.size(); ++r)
            commit.records.push_back(next.entry->removals[r]->head().offset);
        if (next.removed.empty()) continue;
        std::vector<std::uint32_t> rows = next.removed;
        for (std::size_t r = sizes.size() - again; r < sizes.size(); ++r) {
            const auto* more = next.entry->removals[r]->section(Part::rows).all<std::uint32_t>();
            rows.insert(rows.end(), more, more + sizes[r]);
        }
        std::sort(rows.begin(), rows.end());
        commit.records.push_back(write_removals(out, number, *next.entry->items, rows));
    }

    std::vector<StoredSource> tail;
    for (std::size_t i = all.size() - merged; i < all.size(); ++i) tail.push_back(stored(all[i]));
    std::vector<const Source*> sources;
    for (const auto& source : tail) sources.push_back(&source);
    if (change.added) {
        sources.push_back(change.added);
        for (std::size_t i = 0; i < change.added->size(); ++i)
            commit.next_id = std::max(commit.next_id, static_cast<std::uint64_t>(change.added->id(i)) + 1);
    }
    for (const Source* source : sources) commit.items += source->size();
    for (const auto offset : write_items(out, header_.bits, number, sources)) commit.records.push_back(offset);
    view.check();
    seal(file_, out, commit);
    return commit;
}

}  // namespace idcwh::storage
