// The exceptions of the library. The library never aborts and never prints.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "export.hpp"

namespace idcwh {

enum class ErrorCode {
    invalid_argument = 1,  // an invalid shape, range or value
    unsupported = 2,       // a valid request that this machine or build does not support, such as an instruction set
    not_found = 3,         // an id or key that is missing
    interrupted = 4,       // a search that the caller's Interrupt ended
    system = 5,            // a file operation that failed (SystemError has its errno)
    corrupt = 6,           // a file that is corrupt
    locked = 7,            // a database that another handle or process has open for writing
};

// The parts of a message, "<path>: <problem> (found X, expected Y); <hint>". Empty parts are omitted.
struct ErrorParts {
    std::string path = {};     // the file, folder or argument that the error concerns
    std::string problem = {};  // if empty, the default of the code, such as "is corrupt"
    std::string found = {}, expected = {};
    std::string hint = {};  // an action for the user
};

// The base class of all exceptions of the library. Copying it does not throw.
class IDCWH_API Error : public std::runtime_error {
public:
    Error(ErrorCode code, ErrorParts parts);
    Error(ErrorCode code, const std::string& problem);
    ~Error() override;

    ErrorCode code() const noexcept { return code_; }
    const std::string& path() const noexcept { return parts_->path; }
    const std::string& problem() const noexcept { return parts_->problem; }
    const std::string& found() const noexcept { return parts_->found; }
    const std::string& expected() const noexcept { return parts_->expected; }
    const std::string& hint() const noexcept { return parts_->hint; }

private:
    Error(ErrorCode code, std::shared_ptr<const ErrorParts> parts);
    ErrorCode code_;
    std::shared_ptr<const ErrorParts> parts_;  // shared, because copying an exception must not throw
};

// A file operation that failed: error_number() is its errno, path() the file. The code is ErrorCode::system.
class IDCWH_API SystemError : public Error {
public:
    SystemError(int error_number, const std::string& path, const std::string& what);
    ~SystemError() override;
    int error_number() const noexcept { return error_number_; }

private:
    int error_number_;
};

}  // namespace idcwh
