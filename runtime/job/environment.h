// The environment from the launcher, or from a test.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dtc {

using Environment = std::function<std::optional<std::string>(const char *name)>;
Environment processEnvironment();

} // namespace dtc
