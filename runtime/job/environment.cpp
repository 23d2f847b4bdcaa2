#include "runtime/job/environment.h"

#include <cstdlib>

namespace dtc {

Environment processEnvironment() {
  return [](const char *name) -> std::optional<std::string> {
    const char *value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

} // namespace dtc
