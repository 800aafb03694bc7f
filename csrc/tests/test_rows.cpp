// The rows of a search: invalid arguments, and tests of single rows.
#include <idcwh/search.hpp>

#include <string>

#include "check.hpp"
#include "scan/rows.hpp"

namespace {

using idcwh::Rows;

bool refused(const Rows& rows, std::size_t size, const std::string& word) {
    const std::vector<std::uint8_t> memory(size);
    try {
        idcwh::SearchOptions options;
        options.rows = rows;
        idcwh::eligible({memory.data(), size, 8}, options);
    } catch (const idcwh::Error& error) {
        if (error.code() == idcwh::ErrorCode::invalid_argument &&
            std::string(error.what()).find(word) != std::string::npos)
            return true;
        std::printf("unexpected: %s\n", error.what());
    }
    return false;
}

TEST("rows that are invalid raise invalid_argument") {
    const auto list = [](const std::vector<std::int64_t>& rows) { return Rows::of_list(rows.data(), rows.size()); };
    CHECK(refused(Rows::range(5, 4), 10, "5 and 4"));
    CHECK(refused(Rows::of_bitmap(nullptr), 10, "null"));
    CHECK(refused(Rows::of_bytes(nullptr), 10, "null"));
    CHECK(refused(Rows::of_list(nullptr, 2), 10, "null"));
    const std::vector<std::int64_t> twice = {1, 3, 3}, behind = {1, 10}, negative = {-1, 3}, back = {4, 2};
    CHECK(refused(list(twice), 10, "entry 2 is 3 after 3"));
    CHECK(refused(list(back), 10, "entry 1 is 2 after 4"));
    CHECK(refused(list(behind), 10, "found row 10"));
    CHECK(refused(list(negative), 10, "found row -1"));
    std::vector<std::int64_t> many(5000);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(2 * i);
    CHECK(!refused(list(many), 10000, ""));
    for (const std::size_t at : {std::size_t{1}, std::size_t{1024}, std::size_t{1025}, std::size_t{4999}}) {
        auto wrong = many;
        wrong[at] = wrong[at - 1];
        CHECK(refused(list(wrong), 10000, "entry " + std::to_string(at) + " is"));
    }
    CHECK(!refused(Rows::of_bitmap(nullptr), 0, ""));
    CHECK(!refused(Rows::range(3, 1000), 10, ""));
}

TEST("RowTest of each kind accepts exactly its rows") {
    const std::vector<std::uint8_t> bytes = {0, 1, 0, 200, 0};
    const std::vector<std::int64_t> list = {1, 3};
    const std::uint64_t bitmap = 0b01010;
    for (const Rows& rows : {Rows::of_bytes(bytes.data()), Rows::of_list(list.data(), 2), Rows::of_bitmap(&bitmap)}) {
        const idcwh::RowTest test(rows);
        CHECK(!test.everything());
        for (std::size_t row = 0; row < 5; ++row) CHECK(test(row) == (row == 1 || row == 3));
    }
    const idcwh::RowTest range(Rows::range(1, 3));
    for (std::size_t row = 0; row < 5; ++row) CHECK(range(row) == (row == 1 || row == 2));
    CHECK(idcwh::RowTest(Rows::all()).everything());
    CHECK(idcwh::RowTest(Rows::all())(7));
}

// Covers every size near a word, and each byte value.
TEST("pack_bytes sets one bit per nonzero byte") {
    for (std::size_t size = 0; size < 300; ++size) {
        auto bytes = check::random_bytes(size, static_cast<std::uint32_t>(size));
        for (std::size_t i = 0; i < size; ++i) bytes[i] = i % 3 ? 0 : bytes[i];
        std::vector<std::uint64_t> words((size + 63) / 64, ~std::uint64_t{0});
        idcwh::pack_bytes(bytes.data(), size, words.data());
        for (std::size_t i = 0; i < 64 * words.size(); ++i)
            CHECK((words[i / 64] >> i % 64 & 1) == (i < size && bytes[i] != 0));
    }
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
