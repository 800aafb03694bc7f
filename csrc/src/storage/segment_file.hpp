// The items of one record: codes, ids, keys, labels, mtime signatures and checksums.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <idcwh/database.hpp>

#include "index/id_table.hpp"
#include "index/segment.hpp"
#include "storage/key_table.hpp"
#include "storage/record.hpp"

namespace idcwh::storage {

// A view of an items record. Sections are checked when they are first read. Thread-safe. Its functions throw
// Error(corrupt).
class Items {
public:
    // Throws Error(corrupt) if the lengths of the sections do not match the number of items.
    Items(std::shared_ptr<const Record> record, unsigned bits);

    const Record& record() const { return *record_; }
    std::uint64_t offset() const { return record_->head().offset; }
    std::size_t rows() const { return rows_; }

    // Returns the codes in the mapped file. threads: for their check on the first call.
    const std::uint8_t* codes(unsigned threads) const;
    // Returns the rows as a segment of a snapshot, without codes. All rows are alive.
    detail::Segment id_segment() const;
    std::size_t memory() const;

    // Return the data of a row. A null data() means no key or no label.
    std::string_view key(std::size_t row) const;
    std::string_view label(std::size_t row) const;
    std::uint32_t mtime_signature(std::size_t row) const;  // 0: none
    Checksum checksum(std::size_t row) const;
    // Calls found(row) for every row with this key. The first call reads all keys.
    template <class Found>
    void find(std::string_view key, Found found) const {
        if (!keys_ || key.empty()) return;
        for (const std::uint32_t row : key_table().candidates(key))
            if (this->key(row) == key) found(row);
    }
    // Access the label table, by label number.
    std::size_t label_count() const;
    std::string_view label_text(std::size_t number) const;
    std::uint32_t label_number(std::size_t row) const;

    bool has_keys() const { return keys_; }
    bool has_labels() const { return labels_; }
    bool has_mtime_signatures() const { return mtime_signatures_; }
    bool has_checksums() const { return checksums_; }

    // Adds the corrupt blocks to `faults`. If there are none, adds invalid contents.
    void verify(std::vector<Fault>& faults, unsigned threads) const;

private:
    void load_ids() const;
    const KeyTable& key_table() const;
    void read_runs() const;
    void check_label_table() const;

    std::shared_ptr<const Record> record_;
    unsigned bits_;
    std::size_t rows_;
    const Section *codes_, *ids_, *id_offsets_, *id_runs_, *key_ends_, *keys_, *labels_, *label_table_,
        *mtime_signatures_, *checksums_;
    std::uint64_t first_id_;

    mutable std::mutex loading_;
    mutable std::atomic<bool> ids_loaded_{false}, codes_checked_{false}, label_table_checked_{false};
    mutable const std::int64_t* id_data_ = nullptr;  // null: consecutive
    mutable std::vector<std::int64_t> id_copy_;      // decoded id offsets or id runs
    mutable bool ascending_ = true;
    mutable std::unique_ptr<IdTable> table_;

    mutable std::mutex hashing_;
    mutable std::atomic<bool> keys_hashed_{false};
    mutable std::unique_ptr<const KeyTable> key_table_;
};

}  // namespace idcwh::storage
