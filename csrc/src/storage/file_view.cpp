// See file_view.hpp.
#include "storage/file_view.hpp"

#include <idcwh/error.hpp>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "structures/structures.hpp"

namespace idcwh::storage {
namespace {

template <class Use>
void each_live(const detail::Segment& segment, Use use) {
    for (std::size_t row = 0; row < segment.rows; ++row)
        if (segment.is_alive(row)) use(segment.id(row));
}

}  // namespace

FileView::FileView(const File& file, const Header& header, Commit commit, const FileView* older)
    : path_(file.path()),
      identity_(older ? older->identity_ : std::make_shared<const Identity>(file, header)),
      commit_(std::move(commit)) {
    bits = header.bits;
    next_id = commit_.next_id;
    const std::uint64_t size = file.size();
    const std::string its = "the commit at byte " + std::to_string(commit_.offset);
    commit_record_ = Record::read(file, header.crc, commit_.offset, size, identity_);
    used_ = first_record + commit_record_->head().length;
    for (const std::uint64_t offset : commit_.records) {
        if (offset >= commit_.offset)
            fail_corrupt(path_, its + " lists a record at byte " + std::to_string(offset) + " behind it");
        // Checked before the record is read, because overlapping records could claim any amount of memory.
        const auto peeked = Record::peek(file, header.crc, offset, size);
        if (peeked && (used_ += peeked->length) > size)
            fail_corrupt(path_, its + " lists records that are larger than the file");
        if (older && peeked) {
            // After a failed write, the offset may contain another record, but not one of the same commit.
            const auto& known = older->entries_;
            const auto same = std::find_if(known.begin(), known.end(), [&](const Entry& entry) {
                return entry.items->offset() == offset && entry.items->record().head().commit == peeked->commit;
            });
            if (same != known.end()) {
                entries_.push_back({same->items, {}, 0, same->structures, same->tried});
                continue;
            }
        }
        auto record = Record::read(file, header.crc, offset, size, identity_);
        const RecordHead& head = record->head();
        if (head.kind == Kind::manifest) {
            record->section(SectionKind::json);  // throws if it is missing
            manifest_record_ = std::move(record);
        } else if (head.kind == Kind::items) {
            entries_.push_back({std::make_shared<const Items>(std::move(record), bits), {}, 0, nullptr, false});
        } else if (head.kind == Kind::removals) {
            const auto target = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
                return entry.items->offset() == head.segment_offset();
            });
            if (target == entries_.end())
                record->fail("removes rows of a record that is not current, at byte " +
                             std::to_string(head.segment_offset()));
            if (head.rows() > target->items->rows() - target->dead ||
                record->section(SectionKind::rows).size() != 4 * head.rows())
                record->fail("has an invalid number of rows", std::to_string(head.rows()));
            target->dead += static_cast<std::size_t>(head.rows());
            target->removals.push_back(std::move(record));
        }  // Records of other kinds are from later versions. The format allows readers to ignore them.
    }
    if (!manifest_record_) fail_corrupt(path_, "its manifest is missing");
    for (const Entry& entry : entries_) live += entry.items->rows() - entry.dead;
    if (live != commit_.items)
        fail_corrupt(path_, its + " does not match its records", std::to_string(live) + " items",
                     std::to_string(commit_.items));
}

FileView::FileView(const FileView& view, std::vector<Entry> entries)
    : path_(view.path_),
      identity_(view.identity_),
      commit_(view.commit_),
      entries_(std::move(entries)),
      commit_record_(view.commit_record_),
      manifest_record_(view.manifest_record_),
      used_(view.used_) {
    bits = view.bits;
    live = view.live;
    next_id = view.next_id;
}

void FileView::load_alive() const {
    if (alive_loaded_.load(std::memory_order_acquire)) return;
    const std::lock_guard turn(loading_);
    if (alive_loaded_.load(std::memory_order_relaxed)) return;
    std::vector<std::vector<std::uint64_t>> alive(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const Entry& entry = entries_[i];
        if (entry.removals.empty()) continue;
        const std::size_t rows = entry.items->rows();
        alive[i].assign((rows + 63) / 64, ~std::uint64_t{0});
        if (rows % 64) alive[i].back() = (std::uint64_t{1} << rows % 64) - 1;
        for (const auto& record : entry.removals) {
            const auto* removed = record->section(SectionKind::rows).all<std::uint32_t>();
            for (std::uint64_t r = 0; r < record->head().rows(); ++r) {
                if (removed[r] >= rows || !(alive[i][removed[r] / 64] >> removed[r] % 64 & 1))
                    record->fail("removes a row that is missing", std::to_string(removed[r]));
                alive[i][removed[r] / 64] &= ~(std::uint64_t{1} << removed[r] % 64);
            }
        }
    }
    check();
    alive_ = std::move(alive);
    alive_loaded_.store(true, std::memory_order_release);
}

const std::uint64_t* FileView::alive(std::size_t entry) const {
    load_alive();
    return alive_[entry].empty() ? nullptr : alive_[entry].data();
}

std::span<const detail::Segment> FileView::id_segments() const {
    if (!ids_loaded_.load(std::memory_order_acquire)) {
        load_alive();
        const std::lock_guard turn(loading_);
        if (!ids_loaded_.load(std::memory_order_relaxed)) {
            std::vector<detail::Segment> segments;
            for (std::size_t i = 0; i < entries_.size(); ++i) {
                segments.push_back(entries_[i].items->id_segment());
                segments.back().alive = alive_[i].empty() ? nullptr : alive_[i].data();
                segments.back().live -= entries_[i].dead;
            }
            id_segments_ = std::move(segments);
            ids_loaded_.store(true, std::memory_order_release);
        }
    }
    check();
    return id_segments_;
}

