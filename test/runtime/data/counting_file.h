// Token files whose token i is i: the value of a token shows its position.
#pragma once

#include "runtime/data/token_writer.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace dtc::test {

/// Writes one with this many tokens. Returns its path.
inline std::string writeCounting(const std::string &path, int count) {
  std::vector<uint16_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  writeTokenFile(path, values);
  return path;
}

} // namespace dtc::test
