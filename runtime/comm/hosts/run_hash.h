// The hash that follows data sent between hosts: 64-bit XXH3, against accidents, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtc {

struct Run;

/// The running hash over the bytes of runs, in their order.
class RunHash {
public:
  RunHash();
  ~RunHash();
  RunHash(RunHash &&) noexcept;
  RunHash &operator=(RunHash &&) noexcept;

  /// Hashes what is new among the first `bytes` bytes of all runs; the runs must be the same in every call.
  void advance(const std::vector<Run> &runs, int64_t bytes);
  uint64_t value() const;

private:
  struct State;
  std::unique_ptr<State> state; ///< null: nothing has been hashed yet
  size_t run = 0;
  int64_t ofRun = 0, taken = 0;
};

} // namespace dtc
