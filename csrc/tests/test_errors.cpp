// Invalid arguments raise an error with a code and never crash.
#include <idcwh/index.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <cerrno>
#include <functional>
#include <string>

#include "check.hpp"

namespace {

bool refused(idcwh::ErrorCode code, const std::string& word, const std::function<void()>& call) {
    try {
        call();
    } catch (const idcwh::Error& error) {
        if (error.code() == code && std::string(error.what()).find(word) != std::string::npos) return true;
        std::printf("unexpected: %s\n", error.what());
    }
    return false;
}

TEST("the message of an error consists of its parts") {
    using idcwh::Error, idcwh::ErrorCode;
    const Error whole(ErrorCode::locked, {.path = "a/b.bin", .found = "3", .expected = "4 bytes", .hint = "wait"});
    const std::string message = "a/b.bin: is locked by another writer (found 3, expected 4 bytes); wait";
    CHECK(whole.what() == message);
    CHECK(whole.problem() == "is locked by another writer");
    CHECK(whole.path() == "a/b.bin");
    CHECK(whole.found() == "3");
    CHECK(whole.expected() == "4 bytes");
    CHECK(whole.hint() == "wait");
    const Error copy = whole;
    CHECK(copy.what() == message);
    CHECK(copy.path() == whole.path());
    CHECK(Error(ErrorCode::corrupt, idcwh::ErrorParts{.path = "x"}).what() == std::string("x: is corrupt"));
    CHECK(Error(ErrorCode::unsupported, idcwh::ErrorParts{.expected = "avx2"}).what() ==
          std::string("is not supported (expected avx2)"));
    CHECK(Error(ErrorCode::corrupt, "is odd").what() == std::string("is odd"));
    const idcwh::SystemError system(ENOENT, "x", "cannot be opened");
    CHECK(system.path() == "x");
    CHECK(std::string(system.what()).starts_with("x: cannot be opened: "));
}

TEST("arguments that cannot be searched raise an error with its code") {
    using idcwh::ErrorCode;
    const std::uint8_t memory[16] = {};
    std::int32_t distances[4];
    std::int64_t ids[4];
    const auto topk = [&](idcwh::Codes codes, const std::uint8_t* queries, idcwh::SearchOptions options) {
        return [=, &distances, &ids] { idcwh::topk(codes, queries, 1, 1, distances, ids, options); };
    };
    CHECK(refused(ErrorCode::invalid_argument, "bits", topk({memory, 2, 0}, memory, {})));
    CHECK(refused(ErrorCode::invalid_argument, "65535", topk({memory, 2, 65536}, memory, {})));
    CHECK(refused(ErrorCode::invalid_argument, "null", topk({nullptr, 2, 64}, memory, {})));
    CHECK(refused(ErrorCode::invalid_argument, "null", topk({memory, 2, 64}, nullptr, {})));
    CHECK(refused(ErrorCode::invalid_argument, "address space", topk({memory, ~std::size_t{0} / 8, 64}, memory, {})));
    idcwh::SearchOptions many;
    many.threads = 100000;
    CHECK(refused(ErrorCode::invalid_argument, "threads", topk({memory, 2, 64}, memory, many)));
    CHECK(refused(ErrorCode::invalid_argument, "null",
                  [&] { idcwh::topk({memory, 2, 64}, memory, 1, 1, nullptr, nullptr); }));
    std::int64_t counts[65];
    const std::size_t too_many = ~std::size_t{0} / 65;  // queries fit the address space, but their counts do not
    const idcwh::Codes codes{memory, 2, 8};
    CHECK(refused(ErrorCode::invalid_argument, "65 results each",
                  [&] { idcwh::histogram({memory, 2, 64}, memory, too_many / 9, counts); }));
    CHECK(refused(ErrorCode::invalid_argument, "address space",
                  [&] { idcwh::rank(codes, memory, ~std::size_t{0} / 8, distances, ids); }));
    CHECK(refused(ErrorCode::invalid_argument, "counts: is invalid",
                  [&] { idcwh::count(codes, memory, 1, 3, nullptr); }));
    idcwh::Index index(8);
    CHECK(refused(ErrorCode::invalid_argument, "counts: is invalid",
                  [&] { index.snapshot().histogram(memory, 1, nullptr); }));
    CHECK(refused(ErrorCode::invalid_argument, "address space",
                  [&] { index.snapshot().histogram(memory, ~std::size_t{0} / 16, counts); }));
    CHECK(refused(ErrorCode::invalid_argument, "abacus", [] { idcwh::isa_force("abacus"); }));
    for (const auto& isa : idcwh::isa_list())
        if (!isa.supported) CHECK(refused(ErrorCode::unsupported, isa.name, [&] { idcwh::isa_force(isa.name); }));
    CHECK(!refused(ErrorCode::unsupported, "", [] { idcwh::isa_force("auto"); }));
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
