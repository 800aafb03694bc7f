// See segment_file.hpp.
#include "storage/segment_file.hpp"

#include <idcwh/error.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/pool.hpp"

namespace idcwh::storage {
namespace {

constexpr std::uint64_t ids_end = std::uint64_t{1} << 63;

}  // namespace

Items::Items(std::shared_ptr<const Record> record, unsigned bits)
    : record_(std::move(record)),
      bits_(bits),
      codes_(record_->find(SectionKind::codes)),
      ids_(record_->find(SectionKind::ids)),
      id_offsets_(record_->find(SectionKind::id_offsets)),
      id_runs_(record_->find(SectionKind::id_runs)),
      key_ends_(record_->find(SectionKind::key_ends)),
      keys_(record_->find(SectionKind::keys)),
      labels_(record_->find(SectionKind::labels)),
      label_table_(record_->find(SectionKind::label_table)),
      mtime_signatures_(record_->find(SectionKind::mtime_signatures)),
      checksums_(record_->find(SectionKind::checksums)),
      first_id_(record_->head().first_id()) {
    const std::uint64_t items = record_->head().items();
    if (items > max_items)
        record_->fail("has too many items", std::to_string(items), "at most " + std::to_string(max_items));
    rows_ = static_cast<std::size_t>(items);
    const auto expect = [&](const Section* section, const char* name, std::uint64_t size) {
        if (!section) record_->fail(std::string("has no ") + name);
        if (section->size() != size * items)
            record_->fail(std::string("has ") + name + " that do not match its " + std::to_string(items) + " items",
                          std::to_string(section->size()) + " bytes", std::to_string(size * items));
    };
    expect(codes_, "codes", code_bytes(bits));
    if (id_runs_) {
        if (first_id_ != no_first_id) record_->fail("has both id runs and a first id");
    } else if (id_offsets_) {
        expect(id_offsets_, "id offsets", 4);
    } else if (first_id_ == no_first_id) {
        expect(ids_, "ids", 8);
    } else if (first_id_ > ids_end - items) {
        record_->fail("has ids beyond 63 bits");
    }
    if (!id_runs_ && id_offsets_ && first_id_ > ids_end - (std::uint64_t{1} << 32))
        record_->fail("has ids beyond 63 bits");
    if (key_ends_ || keys_) expect(key_ends_, "key ends", 4);
    if (key_ends_ && !keys_) record_->fail("has no keys");
    if (labels_ || label_table_) expect(labels_, "labels", 4);
    if (labels_ && !label_table_) record_->fail("has no label table");
    if (mtime_signatures_) expect(mtime_signatures_, "mtime signatures", 4);
    if (checksums_) expect(checksums_, "checksums", sizeof(Checksum));
}

const std::uint8_t* Items::codes(unsigned threads) const {
    if (codes_checked_.load(std::memory_order_acquire)) return codes_->read(0, 0);
    const auto* codes = codes_->all<std::uint8_t>(threads);
    if (!padding_is_zero({codes, rows_, bits_})) record_->fail("has codes with nonzero padding bits");
    codes_checked_.store(true, std::memory_order_release);
    return codes;
}

std::size_t Items::memory() const {
    std::size_t sum = static_cast<std::size_t>(codes_->size()) + (ids_ ? static_cast<std::size_t>(ids_->size()) : 0);
    if (ids_loaded_.load(std::memory_order_acquire))
        sum += id_copy_.size() * sizeof(std::int64_t) + (table_ ? table_->memory() : 0);
    if (keys_hashed_.load(std::memory_order_acquire)) sum += key_table_->memory();
    return sum;
}

void Items::load_ids() const {
    if (ids_loaded_.load(std::memory_order_acquire)) return;
    const std::lock_guard turn(loading_);
    if (ids_loaded_.load(std::memory_order_relaxed)) return;
    if (id_runs_) {
        read_runs();
        id_data_ = id_copy_.data();
    } else if (id_offsets_) {
        const auto* offsets = id_offsets_->all<std::uint32_t>();
        id_copy_.resize(rows_);
        for (std::size_t row = 0; row < rows_; ++row)
            id_copy_[row] = static_cast<std::int64_t>(first_id_ + offsets[row]);
        id_data_ = id_copy_.data();
    } else if (first_id_ == no_first_id) {
        id_data_ = ids_->all<std::int64_t>();
    }
    if (id_data_ && rows_) {
        const auto least = *std::min_element(id_data_, id_data_ + rows_);
        if (least < 0) record_->fail("has a negative id", std::to_string(least));
        ascending_ = std::adjacent_find(id_data_, id_data_ + rows_, std::greater_equal<>()) == id_data_ + rows_;
        if (!ascending_) {
            table_ = std::make_unique<IdTable>(rows_);
            for (std::size_t row = 0; row < rows_; ++row) table_->insert(id_data_[row], row);
        }
    }
    ids_loaded_.store(true, std::memory_order_release);
}

void Items::read_runs() const {
    const std::uint8_t *at = id_runs_->all<std::uint8_t>(), *end = at + id_runs_->size();
    const auto number = [&] {
        std::uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            if (at == end || shift > 63) record_->fail("has id runs that end within a number");
            const std::uint8_t byte = *at++;
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return value;
        }
    };
    std::vector<std::int64_t> ids;
    ids.reserve(rows_);
    std::uint64_t next = 0;  // last id of the previous run plus 1
    while (at < end) {
        const std::uint64_t head = number(), step = head >> 1, length = head & 1 ? number() : 1;
        next += step >> 1 ^ (std::uint64_t{0} - (step & 1));
        if (length > rows_ - ids.size()) record_->fail("has too many ids in its id runs", {}, std::to_string(rows_));
        if (next >= ids_end || length > ids_end - next) record_->fail("has ids beyond 63 bits");
        for (std::uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int64_t>(next++));
    }
    if (ids.size() != rows_)
        record_->fail("has too few ids in its id runs", std::to_string(ids.size()), std::to_string(rows_));
    id_copy_ = std::move(ids);
}

