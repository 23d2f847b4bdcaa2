// Says which function of a rank runs when, and in which places of memory; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/timetables/AddTransfers.h"
#include "passes/schedule/timetables/TurnedStep.h"

#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/timetables/pipedream.h"
#include "timing/timetables/simulate.h"

#include <map>
#include <set>

namespace dtc {
#define GEN_PASS_DEF_BUILDTIMETABLES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
namespace timetables = dtc::timetables;

namespace {

/// An entry of a timetable, and its number in an order in which the entries of all ranks can run.
struct NumberedEntry {
  timetables::Entry entry;
  int64_t at;
};
using NumberedRanks = std::vector<std::vector<NumberedEntry>>;

/// In the order in which they begin if all passes take equally long.
NumberedRanks numberEntries(const timetables::Timetable &timetable) {
  timetables::Simulated times = timetables::simulate(timetable, timetables::equalCosts(timetable.stages()));
  std::vector<std::tuple<double, size_t, size_t>> order;
  for (auto [rank, entries] : llvm::enumerate(times.entries))
    for (auto [index, interval] : llvm::enumerate(entries))
      order.emplace_back(interval.begin, rank, index);
  llvm::sort(order);
  NumberedRanks ranks(timetable.ranks.size());
  for (auto [rank, entries] : llvm::enumerate(timetable.ranks))
    for (const timetables::Entry &entry : entries)
      ranks[rank].push_back({entry, 0});
  for (auto [at, which] : llvm::enumerate(order))
    ranks[std::get<1>(which)][std::get<2>(which)].at = static_cast<int64_t>(at);
  return ranks;
}

/// Of each pass: how many micro-batches its stage has added up before. Gradients add in the order of the passes that
/// compute those of weights, losses in the order of the last stage's forward passes. The other passes of a micro-batch
/// add nothing, and have the number of its gradients, since what they hand to that pass may depend on it.
class PassNumbers {
public:
  explicit PassNumbers(int32_t stages) : last(stages - 1) {}

  /// Passes are added in their order.
  void add(const timetables::Entry &entry) {
    if (addsUp(entry))
      numbers[keyOf(entry)] = begun[{entry.stage, entry.kind == timetables::Kind::Forward}]++;
  }

  /// The micro-batches that end a sum of `microBatches`.
  std::set<int32_t> findLast(int64_t microBatches) const {
    std::set<int32_t> ends;
    for (const auto &[key, number] : numbers)
      if (number + 1 == microBatches)
        ends.insert(std::get<1>(key));
    return ends;
  }

  int64_t lookup(const timetables::Entry &entry) const {
    auto number = numbers.find(keyOf(entry));
    return number == numbers.end() ? 0 : number->second; // in an evaluation passes are alike
  }

private:
  using Key = std::tuple<int32_t, int32_t, bool>; ///< stage, micro-batch, whether it is a number of losses

  bool addsUp(const timetables::Entry &entry) const {
    return givesWeightGradient(entry.kind) || addsLoss(entry);
  }
  bool addsLoss(const timetables::Entry &entry) const {
    return entry.kind == timetables::Kind::Forward && entry.stage == last;
  }
  Key keyOf(const timetables::Entry &entry) const { return {entry.stage, entry.microBatch, addsLoss(entry)}; }

  int32_t last;
  std::map<Key, int64_t> numbers;
  std::map<std::pair<int32_t, bool>, int64_t> begun; ///< of a stage: gradients, or losses
};

/// One micro-batch through all stages.
NumberedRanks forwardAlone(ArrayRef<int64_t> stageRanks, int64_t ranks) {
  NumberedRanks all(ranks);
  for (auto [stage, rank] : llvm::enumerate(stageRanks))
    all[rank].push_back({{.stage = static_cast<int32_t>(stage)}, static_cast<int64_t>(stage)});
  return all;
}

struct BuildTimetables : dtc::impl::BuildTimetablesBase<BuildTimetables> {
  using BuildTimetablesBase::BuildTimetablesBase;

