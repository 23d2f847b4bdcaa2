// The places of memory in which the entries of a timetable work.
#include "passes/schedule/timetables/PlacedEntries.h"

#include "passes/analysis/Stages.h"

#include "dialect/IR/Names.h"
#include "llvm/ADT/MapVector.h"

#include <functional>
#include <map>
#include <queue>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

std::set<OwnedSpace> ownedBy(func::FuncOp function) {
  std::set<OwnedSpace> spaces;
  auto add = [&](PortAttr port) {
    if (port && port.isOfMicroBatch())
      spaces.insert({spaceOf(port, /*shared=*/false), ownerOf(function, port)});
  };
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    add(argumentPort(function, index));
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    add(resultPort(function, index));
  return spaces;
}

/// Sets the place, or the number of turns, in a space.
static void setPlace(SmallVector<int64_t> &places, Space space, int64_t place) {
  auto set = [&](unsigned number) {
    places.resize(std::max<size_t>(places.size(), number + 1), 0);
    places[number] = place;
  };
  set(space);
  if (isStash(space))
    set(space + 1);
}

namespace {
/// The places of a space.
class Places {
public:
  /// Takes the lowest place that is free, from the entry `first` to the entry `last`. Calls come in the order of
  /// `first`.
  int64_t take(size_t first, size_t last) {
    for (; !taken.empty() && taken.top().first < first; taken.pop())
      free.push(taken.top().second);
    if (free.empty())
      free.push(count++);
    int64_t place = free.top();
    free.pop();
    taken.emplace(last, place);
    return place;
  }

private:
  template <typename T> using LowestFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;
  LowestFirst<std::pair<size_t, int64_t>> taken; ///< the last entry that needs each, and the place
  LowestFirst<int64_t> free;
  int64_t count = 0;
};
} // namespace

static std::vector<SmallVector<int64_t>> assignPlaces(ArrayRef<RunEntry> entries) {
  llvm::MapVector<std::tuple<Space, int64_t, int64_t>, SmallVector<size_t, 3>> users; // of each micro-batch
  DenseMap<func::FuncOp, std::set<OwnedSpace>> owned; // many entries run one function
  for (auto [index, entry] : llvm::enumerate(entries)) {
    auto [known, isNew] = owned.try_emplace(entry.function);
    if (isNew)
      known->second = ownedBy(entry.function);
    for (auto [space, stage] : known->second)
      users[{space, stage, entry.microBatch}].push_back(index);
  }
  std::vector<SmallVector<int64_t>> places(entries.size());
  std::map<unsigned, Places> ofSpaces;
  for (const auto &[what, using_] : users) { // in the order of their first entries
    Space space = std::get<0>(what);
    int64_t place = ofSpaces[space].take(using_.front(), using_.back());
    for (size_t entry : using_)
      setPlace(places[entry], space, place);
  }
  return places;
}

SmallVector<EntryAttr> placeEntries(ArrayRef<RunEntry> entries) {
  SmallVector<EntryAttr> built;
  DenseMap<func::FuncOp, FlatSymbolRefAttr> names; // many entries run one function
  for (auto [entry, places] : llvm::zip_equal(entries, assignPlaces(entries))) {
    func::FuncOp function = entry.function;
    FlatSymbolRefAttr &name = names[function];
    if (!name)
      name = FlatSymbolRefAttr::get(function);
    built.push_back(EntryAttr::get(function.getContext(), name, entry.microBatch, /*step=*/0, places,
                                   /*turns=*/{}));
  }
  return built;
}

//===----------------------------------------------------------------------===//
// Steps that overlap
//===----------------------------------------------------------------------===//

static int64_t stepOf(const RunEntry &entry) { return entry.microBatch >= 0 ? entry.microBatch : entry.step; }

/// In how many places of each space steps take turns: the fewest with which a step that begins there comes behind the
/// last entry that needs the place. `steps`: those whose entries are all there.
static std::map<Space, int64_t> turnsOf(ArrayRef<RunEntry> entries, int64_t firstStep, int64_t endStep) {
  std::map<Space, std::map<int64_t, std::pair<size_t, size_t>>> uses; // by step: the first and the last entry
  for (auto [index, entry] : llvm::enumerate(entries))
    for (auto [space, stage] : ownedBy(entry.function))
      uses[space].try_emplace(stepOf(entry), index, index).first->second.second = index;
  std::map<Space, int64_t> turns;
  for (const auto &[space, ofSteps] : uses) {
    int64_t &most = turns[space] = 1;
    for (int64_t step = firstStep; step < endStep; ++step)
      for (auto later = ofSteps.find(step + most);
           later != ofSteps.end() && later->second.first <= ofSteps.at(step).second; later = ofSteps.find(step + most))
        ++most;
  }
  return turns;
}

FailureOr<SmallVector<EntryAttr>> placePeriod(ArrayRef<RunEntry> entries, size_t first, size_t second,
                                              int64_t running) {
  size_t count = second - first;
  for (size_t index = first; index < second; ++index)
    if (index + count >= entries.size() || entries[index].function != entries[index + count].function ||
        stepOf(entries[index]) + 1 != stepOf(entries[index + count]) || stepOf(entries[index]) < running) {
      func::FuncOp function = entries[index].function;
      return function.emitError("runs for step ") << stepOf(entries[index]) << " where step " << running
                                                  << " is the running one, and not one step later in the "
                                                  << "next; steps that overlap must repeat";
    }
  std::map<Space, int64_t> turns = turnsOf(entries, running, running + 2);
  SmallVector<EntryAttr> built;
  for (const RunEntry &entry : entries.slice(first, count)) {
    SmallVector<int64_t> own;
    for (auto [space, stage] : ownedBy(entry.function))
      if (int64_t several = turns.at(space); several > 1)
        setPlace(own, space, several);
    func::FuncOp function = entry.function;
    built.push_back(EntryAttr::get(function.getContext(), FlatSymbolRefAttr::get(function),
                                   entry.microBatch >= 0 ? 0 : -1, stepOf(entry) - running, /*places=*/{}, own));
  }
  return built;
}

} // namespace dtc
