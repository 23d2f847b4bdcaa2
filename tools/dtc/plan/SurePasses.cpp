#include "tools/dtc/plan/SurePasses.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "timing/cost/cost.h"
#include "tools/dtc/plan/PlanFloor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace dtc {

double leastSpan(const Producers &producers, const CommandTimes &times) {
  size_t count = producers.size();
  std::vector<double> ends(count);
  std::vector<bool> followsKernel(count); // it is one, or depends on one
  std::vector<std::pair<double, double>> kernels; // the earliest begin, and seconds
  for (size_t number = 0; number < count; ++number) {
    double begin = 0, seconds = times.kernels[number];
    bool follows = false;
    for (size_t before : producers[number]) {
      begin = std::max(begin, ends[before]);
      follows = follows || followsKernel[before];
    }
    if (seconds > 0)
      kernels.emplace_back(begin, seconds);
    else if (follows)
      seconds = times.exchanges[number];
    ends[number] = begin + seconds;
    followsKernel[number] = follows || times.kernels[number] > 0;
  }
  std::ranges::sort(kernels, std::greater<>());
  double span = 0, sum = 0;
  for (const auto &[begin, seconds] : kernels) {
    sum += seconds;
    span = std::max(span, begin + sum);
  }
  return span;
}

namespace {

/// The least that collectives take on the ranks of a mesh.
class LeastCollectives {
public:
  LeastCollectives(const timing::Layout &layout, const abi::Mesh &mesh) : layout(layout), mesh(mesh) {}

  double secondsOf(const FlatMove &move) {
    std::string group = move.group.SerializeAsString();
    auto [entry, isNew] = known.try_emplace({group, move.kind, move.type, move.payload});
    if (!isNew)
      return entry->second;
    double least = std::numeric_limits<double>::infinity();
    for (const timing::Span &span : spansOf(group, move.group))
      least = std::min(least,
                       timing::collectiveCost(layout.cluster(), move.kind, move.payload, span, move.type).seconds);
    return entry->second = std::isfinite(least) ? least : 0;
  }

private:
  /// How groups are spread over the links, each way once.
  const std::vector<timing::Span> &spansOf(const std::string &key, const abi::Group &group) {
    auto [entry, isNew] = spans.try_emplace(key);
    for (int rank = 0; isNew && rank < mesh.ranks(); ++rank) {
      if (!mesh.isMember(rank, group))
        continue;
      Group its = mesh.group(rank, group);
      if (its.self != 0)
        continue;
      timing::Span span = layout.spanOf(std::vector<int64_t>(its.ranks.begin(), its.ranks.end()));
      if (std::ranges::find(entry->second, span) == entry->second.end())
        entry->second.push_back(std::move(span));
    }
    return entry->second;
  }

  const timing::Layout &layout;
  Mesh mesh;
  std::map<std::string, std::vector<timing::Span>> spans;
  std::map<std::tuple<std::string, int, int, double>, double> known;
};

/// Not all of FlatCommand::after is read: some of it only comes before.
Producers producersIn(const FlatFunction &function) {
  Producers producers(function.commands.size());
  for (size_t number = 0; number < producers.size(); ++number) {
    const FlatCommand &command = function.commands[number];
    auto isRead = [&](const FlatResult &result) {
      return std::ranges::any_of(command.operands,
                                 [&](const FlatOperand &operand) { return operand.value == result.value; });
    };
    for (int other : command.after)
      if (auto before = static_cast<size_t>(other);
          before < number && std::ranges::any_of(function.commands[before].results, isRead))
        producers[number].push_back(before);
  }
  return producers;
}

/// Seconds of one run of a function.
struct FunctionSpans {
  plans::StagePasses once; ///< without what is recomputed
  double busy = 0;         ///< of all its kernels
};

/// Works out what a function takes at least on a kind of device.
class FunctionBound {
public:
  FunctionBound(const FlatRole &role, const FlatFunction &function, const timing::Device &device,
                LeastCollectives &collectives)
      : role(role), function(function), device(device), producers(producersIn(function)) {
    findState();
    for (const FlatCommand &command : function.commands) {
      times.kernels.push_back(kernelSeconds(command));
      times.exchanges.push_back(isExchange(command) ? collectives.secondsOf(moveOf(command)) : 0);
    }
  }