  void runOnOperation() override {
    ranks = dtc::rolesOf(getOperation());
    bool overlaps = ranks > 1 && dtc::overlapsSteps(kind);
    SmallVector<int64_t> stageRanks{0};
    if (ranks > 1) {
      stageRanks = dtc::stageRanksOf(getOperation());
      if (warnsOfBubble && accumulation < ranks && !overlaps)
        warnOfBubble(static_cast<int64_t>(stageRanks.size()));
    }
    if (failed(overlaps ? addOverlappingSteps() : addSteps(static_cast<int64_t>(stageRanks.size()))))
      return signalPassFailure();
    addTimetables(dtc::abi::evaluationTimetable, forwardAlone(stageRanks, ranks));
    for (std::string_view name : {dtc::abi::refreshTimetable, dtc::abi::promptTimetable, dtc::abi::generationTimetable})
      addTimetables(name, NumberedRanks(ranks));
    getOperation()->setAttr(module_attr::timetables, ArrayAttr::get(&getContext(), timetables));
  }

private:
  /// Steps do not overlap. So the best timetable keeps a rank busy n of n + p - 1 times if it passes n times forward; and
  /// 3 n of 3 n + p - 1 times if gradients of weights fill what would be idle.
  void warnOfBubble(int64_t stages) {
    constexpr int64_t percent = 100;
    int64_t passes = accumulation * stages / ranks;
    int64_t busy = getOperation()->hasAttr(module_attr::splitsBackward) ? 3 * passes : passes;
    int64_t ticks = busy + ranks - 1;
    getOperation().emitWarning("a pipeline of ")
        << stages << " stages with " << int64_t(accumulation) << " micro-batch" << (accumulation == 1 ? "" : "es")
        << " a step: its stages stand idle for " << percent * (ticks - busy) / ticks
        << " % of the time or more; raise accumulation";
  }

  LogicalResult addSteps(int64_t stages) {
    FailureOr<NumberedRanks> step = stepEntries(stages);
    if (failed(step))
      return failure();
    if (ranks > 1 && overlapSteps)
      return addTurnedStep(*step);
    addTimetables(dtc::abi::stepTimetable, *step);
    return success();
  }

  /// Steps overlap behind an early update.
  LogicalResult addTurnedStep(const NumberedRanks &step) {
    dtc::EarlyPasses early = earlyPasses(step);
    if (early.empty()) {
      int64_t enough = ranks + ranks - 1;
      return getOperation().emitError("overlap_steps: with this timetable and ")
             << int64_t(accumulation)
             << " micro-batches all ranks end a step at the same time, so that none could begin "
             << "the next one earlier; take zb-h2 or zbv, with " << enough << " micro-batches or more, or leave it out";
    }
    if (std::set<int32_t> ends = numberPasses(step).findLast(accumulation); ends.size() > 1)
      return getOperation().emitError("overlap_steps: the number of tokens, which updates need, goes through all stages "
                                      "with the micro-batch that ends the sums of losses and gradients, and in the "
                                      "timetable micro-batch ")
             << *ends.begin() << " ends some and " << *ends.rbegin()
             << " others; add all in the same order, or leave it out";
    dtc::TransferFunctions transfers(getOperation());
    std::vector<std::vector<dtc::RunEntry>> all = planEntries(dtc::abi::stepTimetable, step, transfers);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      dtc::TurnedStep turned = dtc::turnStep(all[rank], early, dtc::OnceFunctions::of(getOperation(), rank), transfers);
      addTimetable(dtc::abi::stepTimetable, rank, turned.period);
      addTimetable(dtc::abi::redoTimetable, rank, turned.redo);
    }
    return success();
  }

  /// The first passes of each rank that have begun when the last rank ends the step before, if all passes take equally
  /// long and no rank waits for the others. Only forward passes of micro-batches that do not end a sum, as long as what
  /// they read comes from such passes, too.
  dtc::EarlyPasses earlyPasses(const NumberedRanks &step) {
    std::vector<size_t> counts =
        timetables::begunBeforeEnd(planned, timetables::equalCosts(planned.stages()), static_cast<int32_t>(3 * ranks));
    PassNumbers numbers = numberPasses(step);
    dtc::EarlyPasses early;
    for (bool changes = true; changes;) {
      changes = false;
      early.clear();
      for (size_t rank = 0; rank < counts.size(); ++rank)
        for (const NumberedEntry &each : ArrayRef(step[rank]).take_front(counts[rank]))
          early.insert({each.entry.stage, each.entry.kind == timetables::Kind::Forward, each.entry.microBatch});
      auto isEarly = [&](const timetables::Entry &entry) {
        return entry.kind == timetables::Kind::Forward && numbers.lookup(entry) + 1 != accumulation &&
               (entry.stage == 0 || early.contains({entry.stage - 1, true, entry.microBatch}));
      };
      for (size_t rank = 0; rank < counts.size(); ++rank)
        for (size_t index = 0; index < counts[rank]; ++index)
          if (!isEarly(step[rank][index].entry)) {
            counts[rank] = index;
            changes = true;
          }
    }
    return early;
  }

