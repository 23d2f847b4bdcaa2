// The validator's part for "redo", which undoes an update that came too early and updates once more.
//
// It knows a copy by what a command touches: it reads one range and writes another of the same size. What kernels
// compute is trusted.
#include "runtime/abi/outputs.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/ranges.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

namespace {

using abi::TimetableEntry;

struct Range {
  uint64_t begin = 0, bytes = 0;
  uint64_t end() const { return begin + bytes; }
};

bool isGradient(const abi::Tensor &tensor) {
  return tensor.kind() == abi::Tensor::GRADIENT || tensor.kind() == abi::Tensor::REDUCED_GRADIENT;
}

/// What the exchange tells, from which a redo updates.
bool isTold(const abi::Tensor &tensor) {
  constexpr std::array told = {abi::output::lossSum.name, abi::output::tokenCount.name, abi::output::gradientNorm.name,
                               abi::output::updateHolds.name};
  return tensor.kind() == abi::Tensor::OUTPUT && std::ranges::find(told, tensor.name()) != told.end();
}

/// What a command touches.
struct Touched {
  std::vector<Range> reads, writes;
  bool isCopy() const { return reads.size() == 1 && writes.size() == 1 && reads[0].bytes == writes[0].bytes; }
};

class RedoChecker {
public:
  RedoChecker(const abi::Manifest &manifest, const abi::Role &role);

  void check() {
    findKept();
    for (int i = update; i < step.period_size(); ++i)
      follow(step, step.period(i));
    for (const TimetableEntry &entry : redo.period()) {
      follow(redo, entry);
      restore(entry);
    }
    requireRestored();
    requireRunAgain();
  }

private:
  [[noreturn]] void refuse(const std::string &why) const {
    refuseProgram(fmt::format("role '{}': its redo {}", role.name(), why));
  }
  const std::vector<Touched> &touchedBy(const TimetableEntry &entry);
  bool changesState(const TimetableEntry &entry);
  std::string nameAt(Range range, bool (*isWanted)(const abi::Tensor &)) const;
  void findKept();
  void follow(const abi::Timetable &timetable, const TimetableEntry &entry);
  void restore(const TimetableEntry &entry);
  void requireRestored() const;
  void requireRunAgain() const;

