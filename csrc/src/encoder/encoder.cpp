// Encoder: the session, its metadata and batches. manifest.cpp ties a database to its model.
#include "encoder/encoder_impl.hpp"

#include <idcwh/search.hpp>
#include <idcwh/threads.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/fail.hpp"

namespace idcwh {
namespace {

// Reads the whole file at once, so that the fingerprint covers exactly the bytes that run.
std::string read(const std::string& path) {
    const auto refuse = [&] {
        throw SystemError(errno, path, "cannot be read; expected a model.onnx written by idcwh-export");
    };
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) refuse();
    std::string bytes;
    for (std::size_t got = 1; got;) {
        const std::size_t before = bytes.size(), step = std::max<std::size_t>(before / 2, 1 << 20);
        bytes.resize(before + step);
        got = std::fread(bytes.data() + before, 1, step, file.get());
        bytes.resize(before + got);
    }
    if (std::ferror(file.get())) refuse();
    return bytes;
}

Examined examined(const std::string& path, const std::string& model, const EncoderOptions& options) {
    Examined found = examine(model);
    if (const std::string place = external_data(model); !place.empty())
        throw Error(ErrorCode::corrupt,
                    {.path = path,
                     .problem = "some of its weights are in another file, which its fingerprint does not cover",
                     .found = place,
                     .hint = "write it with idcwh-export, or as one file with onnx.save_model"});
    if (found.checksum == ChecksumState::wrong && !options.preprocess)
        throw Error(ErrorCode::corrupt,
                    {.path = path,
                     .problem = "was changed after idcwh-export wrote it, by corruption or by a tool",
                     .hint = without_metadata});
    return found;
}

EncoderOptions completed(EncoderOptions options) {
    if (options.threads > max_threads)
        fail({.path = "threads",
              .found = std::to_string(options.threads),
              .expected = "at most " + std::to_string(max_threads)});
    if (options.device < Device::automatic || options.device > Device::cuda)
        fail({.path = "device",
              .found = std::to_string(static_cast<int>(options.device)),
              .expected = "automatic, cpu or cuda"});
    if (!options.threads) options.threads = available_cores();
    return options;
}

}  // namespace

Encoder::Parts::Parts(const std::string& path, const std::string& model, const EncoderOptions& options)
    : path(path),
      file(examined(path, model, options)),
      session(model, path, options),
      info(options.preprocess ? explicit_model_info(session, path, options) : read_model_info(session, path)),
      batch_size(options.batch_size                 ? options.batch_size
                 : session.device() == Device::cuda ? 64
                                                    : 8) {
    if (file.checksum != ChecksumState::valid) try_out();  // the exporter has tried a valid file
}

void Encoder::Parts::try_out() const {
    std::vector<std::uint8_t> pixels(info.preprocess.bytes()), code((info.bits + 7) / 8), expected(code.size());
    std::vector<float> logits(info.bits);
    std::uint32_t state = 1;
    for (auto& byte : pixels) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    run(pixels.data(), 1, code.data(), logits.data());
    for (std::size_t i = 0; i < logits.size(); ++i)
        if (logits[i] >= 0) expected[i / 8] |= static_cast<std::uint8_t>(1 << i % 8);
    if (code != expected)
        throw Error(ErrorCode::corrupt,
                    {.path = path,
                     .problem = "its codes are not its logits >= 0, packed eight per byte, the first in the lowest bit",
                     .hint = "write it with idcwh-export"});
}

Encoder::Encoder(const std::string& path, const EncoderOptions& options)
    : parts_(std::make_unique<Parts>(path, read(path), completed(options))) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

unsigned Encoder::bits() const { return parts_->info.bits; }
std::size_t Encoder::code_bytes() const { return (parts_->info.bits + 7) / 8; }
const Preprocess& Encoder::preprocess() const { return parts_->info.preprocess; }
const std::vector<std::string>& Encoder::classes() const { return parts_->info.classes; }
const std::string& Encoder::path() const { return parts_->path; }
const std::string& Encoder::fingerprint() const { return parts_->file.sha256; }
Device Encoder::device() const { return parts_->session.device(); }
const std::string& Encoder::why() const { return parts_->session.why(); }
const std::string& Encoder::runtime() const { return parts_->session.runtime(); }
std::optional<std::string> Encoder::metadata(const std::string& key) const { return parts_->session.metadata(key); }

void Encoder::encode(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits) const {
    if (!n) return;
    if (!pixels || !codes) fail({.path = pixels ? "codes" : "pixels", .found = "null", .expected = "a valid pointer"});
    const std::size_t bytes = preprocess().bytes(), size = parts_->batch_size;
    if (n > std::numeric_limits<std::ptrdiff_t>::max() / std::max(bytes, std::size_t{4} * bits()))
        fail({.path = "n", .found = std::to_string(n), .expected = "a number of images that fits the address space"});
    for (std::size_t begin = 0; begin < n; begin += size) {
        const std::size_t count = std::min(size, n - begin);
        parts_->run(pixels + begin * bytes, count, codes + begin * code_bytes(),
                    logits ? logits + begin * bits() : nullptr);
    }
}

void Encoder::encode(const Image* images, std::size_t n, std::uint8_t* codes, float* logits) const {
    if (!n) return;
    if (!images || !codes) fail({.path = images ? "codes" : "images", .found = "null", .expected = "a valid pointer"});
    const std::size_t bytes = preprocess().bytes(), size = std::min<std::size_t>(parts_->batch_size, n);
    std::vector<std::uint8_t> pixels(size * bytes);
    for (std::size_t begin = 0; begin < n; begin += size) {
        const std::size_t count = std::min(size, n - begin);
        for (std::size_t i = 0; i < count; ++i) preprocess()(images[begin + i], pixels.data() + i * bytes);
        parts_->run(pixels.data(), count, codes + begin * code_bytes(), logits ? logits + begin * bits() : nullptr);
    }
}

void Encoder::Parts::run(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits) const {
    const std::size_t bytes = info.preprocess.bytes(), code_bytes = (info.bits + 7) / 8;
    Session::Batch batch{pixels,
                         static_cast<std::int64_t>(n),
                         info.preprocess.crop(),
                         static_cast<std::int64_t>(code_bytes),
                         info.bits,
                         codes,
                         logits};
    if (session.device() != Device::cuda || n == 1 || n == batch_size) return session.run(batch);
    // cuDNN plans again for each new batch size, which takes longer than the run itself. Only two sizes are used: the
    // full batch and the single query.
    std::vector<std::uint8_t> full_pixels(batch_size * bytes), full_codes(batch_size * code_bytes);
    std::vector<float> full_logits(logits ? std::size_t{batch_size} * info.bits : 0);
    std::memcpy(full_pixels.data(), pixels, n * bytes);
    batch.image = full_pixels.data(), batch.codes = full_codes.data(), batch.n = batch_size;
    if (logits) batch.logits = full_logits.data();
    session.run(batch);
    std::memcpy(codes, full_codes.data(), n * code_bytes);
    if (logits) std::memcpy(logits, full_logits.data(), n * info.bits * sizeof(float));
}

}  // namespace idcwh
