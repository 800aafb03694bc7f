// Failures of the system: each write, sync, truncation and rename of a history fails once. The database then is
// unchanged and usable. Permanent failures simulate a process that is killed.
#include <idcwh/database.hpp>

#include <cerrno>
#include <functional>

#include "check.hpp"
#include "database_model.hpp"
#include "storage/fault_injection.hpp"

namespace {

using check::State;
using idcwh::Database;
using Access = idcwh::Database::Access;

struct Failing final : idcwh::storage::Trace {
    std::size_t count = 0, first, last;
    int error;
    std::function<void()> before;  // called before the operation fails
    Failing(std::size_t begin, std::size_t end, int number) : first(begin), last(end), error(number) {
        idcwh::storage::trace = this;
    }
    ~Failing() override { idcwh::storage::trace = nullptr; }
    bool failed() const { return count > first; }
    int next() {
        const std::size_t now = count++;
        if (now == first && before) before();
        return now >= first && now < last ? error : 0;
    }
    int write(const std::string&, std::uint64_t, const void*, std::size_t) override { return next(); }
    int sync(const std::string&) override { return next(); }
    int truncate(const std::string&, std::uint64_t) override { return next(); }
    int rename(const std::string&, const std::string&) override { return next(); }
    int sync_folder(const std::string&) override { return next(); }
};

constexpr std::size_t never = static_cast<std::size_t>(-1);
constexpr int steps = 14;

bool clean(const std::string& path) { return Database::open(path).check().corrupt.empty(); }

// Runs a history in which operation n fails, or all from n on. Returns false if there are fewer operations.
bool run(std::size_t n, bool for_good, int error, std::uint32_t seed) {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    std::mt19937 random(seed);
    State before{48}, after{48};
    auto database = std::make_unique<Database>(Database::create(path, 48));
    Database reader = Database::open(path);
    auto failing = std::make_unique<Failing>(n, for_good ? never : n + 1, error);
    bool thrown = false;
    for (int step = 0; step < steps; ++step) {
        const std::mt19937 replay = random;
        try {
            check::random_step(*database, before, after, 40, random);
        } catch (const idcwh::SystemError& failure) {
            CHECK(!thrown);
            CHECK(failing->failed());
            CHECK(failure.error_number() == error);
            thrown = true;
            CHECK(check::state_of(*database) == before);
            reader.refresh();
            const State seen = check::state_of(reader);
            CHECK((seen == before || (for_good && seen == after)));
            if (for_good) {  // its writer is killed, so the step may or may not be done
                failing.reset();
                database.reset();
                database = std::make_unique<Database>(Database::open(path, Access::write));
                const State found = check::state_of(*database);
                CHECK((found == before || found == after));
                CHECK(database->check().corrupt.empty());
                return true;
            }
            CHECK(clean(path));
            random = replay;
            try {
                check::random_step(*database, before, after, 40, random);
            } catch (const idcwh::Error& refused) {  // the state on disk is unknown; the file must be opened again
                CHECK(refused.code() == idcwh::ErrorCode::invalid_argument);
                database.reset();
                database = std::make_unique<Database>(Database::open(path, Access::write));
                random = replay;
                check::random_step(*database, before, after, 40, random);
            }
        }
        before = after;
        CHECK(check::state_of(*database) == before);
    }
    const bool failed = failing->failed();
    CHECK(thrown == failed);
    failing.reset();
    database->close();
    reader.refresh();
    CHECK(check::state_of(reader) == before);
    CHECK(clean(path));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    return failed;
}

TEST("each operation that fails leaves a database before or after the step") {
    std::size_t cases = 0;
    for (std::uint32_t seed = 1; seed <= 4; ++seed)
        for (const bool for_good : {false, true})
            for (const int error : {ENOSPC, EIO}) {
                std::size_t n = 0;
                while (run(n, for_good, error, seed)) ++n;
                CHECK(n > 3 * steps);
                cases += n;
            }
    std::printf("%zu failures\n", cases);
}

// Covers opening for writing, and creating.
TEST("opening and creating raise when an operation fails") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin", other = folder / "other.bin";
    const auto codes = check::random_codes(5, 48, 1);
    Database::create(path, 48).add({codes.data(), 5});
    for (std::size_t n = 0;; ++n) {
        Failing failing(n, never, EIO);
        std::optional<Database> opened;  // checked before it is closed, since closing may fail silently
        const int error = check::error_of([&] { opened = Database::open(path, Access::write); });
        CHECK(error == (failing.failed() ? static_cast<int>(idcwh::ErrorCode::system) : 0));
        CHECK(Database::open(path).size() == 5);
        if (!failing.failed()) break;
    }
    for (std::size_t n = 0;; ++n) {
        Failing failing(n, never, ENOSPC);
        std::optional<Database> opened;
        const int error = check::error_of([&] {
            opened = Database::create(other, 48, "{}", false, Database::Durability::on_close);
            opened->add({codes.data(), 3});
            opened->add({codes.data() + 18, 2});
            opened->publish();
        });
        CHECK(error == (failing.failed() ? static_cast<int>(idcwh::ErrorCode::system) : 0));
        opened.reset();
        if (std::filesystem::exists(other)) CHECK(Database::open(other).size() == 5);
        std::filesystem::remove(other);
        CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
        if (!failing.failed()) break;
    }
}

// A reader may see a commit that fails later. The next commit has the same size but other codes.
TEST("a reader that saw a failed commit sees the next one") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    Database database = Database::create(path, 48), reader = Database::open(path);
    const auto first = check::random_codes(3, 48, 1), second = check::random_codes(3, 48, 2);
    std::size_t seen = 0;
    {
        Failing failing(3, 4, EIO);  // records, sync, commit and its sync
        failing.before = [&] {
            CHECK(reader.refresh());
            seen = reader.size();
        };
        CHECK(check::error_of([&] { database.add({first.data(), 3}); }) != 0);
        CHECK(failing.failed());
    }
    CHECK(seen == 3);
    CHECK(database.size() == 0);
    database.add({second.data(), 3});
    CHECK(reader.refresh());
    std::vector<std::uint8_t> codes(second.size());
    reader.snapshot().copy(codes.data(), nullptr);
    CHECK(codes == second);
    CHECK(check::state_of(reader) == check::state_of(database));
    CHECK(clean(path));
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
