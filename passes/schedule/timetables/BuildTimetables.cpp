// Says which function of a stage runs when, and in which places of memory; see Passes.td.
#include "passes/schedule/Passes.h"
#include "passes/schedule/Spaces.h"
#include "passes/schedule/TransferFunctions.h"

#include "runtime/abi/timetables.h"
#include "timing/timetables/generators.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_BUILDTIMETABLES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::timing::PassKind;

namespace {

struct Entry {
  func::FuncOp function;
  int64_t microBatch; ///< -1: none
};

/// The spaces in which a function finds, or leaves, what belongs to its micro-batch.
llvm::SmallSetVector<dtc::Space, 4> spacesOf(func::FuncOp function) {
  llvm::SmallSetVector<dtc::Space, 4> spaces;
  auto add = [&](PortAttr port) {
    if (port && port.isOfMicroBatch())
      spaces.insert(dtc::spaceOf(port, /*shared=*/false));
  };
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    add(argumentPort(function, index));
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    add(resultPort(function, index));
  return spaces;
}

/// The timetable of one stage, under construction.
class StageTimetable {
public:
  explicit StageTimetable(const dtc::TransferFunctions &transfers) : transfers(transfers) {}

  void add(func::FuncOp function) { entries.push_back({function, -1}); }

  /// Adds passes in their order, with the transfers between them.
  void addPasses(ArrayRef<Entry> passes) {
    for (size_t i = 0; i < passes.size(); ++i) {
      for (; received < std::min(passes.size(), i + 2); ++received)
        if (func::FuncOp receive = transfers.receiveOf(passes[received].function))
          entries.push_back({receive, passes[received].microBatch});
      if (func::FuncOp sent = transfers.sentOf(passes[i].function)) {
        constexpr size_t mostUnderWay = 2; // one is sent while the next is computed
        if (underWay[sent].size() == mostUnderWay)
          awaitSent(sent);
        underWay[sent].push_back(passes[i].microBatch);
      }
      entries.push_back(passes[i]);
    }
    for (auto &[sent, microBatches] : underWay)
      while (!microBatches.empty())
        awaitSent(sent);
  }

  SmallVector<EntryAttr> build() const {
    std::vector<SmallVector<int64_t>> places = assignPlaces();
    SmallVector<EntryAttr> built;
    for (auto [entry, inSpaces] : llvm::zip_equal(entries, places)) {
      func::FuncOp function = entry.function;
      built.push_back(
          EntryAttr::get(function.getContext(), FlatSymbolRefAttr::get(function), entry.microBatch, inSpaces));
    }
    return built;
  }

private:
  void awaitSent(func::FuncOp sent) {
    std::deque<int64_t> &microBatches = underWay[sent];
    entries.push_back({sent, microBatches.front()});
    microBatches.pop_front();
  }

  /// The place of each entry in each space. What belongs to a micro-batch gets the lowest place that is free from the
  /// entry that makes it to the last that needs it.
  std::vector<SmallVector<int64_t>> assignPlaces() const {
    llvm::MapVector<std::pair<unsigned, int64_t>, SmallVector<size_t>> users; // by space and micro-batch
    for (auto [index, entry] : llvm::enumerate(entries))
      for (dtc::Space space : spacesOf(entry.function))
        users[{space, entry.microBatch}].push_back(index);
    std::vector<SmallVector<int64_t>> places(entries.size());
    std::map<unsigned, SmallVector<size_t>> takenUntil; // for each space's places
    for (const auto &[what, using_] : users) {          // in the order of their first entries
      SmallVector<size_t> &taken = takenUntil[what.first];
      auto *free = llvm::find_if(taken, [&, first = using_.front()](size_t until) { return until < first; });
      int64_t place = free - taken.begin();
      if (free == taken.end())
        taken.push_back(0);
      taken[place] = using_.back();
      for (size_t entry : using_)
        setPlace(places[entry], what.first, place);
    }
    return places;
  }

  static void setPlace(SmallVector<int64_t> &places, unsigned space, int64_t place) {
    auto set = [&](unsigned number) {
      places.resize(std::max<size_t>(places.size(), number + 1), 0);
      places[number] = place;
    };
    set(space);
    if (space == dtc::stashSpace)
      set(dtc::registeredStashSpace);
  }

