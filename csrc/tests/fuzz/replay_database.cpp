// Runs the fuzzer's function over files (FILE...) and over random mutations, so that ordinary builds run it too.
#include <cstdio>

#include "database_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    const check::Folder folder;
    int count = 0;
    std::mt19937 random(1);
    for (int i = 0; i < 100; ++i) {
        const fuzz::Bytes whole = fuzz::whole_file(folder / "codes.bin", random);
        LLVMFuzzerTestOneInput(whole.data(), whole.size());
        for (int j = 0; j < 100; ++j, ++count) {
            fuzz::Bytes bytes = whole;
            for (unsigned changes = 1 + random() % 3; changes; --changes) fuzz::change_a_number(bytes, random);
            if (random() % 20 == 0) bytes.resize(random() % (bytes.size() + 1));
            if (random() % 8) fuzz::repair(bytes);
            LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        }
    }
    std::printf("%d mutations\n", count);
    return check::finish();
}
