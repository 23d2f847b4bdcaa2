// The places of memory in which the entries of a timetable work.
#include "passes/schedule/timetables/PlacedEntries.h"

#include "passes/analysis/Stages.h"

#include "dialect/IR/Names.h"
#include "llvm/ADT/MapVector.h"

#include <map>

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

static void setPlace(SmallVector<int64_t> &places, Space space, int64_t place) {
  auto set = [&](unsigned number) {
    places.resize(std::max<size_t>(places.size(), number + 1), 0);
    places[number] = place;
  };
  set(space);
  if (space == stashSpace)
    set(registeredStashSpace);
}

static std::vector<SmallVector<int64_t>> assignPlaces(ArrayRef<RunEntry> entries) {
  llvm::MapVector<std::tuple<Space, int64_t, int64_t>, SmallVector<size_t>> users; // of each micro-batch
  DenseMap<func::FuncOp, std::set<OwnedSpace>> owned; // many entries run one function
  for (auto [index, entry] : llvm::enumerate(entries)) {
    auto [known, isNew] = owned.try_emplace(entry.function);
    if (isNew)
      known->second = ownedBy(entry.function);
    for (auto [space, stage] : known->second)
      users[{space, stage, entry.microBatch}].push_back(index);
  }
  std::vector<SmallVector<int64_t>> places(entries.size());
  std::map<unsigned, SmallVector<size_t>> takenUntil; // for each space's places
  for (const auto &[what, using_] : users) {          // in the order of their first entries
    Space space = std::get<0>(what);
    SmallVector<size_t> &taken = takenUntil[space];
    auto *free = llvm::find_if(taken, [&, first = using_.front()](size_t until) { return until < first; });
    int64_t place = free - taken.begin();
    if (free == taken.end())
      taken.push_back(0);
    taken[place] = using_.back();
    for (size_t entry : using_)
      setPlace(places[entry], space, place);
  }
  return places;
}

SmallVector<EntryAttr> placeEntries(ArrayRef<RunEntry> entries) {
  SmallVector<EntryAttr> built;
  for (auto [entry, places] : llvm::zip_equal(entries, assignPlaces(entries))) {
    func::FuncOp function = entry.function;
    built.push_back(EntryAttr::get(function.getContext(), FlatSymbolRefAttr::get(function), entry.microBatch, places));
  }
  return built;
}

} // namespace dtc
