// See writer.hpp.
#include "storage/writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace idcwh::storage {
namespace {

// Eight segments of one size class are merged into one. The number of segments stays logarithmic, and an item is
// rewritten only if its segment grows by a factor of eight. The other two constants limit the time of one change.
constexpr std::size_t tier = 8;
constexpr std::size_t most_items = std::size_t{1} << 24;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;

// Returns the size class of a segment: log base 8 of its size (log base 2, divided by 3), rounded down.
int level(std::size_t size) { return (std::bit_width(size | 1) - 1) / 3; }

// Returns how many of the last segments are merged with a new segment of size `added`.
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

// A segment of the view and the rows that a commit removes from it.
struct SegmentChange {
    const FileView::Entry* entry;
    std::size_t index;                   // position of the entry in the view
    std::vector<std::uint32_t> removed;  // rows that this commit removes, ascending
    std::size_t live;                    // number of rows that remain
};

std::uint64_t write_removals(Appender& out, std::uint64_t commit, const Items& items,
                             const std::vector<std::uint32_t>& rows) {
    RecordWriter record(out, Kind::removals, commit, {{SectionKind::rows, 4 * rows.size()}}, rows.size(),
                        items.offset());
    record.put(rows.data(), 4 * rows.size());
    return record.finish();
}

// Returns the bytes per row of the optional columns (a bit set). In a record, a column takes them for every row, even
// if only some rows have a value.
std::uint64_t bytes_of_columns(unsigned columns) {
    return 4 * (columns & 1) + 4 * (columns >> 1 & 1) + 4 * (columns >> 2 & 1) + sizeof(Checksum) * (columns >> 3 & 1);
}
unsigned columns_of(const Source& source) {
    return unsigned{source.has_keys()} | unsigned{source.has_labels()} << 1 |
           unsigned{source.has_mtime_signatures()} << 2 | unsigned{source.has_checksums()} << 3;
}

// Groups consecutive sources that take no more bytes in one record than in separate records.
std::vector<std::vector<const Source*>> group_by_columns(const std::vector<const Source*>& sources) {
    constexpr std::uint64_t overhead = 256;  // approximate bytes of a record besides its rows
    std::vector<std::vector<const Source*>> groups;
    std::uint64_t rows = 0;
    unsigned columns = 0;
    for (const Source* source : sources) {
        const unsigned source_columns = columns_of(*source);
        const std::uint64_t wasted = rows * bytes_of_columns(source_columns & ~columns) +
                                     source->size() * bytes_of_columns(columns & ~source_columns);
        if (groups.empty() || wasted > overhead) groups.emplace_back(), rows = 0, columns = 0;
        groups.back().push_back(source);
        rows += source->size();
        columns |= source_columns;
    }
    return groups;
}

// Returns true if the live rows of a segment should be rewritten without the dead ones. That holds for tiny segments,
// and if more than a quarter of the rows are dead.
bool worth_rewriting(const SegmentChange& segment) {
    const std::size_t rows = segment.entry->items->rows(), dead = rows - segment.live;
    return !segment.removed.empty() && (rows <= 64 || dead > rows / 4) && segment.live <= most_items &&
           segment.entry->items->record().head().length <= most_bytes;
}

// Returns the segments that keep live rows, in the order of the view.
std::vector<SegmentChange> gather_changes(const FileView& view, const Change& change) {
    std::vector<SegmentChange> segments;
    for (std::size_t i = 0; i < view.entries().size(); ++i) {
        const auto& entry = view.entries()[i];
        segments.push_back({&entry, i, {}, entry.items->rows() - entry.dead});
    }
    for (const auto& place : change.removed)
        segments[place.entry].removed.push_back(static_cast<std::uint32_t>(place.row));
    for (auto& segment : segments) {
        std::sort(segment.removed.begin(), segment.removed.end());
        segment.live -= segment.removed.size();
    }
    std::erase_if(segments, [](const SegmentChange& segment) { return segment.live == 0; });
    return segments;
}

// Returns the number of last segments that are merged with the added items.
std::size_t plan_merge(const std::vector<SegmentChange>& segments, const Source* added) {
    if (!added || added->size() == 0) return 0;
    std::vector<std::size_t> sizes;
    for (const auto& segment : segments) sizes.push_back(segment.live);
    const std::size_t merged = tail_to_merge(sizes, added->size());
    std::uint64_t bytes = 0;
    for (std::size_t i = segments.size() - merged; i < segments.size(); ++i)
        bytes += segments[i].entry->items->record().head().length;
    return bytes > most_bytes ? 0 : merged;
}

// Returns the rows of a segment that are alive after the commit.
StoredSource live_rows(const FileView& view, const SegmentChange& segment) {
    const std::uint64_t* alive = view.alive(segment.index);
    std::vector<std::uint64_t> bitmap;  // may be local, because StoredSource copies the row numbers
    if (!segment.removed.empty()) {
        bitmap.assign((segment.entry->items->rows() + 63) / 64, ~std::uint64_t{0});
        if (alive) std::copy_n(alive, bitmap.size(), bitmap.begin());
        for (const auto row : segment.removed) bitmap[row / 64] &= ~(std::uint64_t{1} << row % 64);
        alive = bitmap.data();
    }
    return StoredSource(segment.entry->items, alive, segment.live, 0);
}

void append(std::vector<std::uint64_t>& records, const std::vector<std::uint64_t>& more) {
    records.insert(records.end(), more.begin(), more.end());
}

// Adds the record of a segment and those of its removals to the commit. Merges the last ones with the new removals.
void keep_segment(Appender& out, Commit& commit, const SegmentChange& segment) {
    const auto& removals = segment.entry->removals;
    commit.records.push_back(segment.entry->items->offset());
    std::vector<std::size_t> sizes;
    for (const auto& record : removals) sizes.push_back(static_cast<std::size_t>(record->head().rows()));
    const std::size_t merged = segment.removed.empty() ? 0 : tail_to_merge(sizes, segment.removed.size());
    const std::size_t kept = sizes.size() - merged;
    for (std::size_t r = 0; r < kept; ++r) commit.records.push_back(removals[r]->head().offset);
    if (segment.removed.empty()) return;
    std::vector<std::uint32_t> rows = segment.removed;
    for (std::size_t r = kept; r < sizes.size(); ++r) {
        const auto* more = removals[r]->section(SectionKind::rows).all<std::uint32_t>();
        rows.insert(rows.end(), more, more + sizes[r]);
    }
    std::sort(rows.begin(), rows.end());
    commit.records.push_back(write_removals(out, commit.number, *segment.entry->items, rows));
}

// Rewrites the segments for which worth_rewriting() holds and keeps the others.
void rewrite_or_keep(Appender& out, unsigned bits, Commit& commit, const FileView& view,
                     std::span<const SegmentChange> segments) {
    for (const SegmentChange& segment : segments) {
        commit.items += segment.live;
        if (!worth_rewriting(segment)) {
            keep_segment(out, commit, segment);
            continue;
        }
        const StoredSource source = live_rows(view, segment);
        append(commit.records, write_items(out, bits, commit.number, {&source}));
        // The rows came from mapped memory. Another process may have truncated or overwritten the file in between.
        view.check();
    }
}

// Writes the merged segments and the added items (may be null) as the last records.
void write_tail(Appender& out, unsigned bits, Commit& commit, const FileView& view,
                std::span<const SegmentChange> merged, const Source* added) {
    std::vector<StoredSource> stored;
    for (const SegmentChange& segment : merged) stored.push_back(live_rows(view, segment));
    std::vector<const Source*> sources;
    for (const auto& source : stored) sources.push_back(&source);
    if (added) {
        sources.push_back(added);
        for (std::size_t i = 0; i < added->size(); ++i)
            commit.next_id = std::max(commit.next_id, static_cast<std::uint64_t>(added->id(i)) + 1);
    }
    for (const Source* source : sources) commit.items += source->size();
    append(commit.records, write_items(out, bits, commit.number, sources));
    // Checked again, because more segments and removals were read since the last check.
    view.check();
}

void write_header(File& file, const Header& header) {
    std::vector<std::uint8_t> page(first_record);
    std::memcpy(page.data(), &header, sizeof header);
    file.write(0, page.data(), page.size());
}

std::uint64_t write_manifest(Appender& out, std::uint64_t commit, std::string_view json) {
    RecordWriter record(out, Kind::manifest, commit, {{SectionKind::json, json.size()}});
    record.put(json.data(), json.size());
    return record.finish();
}

// Syncs the appended records, then writes and syncs the commit record. The commit is current from then on.
void write_commit(File& file, Appender& out, Commit& commit) {
    out.flush();
    file.sync();
    RecordWriter record(out, Kind::commit, commit.number, {{SectionKind::directory, 8 * commit.records.size()}},
                        commit.items, commit.next_id, commit.number);
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
    for (const auto& group : group_by_columns(items))
        append(commit.records, write_items(out, header.bits, number, group));
    for (const Source* source : items) commit.items += source->size();
    write_commit(file, out, commit);
    write_mark(file, header, commit);
    file.sync();
    return commit;
}

std::shared_ptr<const FileView> Writer::apply(const FileView& view, const Change& change) {
    try {
        const Commit commit = write(view, change);
        auto next = std::make_shared<const FileView>(file_, header_, commit, &view);
        // Not synced, because readers can work without it. It saves them the search for the last commit and reveals a
        // truncated file. Written last, because a commit with a mark cannot be undone.
        write_mark(file_, header_, commit);
        return next;
    } catch (...) {
        // The records belong to no commit, and truncation restores the file. After a failed sync the content of the
        // disk is unknown, so the writer is usable again only if truncation and sync succeed.
        usable_ = false;
        if (view.overwritten()) throw;  // another file was copied over this one and must not be truncated
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

    const std::vector<SegmentChange> segments = gather_changes(view, change);
    const std::span<const SegmentChange> all(segments);
    const std::size_t unmerged = all.size() - plan_merge(segments, change.added);
    rewrite_or_keep(out, header_.bits, commit, view, all.first(unmerged));
    write_tail(out, header_.bits, commit, view, all.subspan(unmerged), change.added);
    write_commit(file_, out, commit);
    return commit;
}

}  // namespace idcwh::storage
