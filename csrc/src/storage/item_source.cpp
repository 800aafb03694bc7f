// See item_source.hpp.
#include "storage/item_source.hpp"

#include <algorithm>
#include <limits>

namespace idcwh::storage {

NewSource::NewSource(const NewItems& items, unsigned bits, std::int64_t first_id)
    : items_(items), bytes_(code_bytes(bits)), first_id_(first_id) {
    size_ = items.size;
    has_keys_ = items.keys && std::any_of(items.keys, items.keys + size_, [](auto key) { return !key.empty(); });
    has_mtime_signatures_ = items.mtime_signatures;
    has_checksums_ = items.checksums && std::any_of(items.checksums, items.checksums + size_,
                                                    [](const Checksum& each) { return each != Checksum{}; });
    labels_.assign(size_, no_label);
    std::unordered_map<std::string_view, std::uint32_t> numbers;
    for (std::size_t i = 0; items.labels && i < size_; ++i) {
        if (!items.labels[i].data()) continue;
        const auto [at, fresh] = numbers.try_emplace(items.labels[i], static_cast<std::uint32_t>(texts_.size()));
        if (fresh) texts_.push_back(items.labels[i]);
        labels_[i] = at->second;
        has_labels_ = true;
    }
}

std::int64_t NewSource::id(std::size_t i) const {
    return items_.ids ? items_.ids[i] : first_id_ + static_cast<std::int64_t>(i);
}
std::string_view NewSource::key(std::size_t i) const { return items_.keys ? items_.keys[i] : std::string_view(); }
void NewSource::codes(std::size_t begin, std::size_t end,
                      const std::function<void(const std::uint8_t*, std::size_t)>& out) const {
    if (begin < end) out(items_.codes + begin * bytes_, (end - begin) * bytes_);
}

StoredSource::StoredSource(std::shared_ptr<const Items> items, const std::uint64_t* alive, std::size_t live,
                           unsigned threads)
    : items_(std::move(items)), segment_(items_->id_segment()) {
    segment_.codes = items_->codes(threads);
    size_ = live;
    has_keys_ = items_->has_keys();
    has_labels_ = items_->has_labels();
    has_mtime_signatures_ = items_->has_mtime_signatures();
    has_checksums_ = items_->has_checksums();
    if (!alive) return;
    rows_.reserve(live);
    for (std::size_t row = 0; row < items_->rows(); ++row)
        if (alive[row / 64] >> row % 64 & 1) rows_.push_back(static_cast<std::uint32_t>(row));
}

void StoredSource::codes(std::size_t begin, std::size_t end,
                         const std::function<void(const std::uint8_t*, std::size_t)>& out) const {
    const std::size_t bytes = segment_.bytes();
    while (begin < end) {
        std::size_t stop = rows_.empty() ? end : begin + 1;
        while (stop < end && rows_[stop] == rows_[stop - 1] + 1) ++stop;
        out(segment_.code(row(begin)), (stop - begin) * bytes);
        begin = stop;
    }
}

namespace {

struct Slice {
    const Source* source;
    std::size_t begin, end;
};

template <class Body>
void each(const std::vector<Slice>& slices, Body body) {
    for (const Slice& slice : slices)
        for (std::size_t i = slice.begin; i < slice.end; ++i) body(*slice.source, i);
}

// An encoder of runs of consecutive ids ("id runs" in docs/codes-bin.md).
class Runs {
public:
    void add(std::int64_t id) {
        if (length_ && id - 1 == last_) {
            ++length_, last_ = id;
            return;
        }
        end_run();
        first_ = last_ = id, length_ = 1;
    }
    // Returns the encoded ids. Returns null if a step between two runs is too large to encode, or if single ids take
    // fewer bytes.
    const std::vector<std::uint8_t>* end() {
        end_run();
        return possible_ ? &bytes_ : nullptr;
    }

private:
    void end_run() {
        if (!length_) return;
        const auto step = static_cast<std::int64_t>(static_cast<std::uint64_t>(first_) - expected_);
        possible_ &= step < limit && step >= -limit;
        // Stops at 8 bytes per id, the size of single ids, so that scattered ids take little memory here.
        if (possible_) {
            number((static_cast<std::uint64_t>(step) << 1 ^ static_cast<std::uint64_t>(step >> 63)) << 1 |
                   (length_ > 1));
            if (length_ > 1) number(length_);
            possible_ = bytes_.size() < 16 + 8 * (ids_ += length_);
        }
        expected_ = static_cast<std::uint64_t>(last_) + 1;
        length_ = 0;
    }
    void number(std::uint64_t value) {
        for (; value > 0x7f; value >>= 7) bytes_.push_back(static_cast<std::uint8_t>(value | 0x80));
        bytes_.push_back(static_cast<std::uint8_t>(value));
    }

