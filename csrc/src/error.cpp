// Out of line, so that the class has one home and can be caught across a shared library.
#include <idcwh/error.hpp>

#include <system_error>

namespace idcwh {

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
Error::~Error() = default;

SystemError::SystemError(int error_number, const std::string& path, const std::string& what)
    : Error(ErrorCode::system, path + ": " + what + ": " + std::generic_category().message(error_number)),
      error_number_(error_number),
      path_(path) {}
SystemError::~SystemError() = default;

}  // namespace idcwh
