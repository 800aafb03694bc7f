// Sources of the items that a record is written from: the caller's memory, or the live rows of existing records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <idcwh/database.hpp>

#include "storage/record_writer.hpp"
#include "storage/segment_file.hpp"

namespace idcwh::storage {

// A sequence of items.
class Source {
public:
    virtual ~Source() = default;
    std::size_t size() const { return size_; }
    virtual std::int64_t id(std::size_t i) const = 0;
    virtual std::string_view key(std::size_t i) const = 0;  // data null: none
    virtual std::uint32_t label(std::size_t i) const = 0;   // number of the label in this source, or no_label
    virtual std::string_view label_text(std::size_t number) const = 0;
    virtual std::size_t label_count() const = 0;
    virtual std::uint32_t mtime_signature(std::size_t i) const = 0;
    virtual Checksum checksum(std::size_t i) const = 0;
    // Calls out(bytes, size) with the codes of items [begin, end), in order.
    virtual void codes(std::size_t begin, std::size_t end,
                       const std::function<void(const std::uint8_t*, std::size_t)>& out) const = 0;
    bool has_keys() const { return has_keys_; }
    bool has_labels() const { return has_labels_; }
    bool has_mtime_signatures() const { return has_mtime_signatures_; }
    bool has_checksums() const { return has_checksums_; }

protected:
    std::size_t size_ = 0;
    bool has_keys_ = false, has_labels_ = false, has_mtime_signatures_ = false, has_checksums_ = false;
};

// A view of the caller's new items. Their ids are the given ones, or start at first_id.
class NewSource : public Source {
public:
    NewSource(const NewItems& items, unsigned bits, std::int64_t first_id);
    std::int64_t id(std::size_t i) const override;
    std::string_view key(std::size_t i) const override;
    std::uint32_t label(std::size_t i) const override { return labels_[i]; }
    std::string_view label_text(std::size_t number) const override { return texts_[number]; }
    std::size_t label_count() const override { return texts_.size(); }
    std::uint32_t mtime_signature(std::size_t i) const override {
        return items_.mtime_signatures ? items_.mtime_signatures[i] : 0;
    }
    Checksum checksum(std::size_t i) const override { return items_.checksums ? items_.checksums[i] : Checksum{}; }
    void codes(std::size_t begin, std::size_t end,
               const std::function<void(const std::uint8_t*, std::size_t)>& out) const override;

private:
    NewItems items_;
    std::size_t bytes_;
    std::int64_t first_id_;
    std::vector<std::uint32_t> labels_;
    std::vector<std::string_view> texts_;
};

// The live rows of a record. alive: one bit per row; null: all. threads: for the check of the codes.
class StoredSource : public Source {
public:
    StoredSource(std::shared_ptr<const Items> items, const std::uint64_t* alive, std::size_t live, unsigned threads);
    std::int64_t id(std::size_t i) const override { return segment_.id(row(i)); }
    std::string_view key(std::size_t i) const override { return items_->key(row(i)); }
    std::uint32_t label(std::size_t i) const override { return items_->label_number(row(i)); }
    std::string_view label_text(std::size_t number) const override { return items_->label_text(number); }
    std::size_t label_count() const override { return items_->label_count(); }
    std::uint32_t mtime_signature(std::size_t i) const override { return items_->mtime_signature(row(i)); }
    Checksum checksum(std::size_t i) const override { return items_->checksum(row(i)); }
    void codes(std::size_t begin, std::size_t end,
               const std::function<void(const std::uint8_t*, std::size_t)>& out) const override;

private:
    std::size_t row(std::size_t i) const { return rows_.empty() ? i : rows_[i]; }
    std::shared_ptr<const Items> items_;
    detail::Segment segment_;
    std::vector<std::uint32_t> rows_;  // numbers of the live rows; empty: all
};

// Writes the items of all sources, in order, to as few records as possible. Returns the offsets of the records.
std::vector<std::uint64_t> write_items(Appender& out, unsigned bits, std::uint64_t commit,
                                       const std::vector<const Source*>& sources);

}  // namespace idcwh::storage