    static constexpr std::int64_t limit = std::int64_t{1} << 62;
    std::vector<std::uint8_t> bytes_;
    bool possible_ = true;
    std::int64_t first_ = 0, last_ = 0;
    std::uint64_t expected_ = 0, length_ = 0, ids_ = 0;
};

// The ids of a record and their smallest encoding: none if consecutive, runs, 32-bit offsets from the first if close,
// or 64-bit ids.
struct Ids {
    std::uint64_t first = no_first_id;
    bool consecutive = true, ascending = true, close = true;
    Runs runs;
    const std::vector<std::uint8_t>* as_runs = nullptr;

    explicit Ids(const std::vector<Slice>& slices) {
        std::int64_t least = 0, last = 0;
        std::uint64_t count = 0;
        bool any = false;
        each(slices, [&](const Source& source, std::size_t i) {
            const std::int64_t id = source.id(i);
            if (!any) least = id;
            consecutive &= !any || id - 1 == last;
            ascending &= !any || id > last;
            close &= id >= least && id - least <= std::numeric_limits<std::uint32_t>::max();
            runs.add(id);
            ++count;
            last = id;
            any = true;
        });
        close &= ascending && least <= std::numeric_limits<std::int64_t>::max() - (std::int64_t{1} << 32);
        as_runs = consecutive ? nullptr : runs.end();
        if (as_runs && as_runs->size() >= (close ? 4 : 8) * count) as_runs = nullptr;
        if (!as_runs && (consecutive || close)) first = static_cast<std::uint64_t>(least);
    }
    Ids(const Ids&) = delete;
    Ids& operator=(const Ids&) = delete;
};

// The label table of a record, which maps the label numbers of all sources to one number per text.
struct Labels {
    std::unordered_map<std::string_view, std::uint32_t> numbers;
    std::vector<std::string_view> texts;
    std::unordered_map<const Source*, std::vector<std::uint32_t>> of_source;
    std::uint64_t bytes = 0;