  const dtc::TransferFunctions &transfers;
  std::vector<Entry> entries;
  size_t received = 0;                                         ///< how many passes' receives have begun
  llvm::MapVector<func::FuncOp, std::deque<int64_t>> underWay; ///< what is being sent, by the function that awaits it
};

struct BuildTimetables : dtc::impl::BuildTimetablesBase<BuildTimetables> {
  using BuildTimetablesBase::BuildTimetablesBase;

  void runOnOperation() override {
    dtc::timing::Generator generate = dtc::timing::findGenerator(std::string(kind));
    if (!generate) {
      getOperation().emitError("unknown timetable '")
          << kind << "'; there are " << llvm::join(dtc::timing::generatorNames(), ", ");
      return signalPassFailure();
    }
    auto cut = getOperation()->getAttrOfType<ArrayAttr>(module_attr::stages);
    int64_t stages = cut ? cut.size() : 1;
    if (accumulation < stages)
      warnOfBubble(stages);
    dtc::TransferFunctions transfers(getOperation());
    SmallVector<Attribute> timetables;
    for (int64_t stage = 0; stage < stages; ++stage) {
      addTimetable(dtc::abi::stepTimetable, stage, transfers, timetables,
                   [&] { return generate(stage, stages, accumulation); });
      addTimetable(dtc::abi::evaluationTimetable, stage, transfers, timetables,
                   [] { return std::vector<dtc::timing::Pass>{{PassKind::Forward, 0}}; });
      for (std::string_view name :
           {dtc::abi::refreshTimetable, dtc::abi::promptTimetable, dtc::abi::generationTimetable})
        addTimetable(name, stage, transfers, timetables, [] { return std::vector<dtc::timing::Pass>(); });
    }
    getOperation()->setAttr(module_attr::timetables, ArrayAttr::get(&getContext(), timetables));
  }

private:
  /// The best of these timetables keeps a stage busy m of m + p - 1 times.
  void warnOfBubble(int64_t stages) {
    constexpr int64_t percent = 100;
    int64_t ticks = accumulation + stages - 1;
    getOperation().emitWarning("a pipeline of ")
        << stages << " stages with " << int64_t(accumulation) << " micro-batch" << (accumulation == 1 ? "" : "es")
        << " a step: its stages stand idle for " << percent * (ticks - accumulation) / ticks
        << " % of the time or more; raise accumulation";
  }

  /// Passes first, then what is done once.
  template <typename Generate>
  void addTimetable(std::string_view name, int64_t stage, const dtc::TransferFunctions &transfers,
                    SmallVectorImpl<Attribute> &timetables, Generate generate) {
    SmallVector<func::FuncOp> passes, others;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function);
          duty && duty.getStage() == stage && duty.getTimetable() == name && duty.getTask() != Task::Transfer)
        (duty.getTask() == Task::Once ? others : passes).push_back(function);
    if (passes.empty() && others.empty())
      return;
    StageTimetable timetable(transfers);
    SmallVector<Entry> entries;
    if (!passes.empty())
      for (const dtc::timing::Pass &pass : generate())
        if (func::FuncOp function = find(passes, pass))
          entries.push_back({function, pass.microBatch});
    timetable.addPasses(entries);
    llvm::for_each(others, [&](func::FuncOp function) { timetable.add(function); });
    timetables.push_back(
        TimetableAttr::get(&getContext(), StringAttr::get(&getContext(), name), stage, timetable.build()));
  }

  /// The function that does a pass; null for the backward pass of a function that has done both.
  func::FuncOp find(ArrayRef<func::FuncOp> functions, const dtc::timing::Pass &pass) const {
    MicroBatches which = pass.microBatch + 1 == accumulation ? MicroBatches::Last
                         : pass.microBatch == 0              ? MicroBatches::First
                                                             : MicroBatches::Middle;
    for (func::FuncOp function : functions) {
      DutyAttr duty = dutyOf(function);
      bool isOfPass =
          pass.kind == PassKind::Forward ? duty.getTask() != Task::Backward : duty.getTask() == Task::Backward;
      bool isForAll = duty.getMicroBatches() == MicroBatches::None;
      if (isOfPass && (isForAll || bitEnumContainsAny(duty.getMicroBatches(), which)))
        return function;
    }
    return {};
  }
};

} // namespace