std::span<const detail::Segment> FileView::segments() const {
    if (!codes_loaded_.load(std::memory_order_acquire)) {
        const auto ids = id_segments();
        const std::lock_guard turn(loading_);
        if (!codes_loaded_.load(std::memory_order_relaxed)) {
            std::vector<detail::Segment> segments(ids.begin(), ids.end());
            for (std::size_t i = 0; i < segments.size(); ++i) {
                segments[i].codes = entries_[i].items->codes(0);
                segments[i].structures = entries_[i].structures.get();
            }
            segments_ = std::move(segments);
            codes_loaded_.store(true, std::memory_order_release);
        }
    }
    check();
    return segments_;
}

void FileView::check() const {
    check_identity();
    manifest_record_->check_whole();
    for (const Entry& entry : entries_) {
        entry.items->record().check_whole();
        for (const auto& record : entry.removals) record->check_whole();
    }
}

std::size_t FileView::memory() const {
    std::size_t sum = 0;
    for (const Entry& entry : entries_)
        sum += entry.items->memory() + (entry.structures ? entry.structures->memory() : 0);
    if (alive_loaded_.load(std::memory_order_acquire))
        for (const auto& words : alive_) sum += words.size() * 8;
    return sum;
}

const std::string& FileView::manifest() const {
    if (!manifest_loaded_.load(std::memory_order_acquire)) {
        const std::lock_guard turn(loading_);
        if (!manifest_loaded_.load(std::memory_order_relaxed)) {
            const Section& json = manifest_record_->section(SectionKind::json);
            manifest_.assign(json.all<char>(), json.size());
            check();
            manifest_loaded_.store(true, std::memory_order_release);
        }
    }
    return manifest_;
}

std::optional<FileView::RowRef> FileView::find(std::int64_t id) const {
    const auto segments = id_segments();
    std::optional<RowRef> place;
    for (std::size_t i = 0; i < segments.size() && !place; ++i)
        if (const auto row = segments[i].row_of(id)) place = RowRef{i, *row};
    check();
    return place;
}

FileView::RowRef FileView::at(std::int64_t id) const {
    const auto place = find(id);
    if (!place)
        throw Error(ErrorCode::not_found, {.path = path_, .problem = "id " + std::to_string(id) + " is missing"});
    return *place;
}

void FileView::check_ids(std::uint64_t since) const {
    struct Range {
        std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = -1;
        void add(std::int64_t id) { least = std::min(least, id), most = std::max(most, id); }
        void add(const Range& other) { least = std::min(least, other.least), most = std::max(most, other.most); }
        bool overlaps(const Range& other) const { return least <= other.most && other.least <= most; }
    };
    const auto segments = id_segments();
    std::vector<Range> ranges(segments.size());
    Range all;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& segment = segments[i];
        std::size_t first = 0, last = segment.rows;
        if (segment.ascending) {
            while (first < last && !segment.is_alive(first)) ++first;
            while (first < last && !segment.is_alive(last - 1)) --last;
            if (first < last) ranges[i].add(segment.id(first)), ranges[i].add(segment.id(last - 1));
        } else {
            each_live(segment, [&](std::int64_t id) { ranges[i].add(id); });
        }
        all.add(ranges[i]);
    }
    if (live && static_cast<std::uint64_t>(all.most) >= next_id)
        fail_corrupt(path_, "its largest id does not match its commit", std::to_string(all.most),
                     "less than " + std::to_string(next_id));

    std::vector<std::int64_t> suspects;  // ids that may be in another segment, too
    for (std::size_t i = 0; i < segments.size(); ++i) {
        if (entries_[i].items->record().head().commit <= since) continue;
        Range others;
        for (std::size_t j = 0; j < segments.size(); ++j)
            if (j != i && ranges[j].overlaps(ranges[i])) others.add(ranges[j]);
        if (others.most < 0) continue;
        each_live(segments[i], [&](std::int64_t id) {
            if (id >= others.least && id <= others.most) suspects.push_back(id);
        });
    }
    const auto fail = [&](std::int64_t id) { fail_corrupt(path_, "id " + std::to_string(id) + " occurs twice"); };
    if (suspects.size() < live / 64) {  // searches of few ids take less time than sorting all
        for (const std::int64_t id : suspects)
            if (std::count_if(segments.begin(), segments.end(), [id](const auto& each) { return each.row_of(id); }) > 1)
                fail(id);
    } else if (!suspects.empty()) {
        std::vector<std::int64_t> ids;
        ids.reserve(live);
        for (const auto& segment : segments) each_live(segment, [&](std::int64_t id) { ids.push_back(id); });
        std::sort(ids.begin(), ids.end());
        const auto twice = std::adjacent_find(ids.begin(), ids.end());
        if (twice != ids.end()) fail(*twice);
    }
}

std::size_t FileView::verify(std::vector<Fault>& faults, unsigned threads, std::uint64_t since) const {
    std::size_t good = 0;
    commit_record_->verify(faults, threads);
    manifest_record_->verify(faults, threads);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const Entry& entry = entries_[i];
        const std::size_t before = faults.size();
        if (entry.items->record().head().commit > since) entry.items->verify(faults, threads);
        for (const auto& record : entry.removals)
            if (record->head().commit > since) record->verify(faults, threads);
        if (faults.size() == before) good += entry.items->rows() - entry.dead;
    }
    if (!faults.empty()) return good;
    try {
        check_ids(since);
        check();
    } catch (const Error& error) {
        faults.push_back({described(error), commit_.offset, commit_.end - commit_.offset});
        return 0;
    }
    return good;
}

}  // namespace idcwh::storage