  /// What a rank runs in a step that overlaps others.
  struct StepFunctions {
    func::FuncOp forward, backward;
    SmallVector<func::FuncOp> once, exchanges; ///< behind the backward pass; at the end of the running step
  };

  std::vector<StepFunctions> stepFunctions() {
    PassFunctions passes = passFunctionsOf(dtc::abi::stepTimetable);
    std::vector<StepFunctions> functions(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      timetables::Entry entry{.stage = static_cast<int32_t>(rank)};
      functions[rank].forward = find(passes, entry, /*number=*/0);
      entry.kind = timetables::Kind::Backward;
      functions[rank].backward = find(passes, entry, /*number=*/0);
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function);
          duty && isOnce(duty.getTask()) && duty.getTimetable() == dtc::abi::stepTimetable)
        if (int64_t rank = dtc::roleOf(function); rank >= 0 && rank < ranks)
          (duty.getTask() == Task::Once ? functions[rank].once : functions[rank].exchanges).push_back(function);
    return functions;
  }

  /// The passes of a rank while step `running` of `steps` is the running one (timing/timetables/pipedream.h).
  void addPasses(const StepFunctions &functions, int64_t rank, int64_t running, int64_t steps,
                 std::vector<dtc::PlannedPass> &passes) {
    namespace pipedream = timetables::pipedream;
    for (int64_t turn : {0, 1}) {
      bool isForward = pipedream::beginsForward(rank) == (turn == 0);
      int64_t step = running + (isForward ? pipedream::forwardAhead(ranks, rank) : pipedream::backwardAhead(rank));
      func::FuncOp function = isForward ? functions.forward : functions.backward;
      if (!function || step < 0 || step >= steps)
        continue;
      dtc::PlannedPass &pass =
          passes.emplace_back(dtc::PlannedPass{function, step, (2 * (running + ranks) + turn) * ranks + rank});
      if (!isForward)
        for (func::FuncOp each : functions.once)
          pass.then.push_back({each, /*microBatch=*/-1, step});
      if (turn == 0)
        continue;
      pass.settles = running;
      for (func::FuncOp each : functions.exchanges)
        pass.then.push_back({each, /*microBatch=*/-1, running});
    }
  }

