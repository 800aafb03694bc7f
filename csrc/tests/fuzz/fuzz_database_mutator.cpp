// The mutator of libFuzzer for files of databases; see database_bytes.hpp.
#include <algorithm>

#include "database_bytes.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
    static const check::Folder folder;
    std::mt19937 random(seed);
    fuzz::Bytes bytes(data, data + size);
    if (size < fuzz::format::first_record || random() % 500 == 0) {
        bytes = fuzz::whole_file(folder / "codes.bin", random);
    } else if (random() % 2) {
        for (unsigned changes = 1 + random() % 3; changes; --changes) fuzz::change_a_number(bytes, random);
    } else {
        bytes.resize(std::min(most, size + 4096));
        bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
    }
    if (random() % 8) fuzz::repair(bytes);
    bytes.resize(std::min(bytes.size(), most));
    std::copy(bytes.begin(), bytes.end(), data);
    return bytes.size();
}
