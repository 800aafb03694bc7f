// Constructors and messages of Error. They are out of line, so that the class has one vtable and can be caught across
// shared libraries.
#include <idcwh/error.hpp>

#include <system_error>
#include <utility>

namespace idcwh {
namespace {

const char* default_problem(ErrorCode code) {
    switch (code) {
        case ErrorCode::unsupported: return "is not supported";
        case ErrorCode::not_found: return "is missing";
        case ErrorCode::corrupt: return "is corrupt";
        case ErrorCode::locked: return "is locked by another writer";
        default: return "is invalid";
    }
}

std::shared_ptr<const ErrorParts> complete(ErrorCode code, ErrorParts parts) {
    if (parts.problem.empty()) parts.problem = default_problem(code);
    return std::make_shared<const ErrorParts>(std::move(parts));
}

std::string message_of(const ErrorParts& parts) {
    std::string compared;
    if (!parts.found.empty()) compared = "found " + parts.found;
    if (!parts.expected.empty()) compared += (compared.empty() ? "expected " : ", expected ") + parts.expected;
    std::string message = parts.path.empty() ? parts.problem : parts.path + ": " + parts.problem;
    if (!compared.empty()) message += " (" + compared + ")";
    return parts.hint.empty() ? message : message + "; " + parts.hint;
}

}  // namespace

Error::Error(ErrorCode code, std::shared_ptr<const ErrorParts> parts)
    : std::runtime_error(message_of(*parts)), code_(code), parts_(std::move(parts)) {}
Error::Error(ErrorCode code, ErrorParts parts) : Error(code, complete(code, std::move(parts))) {}
Error::Error(ErrorCode code, const std::string& problem) : Error(code, ErrorParts{.problem = problem}) {}
Error::~Error() = default;

SystemError::SystemError(int error_number, const std::string& path, const std::string& what)
    : Error(ErrorCode::system, {.path = path, .problem = what + ": " + std::generic_category().message(error_number)}),
      error_number_(error_number) {}
SystemError::~SystemError() = default;

}  // namespace idcwh
