// A variable of the environment, for as long as this lives.
#pragma once

#include <cstdlib>

namespace dtc::test {

class Variable {
public:
  Variable(const char *name, const char *value) : name(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

private:
  const char *name;
};

} // namespace dtc::test
