// See record_writer.hpp.
#include "storage/record_writer.hpp"

#include <idcwh/crc32c.hpp>

#include <algorithm>
#include <cstring>

namespace idcwh::storage {
namespace {
constexpr std::size_t buffer_size = 1 << 20;  // large enough to make the cost of a system call negligible
}  // namespace

void Appender::put(const void* data, std::size_t size) {
    end_ += size;
    if (buffer_.size() + size > buffer_size) flush();
    if (size > buffer_size) {
        file_.write(at_, data, size);
        at_ += size;
        return;
    }
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
}

void Appender::zeros(std::uint64_t size) {
    static constexpr std::uint8_t none[4096] = {};
    for (; size; size -= std::min<std::uint64_t>(size, sizeof none))
        put(none, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof none)));
}

void Appender::patch(std::uint64_t offset, const void* data, std::size_t size) {
    if (offset < at_) flush();  // the range may be partly in the file and partly in the buffer
    if (offset < at_)
        file_.write(offset, data, size);
    else
        std::memcpy(buffer_.data() + (offset - at_), data, size);
}

void Appender::flush() {
    if (buffer_.empty()) return;
    file_.write(at_, buffer_.data(), buffer_.size());
    at_ += buffer_.size();
    buffer_.clear();
}

RecordWriter::RecordWriter(Appender& out, Kind kind, std::uint64_t commit, const Sizes& sections, std::uint64_t a,
                           std::uint64_t b, std::uint64_t c)
    : out_(out) {
    std::memcpy(head_.magic, "RECD", 4);
    head_.kind = kind;
    head_.offset = out.end();
    head_.commit = commit;
    head_.head_length = static_cast<std::uint32_t>(head_length(sections.size()));
    head_.sections = static_cast<std::uint32_t>(sections.size());
    head_.a = a, head_.b = b, head_.c = c;
    std::uint64_t at = aligned(head_.head_length);
    for (const auto& [section, length] : sections) {
        const std::uint64_t table = at + (length + 3) / 4 * 4;
        sections_.push_back({section, 0, at, length, table});
        at = aligned(table + 4 * blocks_of(length));
    }
    head_.length = at;
    out_.zeros(aligned(head_.head_length));
    open();
}

void RecordWriter::open() {
    for (; current_ < sections_.size() && sections_[current_].length == 0; ++current_) close();
    if (current_ < sections_.size()) left_ = sections_[current_].length;
}

void RecordWriter::close() {
    SectionHead& section = sections_[current_];
    if (filled_) table_.push_back(crc_);
    out_.zeros(head_.offset + section.table - out_.end());
    out_.put(table_.data(), 4 * table_.size());
    section.table_crc = crc32c(table_.data(), 4 * table_.size());
    out_.zeros(aligned(out_.end() - head_.offset) - (out_.end() - head_.offset));
    table_.clear();
    crc_ = 0, filled_ = 0;
}

void RecordWriter::put(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    while (size) {
        const auto now = static_cast<std::size_t>(std::min<std::uint64_t>({size, block - filled_, left_}));
        crc_ = crc32c(bytes, now, crc_);
        out_.put(bytes, now);
        bytes += now, size -= now, left_ -= now, filled_ += now;
        if (filled_ == block) {
            table_.push_back(crc_);
            crc_ = 0, filled_ = 0;
        }
        if (left_ == 0) {
            close();
            ++current_;
            open();
        }
    }
}

std::uint64_t RecordWriter::finish() {
    std::vector<std::uint8_t> head(head_.head_length);
    std::memcpy(head.data(), &head_, sizeof head_);
    std::memcpy(head.data() + sizeof head_, sections_.data(), sections_.size() * sizeof(SectionHead));
    const std::uint32_t crc = crc32c(head.data(), head.size() - 4, out_.seed());
    std::memcpy(head.data() + head.size() - 4, &crc, 4);
    out_.patch(head_.offset, head.data(), head.size());
    return head_.offset;
}

}  // namespace idcwh::storage