  const abi::Manifest &manifest;
  const abi::Role &role;
  const abi::Timetable &step, &redo;
  std::map<std::string_view, const abi::CommandList *> lists;
  std::map<std::string_view, std::vector<Touched>> touched; ///< by lists
  Ranges state, gradients, told;
  int update = 0;                 ///< the first entry of a step that writes state
  std::map<uint64_t, Range> kept; ///< of state, before it: what is copied, by address of the copy
  Ranges keeping;                 ///< the copies
  Ranges changed;                 ///< of state, by a step, from the update on
  Ranges restored, written;       ///< of state, by the redo
};

RedoChecker::RedoChecker(const abi::Manifest &manifest, const abi::Role &role)
    : manifest(manifest), role(role), step(abi::timetableOf(role, abi::stepTimetable)),
      redo(abi::timetableOf(role, abi::redoTimetable)) {
  for (const abi::CommandList &list : manifest.lists())
    lists.emplace(list.name(), &list);
  for (const abi::Tensor &tensor : role.tensors()) {
    uint64_t begin = tensor.address(), end = begin + abi::bytesOf(tensor);
    if (abi::isKept(tensor))
      state.add(begin, end);
    else if (isGradient(tensor))
      gradients.add(begin, end);
    else if (isTold(tensor))
      told.add(begin, end);
  }
}

const std::vector<Touched> &RedoChecker::touchedBy(const TimetableEntry &entry) {
  auto [known, isNew] = touched.try_emplace(entry.list());
  if (isNew)
    for (const abi::Command &command : lists.at(entry.list())->commands()) {
      Touched &each = known->second.emplace_back();
      abi::forEachRange(
          manifest, command,
          [&](uint64_t begin, uint64_t bytes) {
            each.reads.push_back({begin, bytes});
          },
          [&](uint64_t begin, uint64_t bytes) {
            each.writes.push_back({begin, bytes});
          });
    }
  return known->second;
}

bool RedoChecker::changesState(const TimetableEntry &entry) {
  return std::ranges::any_of(touchedBy(entry), [&](const Touched &each) {
    return std::ranges::any_of(each.writes, [&](Range range) { return state.overlaps(range.begin, range.end()); });
  });
}

/// The name of a tensor that a range touches, for messages.
std::string RedoChecker::nameAt(Range range, bool (*isWanted)(const abi::Tensor &)) const {
  for (const abi::Tensor &tensor : role.tensors())
    if (isWanted(tensor) && tensor.address() < range.end() && range.begin < tensor.address() + abi::bytesOf(tensor))
      return tensor.slot().empty() ? tensor.name() : tensor.slot() + " of " + tensor.name();
  return "?";
}

/// Finds where a step begins to change the state, and which copies it has made by then.
void RedoChecker::findKept() {
  while (update < step.period_size() && !changesState(step.period(update)))
    ++update;
  for (int i = 0; i < update; ++i)
    if (!step.period(i).has_micro_batch())
      for (const Touched &each : touchedBy(step.period(i)))
        if (each.isCopy() && state.overlaps(each.reads[0].begin, each.reads[0].end())) {
          kept[each.writes[0].begin] = each.reads[0];
          keeping.add(each.writes[0].begin, each.writes[0].end());
        }
}

/// Follows what an entry changes. It leaves alone what a redo reads.
void RedoChecker::follow(const abi::Timetable &timetable, const TimetableEntry &entry) {
  auto fail = [&](const std::string &what) {
    refuse(fmt::format("reads {}, which {} of its {} has written over", what, abi::describeEntry(timetable, entry),
                       timetable.name()));
  };
  bool isRedo = &timetable == &redo;
  for (const Touched &each : touchedBy(entry))
    for (Range range : each.writes) {
      if (gradients.overlaps(range.begin, range.end()))
        fail("the gradient of '" + nameAt(range, isGradient) + "'");
      if (isRedo && told.overlaps(range.begin, range.end()))
        fail("the output '" + nameAt(range, isTold) + "'");
      if (keeping.overlaps(range.begin, range.end()))
        fail("the copy of the state");
      if (state.overlaps(range.begin, range.end()))
        (isRedo ? written : changed).add(range.begin, range.end());
    }
}

/// Follows what an entry of the redo restores, and what of the state it reads.
void RedoChecker::restore(const TimetableEntry &entry) {
  for (const Touched &each : touchedBy(entry)) {
    if (each.isCopy())
      if (auto from = kept.find(each.reads[0].begin); from != kept.end() &&
                                                      from->second.begin == each.writes[0].begin &&
                                                      from->second.bytes == each.writes[0].bytes)
        restored.add(each.writes[0].begin, each.writes[0].end());
    for (Range range : each.reads)
      for (auto [begin, end] : changed)
        if (uint64_t from = std::max(begin, range.begin), to = std::min(end, range.end()); from < to)
          restored.forEachGap(from, to, [&](uint64_t gap, uint64_t until) {
            if (nameAt({gap, until - gap}, abi::isState) != "?") // copies are made of parameters
              refuse(fmt::format("reads '{}' in {} before it is as it was", nameAt({gap, until - gap}, abi::isState),
                                 abi::describeEntry(redo, entry)));
          });
  }
}

void RedoChecker::requireRestored() const {
  for (const abi::Tensor &tensor : role.tensors())
    if (abi::isKept(tensor))
      for (auto [first, last] : changed) {
        uint64_t begin = std::max(first, tensor.address()),
                 end = std::min(last, tensor.address() + abi::bytesOf(tensor));
        if (begin < end)
          (abi::isCopy(tensor) ? written : restored).forEachGap(begin, end, [&](uint64_t gap, uint64_t until) {
            refuse(fmt::format("does not restore '{}', which a step changes before it knows whether it may",
                               nameAt({gap, until - gap}, abi::isKept)));
          });
      }
}

/// Passes that have read what is undone must run again.
void RedoChecker::requireRunAgain() const {
  auto isPass = [&](const TimetableEntry &entry) {
    return entry.step() > 0 && lists.at(entry.list())->duty() == abi::CommandList::FORWARD_PASS;
  };
  for (const TimetableEntry &entry : step.period()) {
    auto isSame = [&](const TimetableEntry &other) {
      return isPass(other) && other.list() == entry.list() && other.stage() == entry.stage() &&
             other.micro_batch() == entry.micro_batch() && other.step() == entry.step() &&
             abi::instanceOf(other) == abi::instanceOf(entry);
    };
    if (isPass(entry) && std::ranges::none_of(redo.period(), isSame))
      refuse(fmt::format("does not run {} again, which has computed with an update that is undone",
                         abi::describeEntry(step, entry)));
  }
}

} // namespace

void validateRedo(const abi::Manifest &manifest, const abi::Role &role) {
  bool tells = std::ranges::any_of(role.tensors(), [](const abi::Tensor &tensor) {
    return tensor.kind() == abi::Tensor::OUTPUT && tensor.name() == abi::output::updateHolds.name;
  });
  bool redoes = abi::mayRedo(role);
  if (redoes != abi::mayRedo(manifest.roles(0)))
    refuseProgram(fmt::format("role '{}' {} timetable '{}', and role '{}' {}", role.name(), redoes ? "has a" : "has no",
                              abi::redoTimetable, manifest.roles(0).name(), redoes ? "has none" : "has one"));
  if (redoes != tells)
    refuseProgram(fmt::format("role '{}' {} timetable '{}' {} the output '{}', which says whether it is needed",
                              role.name(), redoes ? "has a" : "has no", abi::redoTimetable,
                              redoes ? "without" : "and has", abi::output::updateHolds.name));
  if (redoes)
    RedoChecker(manifest, role).check();
}

} // namespace dtc