detail::Segment Items::id_segment() const {
    load_ids();
    detail::Segment segment;
    segment.bits = bits_;
    segment.rows = segment.live = rows_;
    segment.ascending = ascending_;
    segment.ids = id_data_;
    segment.first_id = id_data_ ? 0 : static_cast<std::int64_t>(first_id_);
    segment.table = table_.get();
    return segment;
}

std::string_view Items::key(std::size_t row) const {
    if (!keys_) return {};
    const std::uint32_t begin = row ? key_ends_->number(row - 1) : 0, end = key_ends_->number(row);
    if (begin > end || end > keys_->size())
        record_->fail("has a key outside of its section (row " + std::to_string(row) + ")");
    if (begin == end) return {};
    return {reinterpret_cast<const char*>(keys_->read(begin, end)), end - begin};
}

const KeyTable& Items::key_table() const {
    if (!keys_hashed_.load(std::memory_order_acquire)) {
        const std::lock_guard turn(hashing_);
        if (!keys_hashed_.load(std::memory_order_relaxed)) {
            const unsigned threads = pool::available_threads();
            const auto* ends = key_ends_->all<std::uint32_t>(threads);
            const auto* texts = keys_->all<char>(threads);
            const std::uint64_t size = keys_->size();
            auto table = std::make_unique<const KeyTable>(
                rows_,
                [&](std::size_t row) {
                    const std::uint32_t begin = row ? ends[row - 1] : 0, end = ends[row];
                    return begin > end || end > size ? key(row) : std::string_view(texts + begin, end - begin);
                },
                threads);
            record_->check();
            key_table_ = std::move(table);
            keys_hashed_.store(true, std::memory_order_release);
        }
    }
    return *key_table_;
}

// The layout is a count, the end of each text, then the texts.
void Items::check_label_table() const {
    if (label_table_checked_.load(std::memory_order_acquire)) return;
    const std::uint64_t size = label_table_->size();
    label_table_->read(0, size);
    const std::uint64_t count = size < 4 ? 0 : label_table_->number(0);
    if (size < 4 || 4 + 4 * count > size)
        record_->fail("has a label table that is too small for its " + std::to_string(count) + " labels",
                      std::to_string(size) + " bytes");
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t end = label_table_->number(1 + i);
        if (end < last) record_->fail("has a label table whose texts overlap");
        last = end;
    }
    if (4 + 4 * count + last != size) record_->fail("has a label table whose texts do not fill it");
    label_table_checked_.store(true, std::memory_order_release);
}

std::size_t Items::label_count() const {
    if (!labels_) return 0;
    check_label_table();
    return label_table_->number(0);
}

std::string_view Items::label_text(std::size_t number) const {
    const std::size_t count = label_count();
    const std::uint64_t texts = 4 + 4 * std::uint64_t{count};
    const std::uint32_t begin = number ? label_table_->number(number) : 0, end = label_table_->number(number + 1);
    return {reinterpret_cast<const char*>(label_table_->read(texts + begin, texts + end)), end - begin};
}

std::uint32_t Items::label_number(std::size_t row) const {
    if (!labels_) return no_label;
    const std::uint32_t number = labels_->number(row);
    if (number != no_label && number >= label_count())
        record_->fail("has an invalid label number (row " + std::to_string(row) + ")", std::to_string(number),
                      "less than " + std::to_string(label_count()));
    return number;
}

std::string_view Items::label(std::size_t row) const {
    const std::uint32_t number = label_number(row);
    return number == no_label ? std::string_view() : label_text(number);
}

std::uint32_t Items::mtime_signature(std::size_t row) const {
    return mtime_signatures_ ? mtime_signatures_->number(row) : 0;
}

Checksum Items::checksum(std::size_t row) const {
    Checksum checksum;
    if (checksums_)
        std::memcpy(&checksum, checksums_->read(row * sizeof checksum, (row + 1) * sizeof checksum), sizeof checksum);
    return checksum;
}

void Items::verify(std::vector<Fault>& faults, unsigned threads) const {
    const std::size_t before = faults.size();
    record_->verify(faults, threads);
    if (faults.size() > before) return;  // the contents of corrupt blocks prove nothing
    try {
        codes(threads);
        load_ids();
        if (table_ || id_data_) {
            std::vector<std::int64_t> sorted(id_data_, id_data_ + rows_);
            std::sort(sorted.begin(), sorted.end());
            const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
            if (twice != sorted.end()) record_->fail("has the id " + std::to_string(*twice) + " twice");
        }
        if (keys_) {
            const auto* ends = key_ends_->all<std::uint32_t>(threads);
            std::uint32_t last = 0;
            for (std::size_t row = 0; row < rows_; last = ends[row++])
                if (ends[row] < last || ends[row] > keys_->size()) key(row);  // throws
            if (last != keys_->size()) record_->fail("has keys that do not fill their section");
        }
        if (labels_) {
            const auto* numbers = labels_->all<std::uint32_t>(threads);
            const std::size_t count = label_count();
            for (std::size_t row = 0; row < rows_; ++row)
                if (numbers[row] >= count && numbers[row] != no_label) label_number(row);  // throws
        }
    } catch (const Error& error) {
        faults.push_back({described(error), offset(), record_->head().length});
    }
}

}  // namespace idcwh::storage
