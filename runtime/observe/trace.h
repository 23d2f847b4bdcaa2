// A trace of some steps in the Chrome trace format that Kineto writes and Perfetto opens: ranks are processes, streams
// are threads, and every command is a slice with its model location. Communication and asynchronous copies have a slice
// at the start, one on their channel with bytes and rate, and one at the wait; a flow connects them.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/observer.h"
#include "runtime/support/output_file.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

class Trace final : public Observer {
public:
  /// `manifest` outlives the trace.
  Trace(const abi::Manifest &manifest, int rank) : manifest(manifest), rank(rank) {}

  void executed(const CommandEvent &event) override;
  /// A training step as a whole, on a separate line. Times as in CommandEvent.
  void step(int64_t number, int64_t begin, int64_t end);

  /// This rank's events as JSON objects, each followed by a comma and a newline; times in microseconds.
  std::string events() const;

private:
  struct Slice {
    const abi::Command *command; ///< null: a step
    int64_t number;              ///< the step's, or the command's in its list
    std::string list;
    int64_t begin, end;
    bool isStart = false;
    const abi::Command *awaited = nullptr; ///< by a wait
    std::optional<int64_t> flow = {};      ///< its number on this rank, if it is part of a flow
    int64_t flowTime = 0;                  ///< the flow's time in this slice, after its time in the previous one
  };
  /// What has been started and not waited for.
  struct Flow {
    int64_t number, time;
    const abi::Command *command;
  };
  std::string names() const;
  std::string describe(const Slice &slice) const;
  std::string describeFlow(const Slice &slice) const;

  const abi::Manifest &manifest;
  int rank;
  std::vector<Slice> slices;
  std::map<uint32_t, Flow> flows; // by token
  int64_t flowCount = 0;
};

/// A trace file, which appears complete or not at all.
class TraceFile {
public:
  explicit TraceFile(const std::string &path);
  /// Appends the result of a rank's events().
  void append(std::string_view events) { file.append(events); }
  /// Throws Error naming path and reason when it cannot be written.
  void publish();

private:
  AtomicFile file;
};

/// Writes all ranks' events into one file, which appears complete or not at all; all ranks call it. Throws Error naming
/// path and reason when it cannot be written.
void writeTrace(const Trace &trace, Communicator &communicator, const std::string &path);

} // namespace dtc