  /// Plans enough steps in a row that some in the middle are like those before and behind, and takes one of these. What
  /// is exchanged is the last thing that a rank does in a step.
  LogicalResult addOverlappingSteps() {
    const int64_t middle = 2 * ranks + 3, steps = 2 * middle;
    std::vector<StepFunctions> functions = stepFunctions();
    std::vector<std::vector<dtc::PlannedPass>> passes(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t running = -ranks; running < steps; ++running)
        addPasses(functions[rank], rank, running, steps, passes[rank]);
    std::vector<std::vector<dtc::RunEntry>> all = dtc::addTransfers(passes, dtc::TransferFunctions(getOperation()));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<dtc::RunEntry> &entries = all[rank];
      FailureOr<SmallVector<EntryAttr>> placed =
          dtc::placePeriod(entries, endOf(middle - 1, entries), endOf(middle, entries), middle);
      if (failed(placed))
        return failure();
      timetables.push_back(
          TimetableAttr::get(&getContext(), StringAttr::get(&getContext(), dtc::abi::stepTimetable), rank, *placed));
    }
    return success();
  }

  /// Where the entries of a running step end.
  static size_t endOf(int64_t step, ArrayRef<dtc::RunEntry> entries) {
    size_t end = entries.size();
    while (end > 0 && (dutyOf(entries[end - 1].function).getTask() != Task::Exchange || entries[end - 1].step != step))
      --end;
    return end;
  }

  FailureOr<NumberedRanks> stepEntries(int64_t stages) {
    try {
      std::string_view chosen = ranks == 1 ? "naive" : std::string_view(kind);
      timetables::Timetable timetable =
          dtc::timetableFor(chosen, {.ranks = ranks, .stages = stages, .microBatches = accumulation});
      if (std::string found = dtc::findSumsOutOfOrder(timetable); !found.empty()) {
        getOperation()->setAttr(module_attr::sumsByTimetable, UnitAttr::get(&getContext()));
        getOperation().emitWarning("the timetable: ")
            << found << "; results agree with those of other timetables within bounds, not to the bit";
      }
      if (getOperation()->hasAttr(module_attr::splitsBackward))
        timetable = dtc::timetables::withSplitBackward(timetable);
      planned = timetable;
      return numberEntries(timetable);
    } catch (const dtc::Error &error) {
      return getOperation().emitError(error.what());
    }
  }

  /// Of all ranks that do anything in it: passes first, then what is done once.
  void addTimetables(std::string_view name, const NumberedRanks &entries) {
    std::vector<std::vector<dtc::RunEntry>> all = planEntries(name, entries, dtc::TransferFunctions(getOperation()));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function); duty && isOnce(duty.getTask()) && duty.getTimetable() == name)
        if (int64_t rank = dtc::roleOf(function); rank >= 0 && rank < ranks)
          all[rank].push_back({function});
    for (auto [rank, its] : llvm::enumerate(all))
      if (!its.empty())
        addTimetable(name, static_cast<int64_t>(rank), dtc::placeEntries(its));
  }

  void addTimetable(std::string_view name, int64_t rank, ArrayRef<EntryAttr> entries) {
    timetables.push_back(TimetableAttr::get(&getContext(), StringAttr::get(&getContext(), name), rank, entries));
  }

  /// The passes of each rank, with their transfers.
  std::vector<std::vector<dtc::RunEntry>> planEntries(std::string_view name, const NumberedRanks &entries,
                                                      const dtc::TransferFunctions &transfers) {
    PassFunctions functions = passFunctionsOf(name);
    std::vector<std::vector<dtc::PlannedPass>> passes(ranks);
    PassNumbers numbers = numberPasses(entries);
    for (auto [rank, its] : llvm::enumerate(entries))
      for (const NumberedEntry &each : its)
        if (func::FuncOp function = find(functions, each.entry, numbers.lookup(each.entry)))
          passes[rank].push_back({function, each.entry.microBatch, each.at});
    return dtc::addTransfers(passes, transfers);
  }

  static PassNumbers numberPasses(const NumberedRanks &entries) {
    int32_t stages = 0;
    for (const std::vector<NumberedEntry> &its : entries)
      for (const NumberedEntry &each : its)
        stages = std::max(stages, each.entry.stage + 1);
    PassNumbers numbers(stages);
    for (const std::vector<NumberedEntry> &its : entries)
      for (const NumberedEntry &each : its)
        numbers.add(each.entry);
    return numbers;
  }

  static bool isOnce(Task task) { return task == Task::Once || task == Task::Exchange; }

  static bool does(Task task, timetables::Kind kind) {
    switch (kind) {
    case timetables::Kind::Forward:
      return task == Task::Forward || task == Task::Both;
    case timetables::Kind::Backward:
      return task == Task::Backward;
    case timetables::Kind::BackwardInput:
      return task == Task::InputGradients;
    case timetables::Kind::BackwardWeight:
      return task == Task::WeightGradients;
    }
    llvm_unreachable("all kinds are covered");
  }

  /// Those of each stage that do a pass of each kind, in the module's order.
  using PassFunctions = std::map<std::pair<int64_t, timetables::Kind>, SmallVector<func::FuncOp>>;

  PassFunctions passFunctionsOf(std::string_view name) {
    using timetables::Kind;
    PassFunctions functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function); duty && duty.getTimetable() == name)
        for (Kind kind : {Kind::Forward, Kind::Backward, Kind::BackwardInput, Kind::BackwardWeight})
          if (does(duty.getTask(), kind))
            functions[{duty.getStage(), kind}].push_back(function);
    return functions;
  }

  /// The function that does a pass; null for the backward pass of a function that has done both. `number`: as of
  /// PassNumbers. Whichever micro-batch comes first begins the sums, the last one ends them.
  func::FuncOp find(const PassFunctions &functions, const timetables::Entry &entry, int64_t number) {
    MicroBatches which = number + 1 == accumulation ? MicroBatches::Last
                         : number == 0              ? MicroBatches::First
                                                    : MicroBatches::Middle;
    auto found = functions.find({entry.stage, entry.kind});
    if (found == functions.end())
      return {};
    for (func::FuncOp function : found->second) {
      MicroBatches its = dutyOf(function).getMicroBatches();
      if (its == MicroBatches::None || bitEnumContainsAny(its, which))
        return function;
    }
    return {};
  }

  int64_t ranks = 1;
  timetables::Timetable planned; ///< of a step
  SmallVector<Attribute> timetables;
};

} // namespace
