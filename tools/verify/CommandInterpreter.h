// Runs the command lists of all ranks in one process, in f64: the work of the executor, done slowly and with every
// possible check.
//
// - Memory that nothing has written holds NaN, so that reading it shows in the results.
// - Ranks run as far as they can, one after the other; they meet only in collectives, sends and receives.
// - A collective is as asynchronous as it may be. From its start to its wait its destination holds NaN and its source
//   must keep its contents: it makes no difference whether a rank's data leaves at the start or at the wait, or when
//   its result arrives.
// - Members of a group must start the same collectives in the same order. A rank that waits for a peer that never
//   starts is a deadlock, reported with who waits for whom and where.
// - A launch's scalars must be what its kernel needs, and its grid must write every element once. Where memory says how
//   much of the grid runs, the elements beyond stay as they were.
// - All ranks start the collectives that they share in the same order, on whatever channels, and the transfers of a
//   group in the same order; ranks that disagree are a deadlock.
// - Every start has its wait, in the same list or a later one.
// - Memory of the host is an arena of its own, which only copies access. A copy that is started is as asynchronous as
//   a collective.
#pragma once

#include "dialect/IR/Attributes.h"
#include "dialect/IR/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/abi/timetables.h"
#include "tools/verify/GeneratedKernel.h"
#include "tools/verify/LibraryKernels.h"
#include "tools/verify/Operands.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace dtc::verify {

class CommandInterpreter {
public:
  /// Parses the reference of every kernel in `context`, which has the dt and func dialects loaded. `rolesOfRanks` gives
  /// each rank's role; by default they are as the program states. `manifest` outlives the interpreter. Throws
  /// ProgramFault for a kernel without a reference.
  CommandInterpreter(const abi::Manifest &manifest, mlir::MLIRContext &context, std::vector<int> rolesOfRanks = {});

  int64_t ranks() const { return static_cast<int64_t>(memories.size()); }
  mlir::dt::MeshAttr mesh() const { return meshAttr; }

  /// Runs a list on all ranks. A later list may wait for what this one starts. Throws ProgramFault naming rank, list,
  /// command and location.
  void run(std::string_view list);

  using Visit = std::function<void(int64_t rank, const abi::TimedEntry &entry)>;
  struct Watch {
    Visit enter;                                            ///< before a rank runs an entry: fill in inputs, say
    Visit leave;                                            ///< after a rank has run an entry
    std::function<bool(const abi::TimetableEntry &)> takes; ///< which entries run; without it all
    bool redoes = false;                                    ///< each step is followed by the timetable "redo"
  };
  /// Runs this many steps of a timetable: each rank the timetable of its role, at its own pace. Throws as run() does.
  void runTimetable(std::string_view name, int64_t steps, const Watch &watch);
  void runTimetable(std::string_view name, int64_t steps = 1) { runTimetable(name, steps, Watch()); }

  /// Commands on all ranks together, of the entries that are selected in one step of a timetable.
  int64_t commandsIn(std::string_view timetable, const Watch &watch);
  /// Called after each command of each rank.
  std::function<void()> onCommand;

  /// Throws ProgramFault when a collective is still in progress: to be called where a timetable ends.
  void requireAllWaited() const;

