// A trace of some steps in the Chrome trace format that Kineto writes and Perfetto opens: ranks are processes, streams
// are threads, and every command is a slice with its model location.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/observer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

class Trace final : public Observer {
public:
  /// `manifest` outlives the trace.
  Trace(const abi::Manifest &manifest, int rank) : manifest(manifest), rank(rank) {}

  void executed(const CommandEvent &event) override;
  /// A training step as a whole, on a line of its own. Times as in CommandEvent.
  void step(int64_t number, int64_t begin, int64_t end);

  /// This rank's events as JSON objects, each followed by a comma and a newline; times in microseconds.
  std::string events() const;

private:
  struct Slice {
    const abi::Command *command; ///< null: a step
    int64_t number;              ///< the step's, or the command's in its list
    std::string list;
    int64_t begin, end;
  };
  std::string names() const;
  std::string describe(const Slice &slice) const;

  const abi::Manifest &manifest;
  int rank;
  std::vector<Slice> slices;
};

/// Writes all ranks' events into one file, which appears whole or not at all; all ranks call it. Throws Error naming
/// path and reason when it cannot be written.
void writeTrace(const Trace &trace, Communicator &communicator, const std::string &path);

} // namespace dtc
