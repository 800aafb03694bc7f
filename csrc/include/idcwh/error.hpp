// The one exception of the library. Nothing in it aborts, and nothing prints.
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
};

class IDCWH_API Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message);
    ~Error() override;
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

}  // namespace idcwh
