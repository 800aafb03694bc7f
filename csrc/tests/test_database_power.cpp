// A power cut after each operation of random histories, some with killed or failed writers. The disk then holds a
// database in the state of a commit, at least the last acknowledged one, and the database can be used.
// IDCWH_TEST_SECONDS sets the duration (default 10).
#include <idcwh/database.hpp>

#include <chrono>
#include <fstream>

#include "check.hpp"
#include "database_model.hpp"
#include "disk.hpp"

namespace {

using check::State;
using idcwh::Database;
using Access = idcwh::Database::Access;

struct History {
    std::vector<check::Operation> operations;
    std::vector<State> states;  // after each step
};

bool can_write(Database& database) {
    return check::error_of([&] { database.set_manifest(database.snapshot().manifest()); }) == 0;
}

History run(const std::string& path, unsigned bits, std::size_t most, int steps, std::mt19937& random) {
    History history;
    check::Recorder recorder;
    auto database = std::make_unique<Database>(Database::create(path, bits));
    history.states.push_back(State{bits});
    State after;
    for (int step = 0; step < steps; ++step) {
        const bool compacts = step == steps / 2;  // fails once in each history
        recorder.fails_in = compacts || random() % 4 == 0 ? random() % 10 : recorder.never;
        recorder.for_good = random() % 2;
        const State before = history.states.back();
        // The state after the step is known when its first operation is recorded.
        recorder.begun = history.states.size();
        bool failed = false;
        try {
            if (compacts) {
                after = before;
                database->compact();
            } else {
                check::random_step(*database, before, after, most, random);
            }
        } catch (const idcwh::Error&) {
            failed = true;
        }
        history.states.push_back(after);
        recorder.fails_in = recorder.never;
        if (failed) {
            // The operations of a killed writer are in the system's memory, where another process sees them and
            // continues. A writer that is alive continues itself if it can.
            if (recorder.for_good || random() % 4 == 0 || !can_write(*database)) {
                database.reset();
                database = std::make_unique<Database>(Database::open(path, Access::write));
            }
            const State found = check::state_of(*database);
            CHECK((found == before || found == after));
            if (found == before) history.states.push_back(before), recorder.begun = history.states.size() - 1;
        }
        recorder.acknowledged = recorder.begun;
    }
    history.operations = std::move(recorder.operations);
    check::Operation end{check::Operation::sync, path, {}, 0, {}};
    end.acknowledged = recorder.acknowledged, end.begun = recorder.begun;
    history.operations.push_back(end);
    return history;
}

// Checks that the file is one of the states from first to last, and a database that can be used.
void check_file(const std::string& path, const std::string& contents, const History& history, std::size_t first,
                std::size_t last) {
    std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
    try {
        const Database reader = Database::open(path);
        const State state = check::state_of(reader);
        bool known = false;
        for (std::size_t i = first; i <= last && i < history.states.size(); ++i) known |= state == history.states[i];
        CHECK(known);
        CHECK(reader.check().corrupt.empty());
        Database writer = Database::open(path, Access::write);
        CHECK(check::state_of(writer) == state);
        State more = state;
        check::Item item{std::vector<std::uint8_t>(idcwh::code_bytes(state.bits)), "one more", std::nullopt, 0};
        const check::Batch batch{{state.next}, {item}, false};
        batch.put_into(more);
        batch.with([&](const idcwh::NewItems& items) { writer.add(items); });
        const Database again = Database::open(path);
        const auto found = again.check();
        CHECK(check::state_of(again) == more);
        CHECK(found.corrupt.empty());
        CHECK(found.torn == 0);
    } catch (const idcwh::Error& error) {
        std::printf("%s\n", error.what());
        CHECK(!"the database opens");
    }
}

std::size_t cut_everywhere(unsigned bits, std::size_t most, int steps, std::uint64_t granularity, std::uint32_t seed) {
    std::mt19937 random(seed);
    const check::Folder folder, recovered;
    const std::string path = folder / "codes.bin";
    const History history = run(path, bits, most, steps, random);
    std::size_t cases = 0;
    check::Disk disk(granularity);
    bool published = false;
    for (const check::Operation& next : history.operations) {
        const bool missing = disk.after_a_power_cut(path, random, [&](const std::string& contents) {
            check_file(recovered / "codes.bin", contents, history, next.acknowledged, next.begun);
            ++cases;
        });
        published |= next.begun > 0;  // the first step began after the database was created
        CHECK(!(missing && published));
        disk.apply(next);
    }
    return cases;
}

TEST("a power cut after each operation leaves a state between acknowledged and begun") {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::size_t cases = 0, histories = 0;
    for (std::uint32_t seed = 1; histories < 4 || seconds() < check::test_seconds(10); ++seed, ++histories) {
        const std::uint64_t granularity = seed % 3 ? 4096 : 512;
        cases +=
            seed % 4 ? cut_everywhere(48, 30, 12, granularity, seed) : cut_everywhere(1024, 200, 5, granularity, seed);
        if (check::failures) {
            std::printf("history %u\n", static_cast<unsigned>(seed));
            break;
        }
    }
    std::printf("%zu power cuts of %zu histories, %.1f s\n", cases, histories, seconds());
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