    explicit Labels(const std::vector<Slice>& slices) {
        each(slices, [&](const Source& source, std::size_t i) {
            if (!source.has_labels()) return;
            auto& map = of_source[&source];
            if (map.empty()) map.assign(source.label_count(), no_label);
            const std::uint32_t label = source.label(i);
            if (label == no_label || map[label] != no_label) return;
            const std::string_view text = source.label_text(label);
            const auto [at, fresh] = numbers.try_emplace(text, static_cast<std::uint32_t>(texts.size()));
            if (fresh) texts.push_back(text), bytes += text.size();
            map[label] = at->second;
        });
    }
    std::uint32_t number(const Source& source, std::size_t i) const {
        const std::uint32_t label = source.has_labels() ? source.label(i) : no_label;
        return label == no_label ? no_label : of_source.at(&source)[label];
    }
};

std::uint64_t write_record(Appender& out, unsigned bits, std::uint64_t commit, const std::vector<Slice>& slices) {
    std::uint64_t items = 0, key_bytes = 0;
    bool keys = false, mtime_signatures = false, checksums = false;
    for (const Slice& slice : slices) {
        items += slice.end - slice.begin;
        keys |= slice.source->has_keys();
        mtime_signatures |= slice.source->has_mtime_signatures();
        checksums |= slice.source->has_checksums();
    }
    if (keys) each(slices, [&](const Source& source, std::size_t i) { key_bytes += source.key(i).size(); });
    keys &= key_bytes > 0;
    const Ids ids(slices);
    const Labels labels(slices);
    const bool labelled = !labels.texts.empty();

    Sizes sizes{{SectionKind::codes, items * code_bytes(bits)}};
    if (ids.as_runs)
        sizes.emplace_back(SectionKind::id_runs, ids.as_runs->size());
    else if (!ids.consecutive)
        sizes.push_back(ids.close ? Sizes::value_type{SectionKind::id_offsets, 4 * items}
                                  : Sizes::value_type{SectionKind::ids, 8 * items});
    if (keys) sizes.insert(sizes.end(), {{SectionKind::key_ends, 4 * items}, {SectionKind::keys, key_bytes}});
    if (labelled)
        sizes.insert(sizes.end(), {{SectionKind::labels, 4 * items},
                                   {SectionKind::label_table, 4 + 4 * labels.texts.size() + labels.bytes}});
    if (mtime_signatures) sizes.push_back({SectionKind::mtime_signatures, 4 * items});
    if (checksums) sizes.push_back({SectionKind::checksums, sizeof(Checksum) * items});

    RecordWriter record(out, Kind::items, commit, sizes, items, ids.first, ids.ascending ? ids_ascend : 0);
    for (const Slice& slice : slices)
        slice.source->codes(slice.begin, slice.end,
                            [&](const std::uint8_t* bytes, std::size_t size) { record.put(bytes, size); });
    if (ids.as_runs)
        record.put(ids.as_runs->data(), ids.as_runs->size());
    else if (!ids.consecutive)
        each(slices, [&](const Source& source, std::size_t i) {
            if (ids.close)
                record.number(static_cast<std::uint32_t>(static_cast<std::uint64_t>(source.id(i)) - ids.first));
            else
                record.number(source.id(i));
        });
    if (keys) {
        std::uint32_t end = 0;
        each(slices, [&](const Source& source, std::size_t i) {
            record.number(end += static_cast<std::uint32_t>(source.key(i).size()));
        });
        each(slices, [&](const Source& source, std::size_t i) {
            const std::string_view key = source.key(i);
            record.put(key.data(), key.size());
        });
    }
    if (labelled) {
        each(slices, [&](const Source& source, std::size_t i) { record.number(labels.number(source, i)); });
        record.number(static_cast<std::uint32_t>(labels.texts.size()));
        std::uint32_t end = 0;
        for (const auto text : labels.texts) record.number(end += static_cast<std::uint32_t>(text.size()));
        for (const auto text : labels.texts) record.put(text.data(), text.size());
    }
    if (mtime_signatures)
        each(slices, [&](const Source& source, std::size_t i) { record.number(source.mtime_signature(i)); });
    if (checksums) each(slices, [&](const Source& source, std::size_t i) { record.number(source.checksum(i)); });
    return record.finish();
}

}  // namespace

std::vector<std::uint64_t> write_items(Appender& out, unsigned bits, std::uint64_t commit,
                                       const std::vector<const Source*>& sources) {
    std::vector<std::uint64_t> offsets;
    std::vector<Slice> slices;
    std::uint64_t items = 0, text = 0;
    const auto end_record = [&] {
        if (items) offsets.push_back(write_record(out, bits, commit, slices));
        slices.clear();
        items = text = 0;
    };
    for (const Source* source : sources) {
        std::size_t begin = 0;
        const auto take = [&](std::size_t end) {
            if (begin < end) slices.push_back({source, begin, end});
            begin = end;
        };
        // Labels of different sources may be equal. Counting them all gives an upper bound without comparisons.
        const bool texts = source->has_keys();
        std::uint64_t label_bytes = 0;
        for (std::size_t number = 0; number < source->label_count(); ++number)
            label_bytes += 4 + source->label_text(number).size();
        if (text + label_bytes > max_text) end_record();
        text += label_bytes;
        for (std::size_t i = 0; i < source->size(); ++i) {
            const std::uint64_t more = texts ? source->key(i).size() : 0;
            if (items + 1 > max_items || text + more > max_text) {
                take(i);
                end_record();
                text = label_bytes;
            }
            ++items;
            text += more;
        }
        take(source->size());
    }
    end_record();
    return offsets;
}

}  // namespace idcwh::storage
