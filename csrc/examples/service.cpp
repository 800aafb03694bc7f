// A service without downtime. Many threads search an index while another adds and removes codes. From time to time a
// new index is built and replaces the old one.
//
//     example_service [SECONDS]  runs a demonstration, checks every answer and prints counts
//     example_service ask        reads lines from standard input:
//                                add HEX, remove ID, near HEX K, reload, quit
//
// Searches never wait for changes: a search takes a snapshot, and a reload swaps a pointer.
#include <idcwh/index.hpp>
#include <idcwh/isa.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned bits = 64;
constexpr std::size_t bytes = idcwh::code_bytes(bits);

// One row of an answer.
struct Hit {
    std::int32_t distance;
    std::int64_t id;
};

// Owns the current index. A request shares ownership of the index that it started with, so that a reload cannot free
// it.
class Service {
public:
    Service() : index_(std::make_shared<idcwh::Index>(bits)) {}

    std::vector<Hit> nearest(const std::uint8_t* query, std::size_t k) const {
        const idcwh::Snapshot view = current()->snapshot();
        std::vector<std::int32_t> distances(std::min(k, view.size()));
        std::vector<std::int64_t> ids(distances.size());
        idcwh::QueryOptions options;
        options.threads = 1;  // the requests themselves run in parallel
        view.topk(query, 1, k, distances.data(), ids.data(), options);
        std::vector<Hit> hits(ids.size());
        for (std::size_t i = 0; i < hits.size(); ++i) hits[i] = {distances[i], ids[i]};
        return hits;
    }

    std::int64_t add(const std::uint8_t* code) {
        const std::lock_guard guard(changing_);  // a reload would lose a change of the old index
        std::int64_t id;
        current()->add(code, 1, nullptr, &id);
        return id;
    }

    void remove(std::int64_t id) {
        const std::lock_guard guard(changing_);
        current()->remove(&id, 1);
    }

    // Builds a new index and replaces the current one. Here the codes come from the current index; a real service would
    // read them from its store. Searches continue meanwhile, and changes wait.
    void reload() {
        const std::lock_guard guard(changing_);
        const idcwh::Snapshot old = current()->snapshot();
        std::vector<std::uint8_t> codes(old.size() * bytes);
        std::vector<std::int64_t> ids(old.size());
        old.copy(codes.data(), ids.data());
        auto fresh = std::make_shared<idcwh::Index>(bits);
        fresh->add(codes.data(), ids.size(), ids.data());
        fresh->optimize();
        const std::lock_guard swap(pointer_);
        index_ = std::move(fresh);
    }

    std::size_t size() const { return current()->size(); }
    std::string explain() const { return current()->snapshot().explain_topk(10).text(); }

private:
    std::shared_ptr<idcwh::Index> current() const {
        const std::lock_guard guard(pointer_);  // held only while the pointer is copied
        return index_;
    }

    mutable std::mutex pointer_;
    std::mutex changing_;
    std::shared_ptr<idcwh::Index> index_;
};

using Code = std::uint8_t[bytes];

void random_code(std::mt19937_64& random, Code& code) {
    const std::uint64_t word = random();
    std::memcpy(code, &word, bytes);
}

// Runs readers, a writer and reloads in parallel. The first code is never removed, so that readers know the first hit
// of every answer.
int demonstrate(double seconds) {
    Service service;
    std::mt19937_64 random(1);
    Code anchor, code;
    random_code(random, anchor);
    const std::int64_t anchor_id = service.add(anchor);
    for (int i = 0; i < 20000; ++i) random_code(random, code), service.add(code);

    std::atomic<bool> stop{false};
    std::atomic<std::size_t> answered{0}, wrong{0}, changed{0}, reloaded{0};
    std::vector<std::thread> threads;
    for (unsigned reader = 0; reader < 4; ++reader)
        threads.emplace_back([&, reader] {
            std::mt19937_64 mine(100 + reader);
            while (!stop) {
                Code query;
                std::memcpy(query, anchor, bytes);
                query[mine() % bytes] ^= 1u << mine() % 8;
                const auto hits = service.nearest(query, 5);
                bool sorted = hits.size() == 5 && hits[0].id == anchor_id && hits[0].distance == 1;
                for (std::size_t i = 1; sorted && i < hits.size(); ++i)
                    sorted = hits[i - 1].distance < hits[i].distance ||
                             (hits[i - 1].distance == hits[i].distance && hits[i - 1].id < hits[i].id);
                wrong += !sorted;
                ++answered;
            }
        });
    threads.emplace_back([&] {
        std::vector<std::int64_t> added;
        while (!stop) {
            Code fresh;
            random_code(random, fresh);
            added.push_back(service.add(fresh));
            if (added.size() > 100) {
                service.remove(added.front());
                added.erase(added.begin());
            }
            ++changed;
        }
    });
    threads.emplace_back([&] {
        while (!stop) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            service.reload();
            ++reloaded;
        }
    });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto& thread : threads) thread.join();
    std::printf("%zu answers (%zu wrong), %zu changes, %zu reloads in %g s on %s\n%s\n", answered.load(), wrong.load(),
                changed.load(), reloaded.load(), seconds, idcwh::isa_active().c_str(), service.explain().c_str());
    return answered && changed && reloaded && !wrong ? 0 : 1;
}

void parse(const char* hex, Code& code) {
    unsigned long long word = 0;
    char* end = nullptr;
    word = std::strtoull(hex, &end, 16);
    if (end == hex || *end)
        throw std::invalid_argument("expected 64 bits in hexadecimal, not '" + std::string(hex) + "'");
    std::memcpy(code, &word, bytes);
}

int serve() {
    Service service;
    char line[200], word[200];
    while (std::fgets(line, sizeof line, stdin)) {
        Code code;
        long long id = 0;
        unsigned long k = 10;
        try {
            if (std::sscanf(line, "add %199s", word) == 1) {
                parse(word, code);
                std::printf("%lld\n", static_cast<long long>(service.add(code)));
            } else if (std::sscanf(line, "remove %lld", &id) == 1) {
                service.remove(id);
            } else if (std::sscanf(line, "near %199s %lu", word, &k) >= 1) {
                parse(word, code);
                for (const auto& hit : service.nearest(code, k))
                    std::printf("%d %lld\n", hit.distance, static_cast<long long>(hit.id));
            } else if (std::strncmp(line, "reload", 6) == 0) {
                service.reload();
            } else if (std::strncmp(line, "quit", 4) == 0) {
                break;
            } else {
                std::printf("error: add HEX, remove ID, near HEX [K], reload or quit\n");
            }
        } catch (const std::exception& error) {
            std::printf("error: %s\n", error.what());
        }
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "ask") == 0) return serve();
    return demonstrate(argc > 1 ? std::atof(argv[1]) : 2);
}