  /// A named tensor's piece on one rank, padding included.
  mlir::dt::HostTensor read(int64_t rank, const abi::Tensor &tensor) const;
  /// A rank's own results are not rounded: a bf16 element is a double like any other.
  void write(int64_t rank, const abi::Tensor &tensor, const mlir::dt::HostTensor &piece);

private:
  struct Kernel {
    LibraryReference library = nullptr;
    std::optional<GeneratedKernel> generated;
  };
  /// Who meets: a group for collectives, or two ranks for a transfer from the first to the second over a group of the
  /// table.
  struct Members {
    std::vector<int64_t> ranks;
    int64_t transfers = -1; ///< the group in the table
    auto operator<=>(const Members &) const = default;
  };
  /// One collective of one group, or one transfer of a pair: what its members have contributed up to now.
  struct Meeting {
    std::vector<const abi::Command *> calls; ///< null: not started yet
    std::vector<std::string> places;
    std::vector<CollectiveOperand> sources;
    bool happened = false; ///< it has taken place
    size_t waited = 0;     ///< members that have waited for it
  };
  /// A collective that a rank has started and not yet waited for.
  struct Flight {
    const abi::Command *call;
    Members group;
    size_t meeting; ///< index among the group's
    int64_t me;     ///< index within the group
    std::string place;
    std::vector<double> copied; ///< for a copy, which no other rank takes part in: the contents of its source
    std::vector<double> before; ///< the old contents of the result's memory, where some of that may stay
  };
  /// A list that a rank is to run, for an entry or by itself.
  struct Task {
    const abi::CommandList *list;
    abi::TimedEntry entry = {};
  };
  struct Rank {
    std::deque<Task> tasks;                          ///< the first one is being run
    int next = 0;                                    ///< command of it
    std::map<uint32_t, std::vector<Flight>> flights; ///< parts by token
    bool expectsPart = false;                        ///< of the last start
    std::map<Members, size_t> started;               ///< up to now
    /// Starts that have not yet taken place, in order: collectives, and the transfers of each group.
    std::map<int64_t, std::deque<std::pair<Members, size_t>>> issued;
  };

  const abi::Role &roleOf(int64_t rank) const { return manifest.roles(roles[rank]); }
  const abi::CommandList &listOf(int64_t rank, std::string_view name);
  const abi::CommandList &listOf(int64_t rank, const abi::TimetableEntry &entry);
  void begin();
  void runTasks(const Watch &watch);
  bool advance(int64_t rank, const Watch &watch);
  bool execute(int64_t rank, const abi::Command &command);
  void launch(int64_t rank, const abi::Launch &launch);
  std::vector<int64_t> membersOf(int64_t rank, const abi::Command &command) const;
  void start(int64_t rank, const abi::Command &command, const std::string &place);
  void copy(int64_t rank, const abi::Copy &copy);
  void startCopy(int64_t rank, const abi::Command &command, const std::string &place);
  void takeToken(const Rank &state, const abi::Command &command) const;
  bool tryWait(int64_t rank, uint32_t token);
  void settle(int64_t queue, std::vector<int64_t> moved);
  std::string describeOrder(const Flight &flight) const;
  int64_t countOf(int64_t rank, const abi::Launch &launch) const;
  static void launchLibrary(LibraryReference reference, const LibraryLaunch &launch, size_t inputs);
  void finish(int64_t rank, const Flight &flight, const Meeting &meeting);
  void finishCopy(int64_t rank, const Flight &flight);
  [[noreturn]] void reportDeadlock() const;

  std::string placeOf(int64_t rank) const;
  Buffer tensorBuffer(int64_t rank, const abi::Tensor &tensor) const;
  mlir::SmallVector<mlir::dt::AxisRefAttr> axesOf(const google::protobuf::RepeatedPtrField<abi::AxisRef> &axes) const;

  const abi::Manifest &manifest;
  mlir::dt::MeshAttr meshAttr;
  std::vector<int> roles;
  std::vector<Kernel> kernels;
  mutable std::vector<RankMemory> memories;                         ///< of each rank
  std::map<std::pair<int, std::string>, abi::CommandList> resolved; ///< by role and instance
  std::vector<Rank> states;
  std::map<Members, std::deque<Meeting>> meetings;
};

/// The attribute forms of a manifest's mesh, axes and shardings.
mlir::dt::MeshAttr toAttribute(const abi::Mesh &mesh, mlir::MLIRContext &context);
mlir::dt::ShardingAttr toAttribute(const abi::Sharding &sharding, const abi::Mesh &mesh, mlir::MLIRContext &context);

/// The value of a launch's scalar on a rank of `mesh`; a double as its bit pattern.
int64_t valueOf(const abi::Scalar &scalar, const abi::Mesh &mesh, mlir::dt::MeshAttr meshAttr, int64_t rank);

} // namespace dtc::verify
