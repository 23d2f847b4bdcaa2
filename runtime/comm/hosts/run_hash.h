// The hash that follows what crosses between hosts: XXH3 of 64 bits, against accidents and not against forgers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtc {

struct Run;

/// Of the bytes of runs in their order, as far as it has been taken.
class RunHash {
public:
  RunHash();
  ~RunHash();
  RunHash(RunHash &&) noexcept;
  RunHash &operator=(RunHash &&) noexcept;

  /// Takes what is new before the first `bytes` bytes of all runs, which are always the same.
  void advance(const std::vector<Run> &runs, int64_t bytes);
  uint64_t value() const;

private:
  struct State;
  std::unique_ptr<State> state; ///< none: nothing has been taken yet
  size_t run = 0;
  int64_t ofRun = 0, taken = 0;
};

} // namespace dtc