  FunctionSpans passes() const {
    std::vector<bool> received = boundTo(FlatCommand::Kind::Await), between = received;
    std::vector<bool> sent = boundTo(FlatCommand::Kind::Send);
    for (size_t number = 0; number < between.size(); ++number)
      between[number] = received[number] && sent[number];
    FunctionSpans passes;
    passes.busy = leastSpan(producers, times);
    passes.once.forward = leastSpan(producers, timesOf(abi::FORWARD, between));
    passes.once.input = leastSpan(producers, timesOf(abi::INPUT_GRADIENT, between));
    // Gradients of weights may be computed while input gradients wait for other ranks.
    double backward = 0;
    for (abi::Direction direction : {abi::INPUT_GRADIENT, abi::WEIGHT_GRADIENT}) {
      CommandTimes some = timesOf(direction, received);
      backward = std::accumulate(some.kernels.begin(), some.kernels.end(), backward);
    }
    passes.once.weight = std::max(0.0, backward - passes.once.input);
    return passes;
  }

private:
  const FlatMove &moveOf(const FlatCommand &command) const { return role.moves[static_cast<size_t>(command.move)]; }
  bool isOfState(const FlatOperand &operand) const { return ofState[static_cast<size_t>(operand.value)]; }
  bool readsOnlyState(const FlatCommand &command) const {
    return !command.operands.empty() &&
           std::ranges::all_of(command.operands, [&](const FlatOperand &operand) { return isOfState(operand); });
  }

  /// As what sums squares for the norm does: before the update or in it, as state is split.
  bool readsGradients(const FlatCommand &command) const {
    return std::ranges::any_of(
        command.operands, [&](const FlatOperand &operand) { return ofWeights[static_cast<size_t>(operand.value)]; });
  }

  /// Values that are made from parameters and gradients alone, whatever moved or converted them, and gradients of
  /// weights.
  void findState() {
    ofState.resize(function.valueBytes.size());
    ofWeights.resize(function.valueBytes.size());
    for (size_t value = 0; value < function.arguments.size(); ++value) {
      Holds holds = role.ports[static_cast<size_t>(function.arguments[value])].holds;
      ofState[value] = holds == Holds::Parameters || holds == Holds::Copies || holds == Holds::Gradients;
    }
    for (const FlatCommand &command : function.commands)
      for (const FlatResult &result : command.results)
        if (result.isRoot) {
          ofState[static_cast<size_t>(result.value)] = readsOnlyState(command);
          ofWeights[static_cast<size_t>(result.value)] = isOfWeights(command);
        }
  }

  /// Of a kernel, in every relative.
  double kernelSeconds(const FlatCommand &command) const {
    bool isOfPasses = command.isAgain || command.direction == abi::FORWARD ||
                      command.direction == abi::INPUT_GRADIENT || command.direction == abi::WEIGHT_GRADIENT;
    if (command.kind != FlatCommand::Kind::Launch || !isOfPasses)
      return 0;
    bool isProduct = command.work.kind() == abi::Work::PRODUCT || command.work.kind() == abi::Work::ATTENTION;
    return command.isLibrary && isProduct ? productSeconds(command) : otherSeconds(command);
  }

  static bool isOfWeights(const FlatCommand &command) {
    return command.direction == abi::WEIGHT_GRADIENT && !command.isAgain;
  }
  static double bytesOf(const abi::Work &work) {
    return static_cast<double>(work.bytes_read()) + static_cast<double>(work.bytes_written());
  }

  /// A gradient may be added up in place, with one operation for each element, which has two bytes or more.
  double productSeconds(const FlatCommand &command) const {
    const abi::Work &work = command.work;
    if (!isOfWeights(command))
      return timing::kernelSeconds(device, {work.kind(), command.type, work.flops(), bytesOf(work)});
    double flops = work.flops() - static_cast<double>(work.bytes_written()) / 2;
    return leastKernelSeconds(device, work.kind(), command.type, std::max(0.0, flops));
  }

  double otherSeconds(const FlatCommand &command) const {
    const abi::Work &work = command.work;
    bool isMove = work.kind() == abi::Work::MOVEMENT || work.kind() == abi::Work::INDEXED;
    bool isSumForWeights = work.kind() == abi::Work::REDUCTION && !readsGradients(command);
    if (isMove || readsOnlyState(command) || (isOfWeights(command) && !isSumForWeights))
      return 0;
    double state = 0;
    for (const FlatOperand &operand : command.operands)
      state += isOfState(operand) ? static_cast<double>(function.valueBytes[static_cast<size_t>(operand.value)]) : 0;
    bool mayJoin = command.formula != 0, isWhole = state == 0 && !isOfWeights(command);
    if (isWhole && !mayJoin)
      return timing::kernelSeconds(device, {work.kind(), command.type, work.flops(), bytesOf(work)});
    // What is read of a gradient is also written; and conversions of what is read are operations, too.
    double bytes = isOfWeights(command) ? static_cast<double>(work.bytes_read()) : bytesOf(work);
    double seconds = leastKernelSeconds(device, work.kind(), command.type, isWhole ? work.flops() : 0,
                                        std::max(0.0, bytes - 2 * state));
    return seconds - (mayJoin ? device.launch_seconds() : 0);
  }

