// A step as plain numbers: everything that its time depends on, and nothing else.
//
// It is read once, from a program (readStep) or from what a planner has laid out (passes/pipelines/FlatSteps.h), and
// then simulated any number of times: on other clusters, with a slow rank, in another order. Equal works and moves are
// in their tables once, so that their costs are computed once.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cost/cost.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::timing {

/// What a collective or a transfer moves.
struct Move {
  uint32_t group = 0; ///< index into Step::groups
  abi::Collective::Kind kind = abi::Collective::ALL_REDUCE;
  abi::DataType type = abi::F32; ///< of a collective's elements
  double payload = 0;            ///< bytes, as abi::payloadBytes counts them; for a transfer, sent
  bool operator==(const Move &) const = default;
};

/// A command.
struct Action {
  enum class Kind : uint8_t { Launch, Copy, StartCopy, Start, Send, Receive, Wait };
  Kind kind = Kind::Launch;
  abi::Direction direction = abi::UNKNOWN_DIRECTION;
  uint32_t index = 0;      ///< into Step::works (Launch, Copy, StartCopy) or Step::moves (Start, Send, Receive)
  uint32_t token = 0;      ///< of all but Launch and Copy
  uint32_t tokenSpace = 0; ///< each place of it has a token of its own
  int32_t shift = 0;       ///< of Send and Receive: how many places after this rank in the group the other one is
  uint32_t channel = 0;    ///< of StartCopy
  uint32_t command = 0;    ///< its number in the program's list; for a bucket, its first part's
  bool isOfHost = false;   ///< of StartCopy: to the host's memory, or back
  bool operator==(const Action &) const = default;
};

struct StepList {
  std::string name;
  abi::CommandList::Duty duty = abi::CommandList::ONCE;
  std::vector<Action> actions;
  bool operator==(const StepList &) const = default;
};

/// An entry of a timetable.
struct StepEntry {
  uint32_t list = 0;
  int64_t microBatch = -1; ///< -1: none
  uint32_t stage = 0;
  std::vector<uint32_t> places;
  bool operator==(const StepEntry &) const = default;
};

struct StepRole {
  std::string name;
  std::vector<StepEntry> entries; ///< of all steps that are simulated, in order
  bool operator==(const StepRole &) const = default;
};

struct Step {
  std::vector<KernelWork> works;
  std::vector<Move> moves;
  std::vector<StepList> lists;
  std::vector<StepRole> roles;
  std::vector<abi::Group> groups;
  abi::Mesh mesh;
  std::vector<int> roleOf; ///< of each rank
  uint32_t tokens = 0;     ///< all of one place are smaller
};

/// Puts works and moves into a step's tables, each only once.
class StepTables {
public:
  explicit StepTables(Step &step) : step(step) {}
  uint32_t add(const KernelWork &work);
  uint32_t add(const Move &move);

private:
  Step &step;
  std::map<std::tuple<int, int, double, double>, uint32_t> works;
  std::map<std::tuple<uint32_t, int, int, double>, uint32_t> moves;
};

/// Reads the timetable of that name; if its steps overlap, `steps` of them in a row. Keeps no reference to the
/// manifest. The manifest has been validated.
Step readStep(const abi::Manifest &manifest, std::string_view timetable, int64_t steps = 1);

/// The properties of a launch or a copy that its time depends on.
KernelWork workOf(const abi::Command &command);

} // namespace dtc::timing
