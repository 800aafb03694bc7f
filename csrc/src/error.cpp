// Out of line, so that the class has one home and can be caught across a shared library.
#include <idcwh/error.hpp>

namespace idcwh {

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
Error::~Error() = default;

}  // namespace idcwh
