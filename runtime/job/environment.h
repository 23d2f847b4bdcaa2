// The environment that a launcher starts ranks with, or a test's.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dtc {

using Environment = std::function<std::optional<std::string>(const char *name)>;
Environment processEnvironment();

} // namespace dtc
