#include "test/e2e/mutation/mutations.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/groups.h"
#include "test/runtime/program/manifests.h"
#include "tools/verify/Collectives.h"

#include <algorithm>
#include <set>

namespace dtc::test {

/// Ranks that take part, as the set of axes with their parts.
static std::set<std::string> members(const abi::AxisRefs &refs) {
  std::set<std::string> axes;
  for (const abi::AxisRef &ref : refs)
    axes.insert(ref.axis() + ":" + std::to_string(ref.pre()) + ":" + std::to_string(ref.size()));
  return axes;
}

namespace {
/// Makes the mutants of one collective.
class Mutator {
public:
  Mutator(const abi::Manifest &original, int list, int start, std::vector<Mutant> &mutants)
      : original(original), list(list), start(start), mutants(mutants) {
    const auto &commands = original.lists(list).commands();
    for (wait = start + 1; wait < commands.size(); ++wait)
      if (commands[wait].has_wait() && commands[wait].wait().token() == call().token())
        break;
  }

  void run() {
    erase();
    repeat();
    dropWait();
    // Each non-empty set of whole axes, as bits.
    for (int axes = 1; axes < 1 << original.mesh().axes_size(); ++axes)
      regroup(axes);
  }

private:
  const abi::AxisRefs &axesOf(const abi::Collective &collective) const {
    return verify::groupOf(collective, original).axes();
  }
  const abi::Collective &call() const { return original.lists(list).commands(start).start(); }

  Mutant &add(const std::string &what) {
    const abi::CommandList &commands = original.lists(list);
    return mutants.emplace_back(Mutant{"list '" + commands.name() + "', command " + std::to_string(start) + " (" +
                                           verify::describe(call(), original) + "): " + what,
                                       original, ""});
  }

  google::protobuf::RepeatedPtrField<abi::Command> &commandsOf(Mutant &mutant) const {
    return *mutant.manifest.mutable_lists(list)->mutable_commands();
  }

  void erase() {
    Mutant &mutant = add("deleted");
    if (isStillThere())
      mutant.equivalence = "E8";
    auto &commands = commandsOf(mutant);
    commands.DeleteSubrange(wait, 1);
    commands.DeleteSubrange(start, 1);
  }

  /// Whether an earlier collective of the list was the same, and its result and source have not been written since.
  bool isStillThere() const {
    Range result = resultOf(call()), source = sourceOf(call());
    for (int i = start - 1; i >= 0; --i) {
      const abi::Command &command = original.lists(list).commands(i);
      if (command.has_start()) {
        const abi::Collective &other = command.start();
        if (other.kind() == call().kind() && members(axesOf(other)) == members(axesOf(call())) &&
            resultOf(other) == result && sourceOf(other) == source)
          return true;
        if (resultOf(other).meets(result) || resultOf(other).meets(source))
          return false;
      }
      const abi::Launch &launch = command.launch();
      int outputs = launch.buffers_size() ? int(original.kernels(launch.kernel()).outputs()) : 0;
      for (int buffer = launch.buffers_size() - outputs; buffer < launch.buffers_size(); ++buffer) {
        Range written{launch.buffers(buffer), launch.buffers(buffer) + launch.buffer_bytes(buffer)};
        if (written.meets(result) || written.meets(source))
          return false;
      }
    }
    return false;
  }

  struct Range {
    uint64_t begin, end;
    bool meets(const Range &other) const { return begin < other.end && other.begin < end; }
    bool operator==(const Range &) const = default;
  };
  /// The most that the collective reads or writes: its size times that of its group.
  Range rangeOf(uint64_t begin, const abi::Collective &collective) const {
    uint64_t elements = collective.outer() * std::max<int64_t>(collective.middle(), 1) * collective.chunk();
    for (const abi::AxisRef &axis : axesOf(collective))
      elements *= axis.size();
    return {begin, begin + abi::bytesOf(collective.type(), elements)};
  }
  Range sourceOf(const abi::Collective &collective) const { return rangeOf(collective.input(), collective); }
  Range resultOf(const abi::Collective &collective) const { return rangeOf(collective.output(), collective); }

  void dropWait() { commandsOf(add("wait dropped")).DeleteSubrange(wait, 1); }

  void repeat() {
    Mutant &mutant = add("duplicated");
    auto &commands = commandsOf(mutant);
    abi::Command again = commands[start], waitAgain = commands[wait];
    for (const abi::Command &command : {again, waitAgain})
      *commands.Add() = command;
    // From the end back to right after the first wait.
    std::rotate(commands.pointer_begin() + wait + 1, commands.pointer_end() - 2, commands.pointer_end());
    if (call().input() != call().output())
      mutant.equivalence = "E1";
    else if (call().reduction() == abi::MAX)
      mutant.equivalence = "E2";
  }

  void regroup(int axes) {
    abi::AxisRefs other;
    std::string names;
    for (int axis = 0; axis < original.mesh().axes_size(); ++axis) {
      if (!(axes >> axis & 1))
        continue;
      abi::AxisRef *ref = other.Add();
      ref->set_axis(original.mesh().axes(axis).name());
      ref->set_pre(1);
      ref->set_size(original.mesh().axes(axis).size());
      names += (names.empty() ? "" : ",") + ref->axis();
    }
    std::set<std::string> before = members(axesOf(call())), after = members(other);
    if (before == after)
      return;
    Mutant &mutant = add("over " + names);
    bool larger = std::includes(after.begin(), after.end(), before.begin(), before.end());
    if (larger && call().kind() == abi::Collective::ALL_REDUCE && call().reduction() == abi::MAX)
      mutant.equivalence = "E3";
    uint32_t group = test::findOrAddGroup(mutant.manifest, other);
    commandsOf(mutant)[start].mutable_start()->set_group(group);
  }

  const abi::Manifest &original;
  int list, start, wait;
  std::vector<Mutant> &mutants;
};
} // namespace

std::vector<Mutant> makeMutants(const abi::Manifest &original) {
  std::vector<Mutant> mutants;
  for (int list = 0; list < original.lists_size(); ++list)
    for (int i = 0; i < original.lists(list).commands_size(); ++i)
      if (original.lists(list).commands(i).has_start())
        Mutator(original, list, i, mutants).run();
  return mutants;
}

} // namespace dtc::test
