// Every operation ends soon after an interrupt, on one thread and on several, and works again afterwards.
#include <idcwh/search.hpp>

#include <functional>
#include <string>

#include "check.hpp"

namespace {

using Operation = std::function<void(const idcwh::SearchOptions&)>;

struct Asked {
    int times = 0, allowed = 0;
    static bool requested(void* context) {
        auto* asked = static_cast<Asked*>(context);
        return ++asked->times > asked->allowed;
    }
};

// Runs an operation of many seconds. The interrupt comes at its first or third check.
void check_interrupted(const char* name, const Operation& operation, unsigned threads, int allowed) {
    Asked asked{0, allowed};
    const idcwh::Interrupt interrupt{Asked::requested, &asked};
    idcwh::SearchOptions options;
    options.threads = threads;
    options.interrupt = &interrupt;
    bool stopped = false;
    try {
        operation(options);
        std::printf("%s with %u threads was not interrupted\n", name, threads);
    } catch (const idcwh::Error& error) {
        stopped = error.code() == idcwh::ErrorCode::interrupted;
    }
    CHECK(stopped);
    CHECK(asked.times == allowed + 1);  // no further check after the interrupt
}

constexpr std::size_t n = 200'000, nq = 40'000;
struct Data {
    std::vector<std::uint8_t> memory = check::random_codes(n, 64, 1), queries = check::random_codes(nq, 64, 2);
    idcwh::Codes codes{memory.data(), n, 64};
    const std::uint8_t* q = queries.data();
};

TEST("each search is interrupted, on one thread and on four") {
    const Data data;
    const auto& codes = data.codes;
    const auto* q = data.q;
    std::vector<std::int32_t> distances(nq * 10);
    std::vector<std::int64_t> ids(nq * 10), counts(nq * 65);
    const std::vector<std::pair<const char*, Operation>> operations = {
        {"topk", [&](auto& o) { idcwh::topk(codes, q, nq, 10, distances.data(), ids.data(), o); }},
        {"topk_ties", [&](auto& o) { idcwh::topk_ties(codes, q, nq, 10, o); }},
        {"topk_ties of many", [&](auto& o) { idcwh::topk_ties(codes, q, nq, n / 4, o); }},
        {"radius", [&](auto& o) { idcwh::radius(codes, q, nq, 12, o); }},
        {"count", [&](auto& o) { idcwh::count(codes, q, nq, 12, counts.data(), o); }},
        {"histogram", [&](auto& o) { idcwh::histogram(codes, q, nq, counts.data(), o); }},
    };
    for (const auto& [name, operation] : operations)
        for (const unsigned threads : {1u, 4u})
            for (const int allowed : {0, 2}) check_interrupted(name, operation, threads, allowed);
}

TEST("rank is interrupted before its first query ends") {
    const Data data;
    std::vector<std::int32_t> distances(80 * n);
    std::vector<std::int64_t> ids(80 * n);
    for (const unsigned threads : {1u, 4u})
        check_interrupted(
            "rank", [&](auto& o) { idcwh::rank(data.codes, data.q, 80, distances.data(), ids.data(), o); }, threads, 0);
}

TEST("an interrupt that is never requested changes no result") {
    const Data data;
    std::vector<std::int32_t> distances(300);
    std::vector<std::int64_t> ids(300);
    Asked never{0, 1 << 30};
    const idcwh::Interrupt interrupt{Asked::requested, &never};
    idcwh::SearchOptions options;
    options.interrupt = &interrupt;
    CHECK(idcwh::topk(data.codes, data.q, 300, 1, distances.data(), ids.data(), options) == 1);
    std::vector<std::int32_t> plain(300);
    std::vector<std::int64_t> plain_ids(300);
    idcwh::topk(data.codes, data.q, 300, 1, plain.data(), plain_ids.data());
    CHECK(plain_ids == ids);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
