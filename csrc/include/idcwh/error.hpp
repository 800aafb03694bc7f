// The exceptions of the library. Nothing in it aborts, and nothing prints.
#pragma once

#include <stdexcept>
#include <string>

#include "export.hpp"

namespace idcwh {

enum class ErrorCode {
    invalid_argument = 1,  // a shape, range or value that cannot be: the message says what was expected and what came
    unsupported = 2,       // a valid wish that this machine or build cannot fulfil (an instruction set it lacks)
    not_found = 3,         // an id that the index does not hold
    interrupted = 4,       // the caller's Interrupt asked the search to end
    system = 5,            // the system refused a file operation (SystemError has its errno)
    damaged = 6,           // a file that is not what it should be: where and what
    locked = 7,            // somebody else is writing to the database
};

class IDCWH_API Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message);
    ~Error() override;
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

// What the operating system refused: error_number() is its errno, path() the file.
class IDCWH_API SystemError : public Error {
public:
    SystemError(int error_number, const std::string& path, const std::string& what);
    ~SystemError() override;
    int error_number() const noexcept { return error_number_; }
    const std::string& path() const noexcept { return path_; }

private:
    int error_number_;
    std::string path_;
};

}  // namespace idcwh