  /// Of activations. Rows that are looked up elsewhere, and the numbers of these rows, move only where state is split.
  bool isExchange(const FlatCommand &command) const {
    if (command.kind != FlatCommand::Kind::Start || command.move < 0 || command.mayJoin || readsOnlyState(command))
      return false;
    const FlatMove &move = moveOf(command);
    return (command.direction == abi::FORWARD || command.direction == abi::INPUT_GRADIENT) &&
           move.kind != abi::Collective::ALL_TO_ALL && abi::elementType(move.type).isFloating();
  }

  /// With those kernels alone that are of a direction and in a set, and recompute nothing.
  CommandTimes timesOf(abi::Direction direction, const std::vector<bool> &set) const {
    CommandTimes some = times;
    for (size_t number = 0; number < producers.size(); ++number)
      if (const FlatCommand &command = function.commands[number];
          !set[number] || command.isAgain || command.direction != direction)
        some.kernels[number] = 0;
    return some;
  }

  /// The commands that depend on all that the function receives and reads, or on which all depends that it sends. What
  /// it does before and behind may overlap with what other ranks do.
  std::vector<bool> boundTo(FlatCommand::Kind kind) const {
    std::vector<bool> all(producers.size(), true);
    for (size_t transfer = 0; transfer < producers.size(); ++transfer) {
      if (function.commands[transfer].kind != kind)
        continue;
      bool isReceived = kind == FlatCommand::Kind::Await;
      std::vector<bool> reached = isReceived ? dependentsOf(transfer) : ancestorsOf(transfer);
      if (isReceived && std::ranges::count(reached, true) == 1)
        continue; // nobody reads it
      for (size_t number = 0; number < all.size(); ++number)
        all[number] = all[number] && reached[number];
    }
    return all;
  }

  std::vector<bool> dependentsOf(size_t first) const {
    std::vector<bool> reached(producers.size());
    reached[first] = true;
    for (size_t number = first + 1; number < producers.size(); ++number)
      for (size_t before : producers[number])
        reached[number] = reached[number] || reached[before];
    return reached;
  }

  std::vector<bool> ancestorsOf(size_t last) const {
    std::vector<bool> reached(producers.size());
    reached[last] = true;
    for (size_t number = last + 1; number-- > 0;)
      if (reached[number])
        for (size_t before : producers[number])
          reached[before] = true;
    return reached;
  }

  const FlatRole &role;
  const FlatFunction &function;
  const timing::Device &device;
  Producers producers;
  std::vector<bool> ofState, ofWeights; ///< by value
  CommandTimes times;
};

/// Adds the stages of a role, on its device, and returns the seconds of its step.
double addStages(const FlatRole &role, const timing::Device &device, LeastCollectives &collectives,
                 std::map<int64_t, plans::StagePasses> &least) {
  std::vector<FunctionSpans> functions;
  for (const FlatFunction &function : role.functions)
    functions.push_back(FunctionBound(role, function, device, collectives).passes());
  double busy = 0;
  std::map<std::pair<int64_t, int64_t>, plans::StagePasses> each; // by stage and micro-batch
  for (const FlatEntry &entry : role.step) {
    const FunctionSpans &passes = functions[static_cast<size_t>(entry.function)];
    busy += passes.busy;
    if (entry.microBatch < 0)
      continue;
    plans::StagePasses &sum = each[{role.functions[static_cast<size_t>(entry.function)].stage, entry.microBatch}];
    sum.forward += passes.once.forward;
    sum.input += passes.once.input;
    sum.weight += passes.once.weight;
  }
  for (const auto &[key, sum] : each) {
    plans::StagePasses &of = least.try_emplace(key.first, sum).first->second;
    of = {std::min(of.forward, sum.forward), std::min(of.input, sum.input), std::min(of.weight, sum.weight)};
  }
  return busy;
}

} // namespace

void addPasses(const Plan &plan, const timing::Layout &layout, const abi::Mesh &mesh, plans::Evaluated &evaluated) {
  std::vector<const timing::Device *> devices = devicesOf(layout);
  if (plan.roles.size() > 1 && devices.size() > 1)
    return;
  LeastCollectives collectives(layout, mesh);
  std::map<int64_t, plans::StagePasses> stages;
  for (const timing::Device *device : devices)
    for (const PlannedRole &planned : plan.roles)
      evaluated.busy = std::max(evaluated.busy, addStages(*planned.role, *device, collectives, stages));
  for (const auto &[stage, passes] : stages)
    evaluated.passes.push_back(passes);
}

} // namespace dtc
