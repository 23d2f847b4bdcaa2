// The contents of a trace (runtime/observe/trace.h): for each rank, what ran when on which of its lines. A simulator's
// trace of a predicted step has the same form.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// How a slice is drawn. Kernels differ by the part of the step that they belong to.
enum class SliceKind : uint8_t { Forward, InputGradient, WeightGradient, Update, Kernel, Start, Wait, Exchange, Copy };
inline constexpr size_t SliceKinds = 9;
/// The name for people; for parts of a step, the name that the trace uses.
std::string_view nameOf(SliceKind kind);

/// Times in microseconds, from the trace's first slice on.
struct TraceSlice {
  double begin = 0, length = 0;
  uint32_t name = 0; ///< index into RunTrace::names: with its place in the model
  uint32_t work = 0; ///< index into RunTrace::classes: the kernel, or the kind of communication
  SliceKind kind = SliceKind::Kernel;
  uint32_t list = 0;     ///< index into RunTrace::names
  int64_t command = 0;   ///< its number in the list
  int32_t layer = -1;    ///< index into RunTrace::layers; -1: outside the layers
  bool isOfPass = false; ///< its command belongs to a forward or backward pass
  double end() const { return begin + length; }
};

struct RankTrace {
  struct Lane {
    std::string name;               ///< "compute", "channel 0"
    std::vector<TraceSlice> slices; ///< in the order of their start times
  };
  struct Step {
    int64_t number;
    double begin, end;
  };
  std::map<int64_t, Lane> lanes; ///< by the trace's threads: compute is the first
  std::vector<Step> steps;

  /// Whether a slice is in a step: other traced work, such as an evaluation between two steps, is in none.
  bool isInStep(const TraceSlice &slice) const;
};

struct RunTrace {
  std::map<int64_t, RankTrace> ranks;
  std::vector<std::string> names, classes, layers;

  /// Parses the text of a trace. Throws Error (BadInput) naming `path` where it is not one.
  static RunTrace parse(std::string_view text, const std::string &path);

  double end() const; ///< end of the last slice
  bool isEmpty() const { return ranks.empty(); }
};

} // namespace dtc
