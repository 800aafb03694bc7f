// DatabaseSnapshot: keys, labels, mtime signatures and checksums of the items of one commit. Searches are in
// index/snapshot.cpp.
#include <idcwh/database.hpp>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "storage/file_view.hpp"

namespace idcwh {

using storage::FileView;

DatabaseSnapshot::DatabaseSnapshot(std::shared_ptr<const FileView> view) : Snapshot(view), view_(std::move(view)) {}

std::string_view DatabaseSnapshot::key(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::string_view key = view_->entries()[place.entry].items->key(place.row);
    view_->check();
    return key;
}
std::string_view DatabaseSnapshot::label(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::string_view label = view_->entries()[place.entry].items->label(place.row);
    view_->check();
    return label;
}
std::uint32_t DatabaseSnapshot::mtime_signature(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::uint32_t mtime_signature = view_->entries()[place.entry].items->mtime_signature(place.row);
    view_->check();
    return mtime_signature;
}
Checksum DatabaseSnapshot::checksum(std::int64_t id) const {
    const auto place = view_->at(id);
    const Checksum checksum = view_->entries()[place.entry].items->checksum(place.row);
    view_->check();
    return checksum;
}
void DatabaseSnapshot::checksums(Checksum* out) const {
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& items = *view_->entries()[i].items;
        for (std::size_t row = 0; row < segments[i].rows; ++row)
            if (segments[i].is_alive(row)) *out++ = items.checksum(row);
    }
    view_->check();
}
const std::string& DatabaseSnapshot::manifest() const { return view_->manifest(); }
std::uint64_t DatabaseSnapshot::commit() const { return view_->commit().number; }

void DatabaseSnapshot::check_intact() const { view_->check(); }

void DatabaseSnapshot::visit(Visitor visitor, void* context) const {
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& items = *view_->entries()[i].items;
        for (std::size_t row = 0; row < segments[i].rows; ++row)
            if (segments[i].is_alive(row))
                visitor(context, segments[i].id(row), items.key(row), items.label(row), items.mtime_signature(row));
    }
    view_->check();
}

std::vector<std::int64_t> DatabaseSnapshot::find(const std::string_view* keys, std::size_t count) const {
    const std::unordered_set<std::string_view> wanted(keys, keys + count);
    std::vector<std::int64_t> found;
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& segment = segments[i];
        for (const std::string_view key : wanted)
            view_->entries()[i].items->find(key, [&](std::size_t row) {
                if (segment.is_alive(row)) found.push_back(segment.id(row));
            });
    }
    view_->check();
    std::sort(found.begin(), found.end());
    return found;
}

std::vector<std::pair<std::string_view, std::size_t>> DatabaseSnapshot::label_counts() const {
    std::unordered_map<std::string_view, std::size_t> counts;
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& items = *view_->entries()[i].items;
        std::vector<std::size_t> of_number(items.label_count());
        for (std::size_t row = 0; items.has_labels() && row < segments[i].rows; ++row)
            if (segments[i].is_alive(row))
                if (const auto number = items.label_number(row); number != storage::no_label) ++of_number[number];
        for (std::size_t number = 0; number < of_number.size(); ++number)
            if (of_number[number]) counts[items.label_text(number)] += of_number[number];
    }
    view_->check();
    return {counts.begin(), counts.end()};
}

const std::uint8_t* DatabaseSnapshot::codes_in_place() const {
    const auto segments = view_->segments();
    return segments.size() == 1 && !segments[0].alive ? segments[0].codes : nullptr;
}

}  // namespace idcwh
