// Tries candidates, and keeps what helps.
#include "passes/pipelines/search/SearchOrder.h"
#include "passes/pipelines/search/PlannedStep.h"
#include "passes/schedule/order/Order.h"
#include "passes/schedule/order/OrderCandidates.h"
#include "timing/events/simulate.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace dtc {

namespace {

/// A change that is kept must gain this share of the step: less is not worth a rule.
constexpr double leastGain = 0.001;
/// Starts for which ranks wait a smaller share of the step are left alone.
constexpr double leastExposed = 0.002;
/// The most candidates that are tried for each start.
constexpr size_t mostCandidates = 12;

/// Plans, each with its time and its memory.
struct Tried {
  Plan plan;
  timing::Step step;
  timing::Simulated simulated;
  uint64_t arena = 0;
};

class OrderSearch {
public:
  OrderSearch(Planner &planner, const timing::Layout &layout, const SearchLimits &limits)
      : planner(planner), layout(layout), limits(limits) {}

  FailureOr<SearchedOrder> run(const Choices &given) {
    best = given;
    std::optional<Tried> simple = evaluate(given);
    if (!simple)
      return failure();
    current = std::move(*simple);
    memory = limits.memory ? limits.memory : current.arena + current.arena / 16;
    result.before = current.simulated.seconds;
    result.tried.push_back({given, result.before});
    if (given.split.empty())
      searchSplits();
    if (given.splitGradients.empty())
      searchSplitGradients();
    if (planner.gathersState()) {
      searchShared();
      searchAhead();
    }
    while (improveOrder()) {
    }
    result.choices = best;
    result.after = current.simulated.seconds;
    result.isComplete = plans < limits.effort;
    if (result.tried.size() < limits.enough)
      tryBuckets();
    result.plans = plans;
    return result;
  }

private:
  bool mayTry() const { return plans < limits.effort; }

  std::optional<Tried> evaluate(const Choices &choices) {
    ++plans;
    FailureOr<Plan> plan = planner.plan(choices);
    if (failed(plan))
      return std::nullopt;
    Tried tried{std::move(*plan), {}, {}, 0};
    for (const PlannedRole &role : tried.plan.roles)
      tried.arena = std::max(tried.arena, role.arena.bytes);
    tried.step = plannedStep(tried.plan, planner.mesh());
    tried.simulated = timing::simulate(tried.step, layout);
    return tried;
  }

  /// Nothing if choices lead to no plan, or to one that takes too much memory.
  std::optional<Tried> tryOut(const Choices &choices) {
    ScopedDiagnosticHandler quiet(planner.context(), [](Diagnostic &) { return success(); });
    std::optional<Tried> tried = evaluate(choices);
    return tried && tried->arena <= memory ? std::move(tried) : std::nullopt;
  }

  bool isNew(const Choices &choices) { return known.insert(printChoices(choices, /*isPipeline=*/true)).second; }

  /// Whether these choices are better; then the search continues from them.
  bool accept(const Choices &choices) {
    if (!mayTry() || !isNew(choices))
      return false;
    std::optional<Tried> tried = tryOut(choices);
    if (!tried)
      return false;
    result.tried.push_back({choices, tried->simulated.seconds});
    if (tried->simulated.seconds > current.simulated.seconds * (1 - leastGain))
      return false;
    best = choices;
    current = std::move(*tried);
    return true;
  }

  /// Whether a start moves something on the way through the layers, which the next of them needs.
  static bool isOnTheWay(const FlatFunction &function, const FlatCommand &start) {
    return !start.layers.empty() && (start.direction == abi::FORWARD || start.direction == abi::INPUT_GRADIENT) &&
           gatheredPort(function, start) < 0;
  }

  /// Tries to do layers that wait on the way in parts of the batch, in more of them as long as something is gained.
  void searchSplits() {
    std::set<std::string> classes;
    for (const Waited &waited : waitedFor()) {
      const FlatFunction &function = current.plan.roles[waited.role].role->functions[waited.function];
      if (const FlatCommand &start = function.commands[waited.start.command]; isOnTheWay(function, start))
        classes.insert(start.layers + ".*");
    }
    for (const std::string &layers : classes)
      searchParts(&Choices::split, layers);
  }

  void searchParts(std::vector<SplitRule> Choices::*rules, const std::string &pattern) {
    bool gains = true;
    for (int64_t parts = 2; gains && parts <= mostParts; parts *= 2) {
      Choices choices = best;
      llvm::erase_if(choices.*rules, [&](const SplitRule &rule) { return rule.pattern == pattern; });
      (choices.*rules).push_back({pattern, parts, ""});
      gains = accept(choices);
    }
  }

  /// Tries to split the largest gradient outside the layers, which is mostly the first that is made: until then nothing
  /// moves.
  void searchSplitGradients() {
    double most = 0;
    std::string parameter;
    for (const PlannedRole &role : current.plan.roles)
      for (const FlatFunction &function : role.role->functions)
        for (FlatReturn gradient : function.returned)
          if (role.role->ports[gradient.port].holds == Holds::Gradients)
            if (double sent = sentFor(function, gradient.value); sent > most) {
              most = sent;
              parameter = role.role->ports[gradient.port].name;
            }
    if (most > 0)
      searchParts(&Choices::splitGradients, parameter);
  }

  /// What the largest sum over ranks sends from which a gradient outside the layers is made; 0 if there is none.
  /// Between the two there may be padding, conversions or additions of rows.
  static double sentFor(const FlatFunction &function, int gradient) {
    double most = 0;
    std::set<int> seen;
    std::vector<int> open{gradient};
    while (!open.empty()) {
      int value = open.back();
      open.pop_back();
      if (function.isArgument(value) || !seen.insert(value).second)
        continue;
      const FlatCommand &made = function.commands[function.definedBy[value]];
      if (!made.layers.empty() || (made.direction != abi::UPDATE && made.direction != abi::WEIGHT_GRADIENT))
        continue;
      if (made.kind == FlatCommand::Kind::Start)
        most = std::max(most, made.direction == abi::UPDATE ? made.sent : 0);
      else
        for (const FlatOperand &operand : made.operands)
          open.push_back(operand.value);
    }
    return most;
  }

  /// Parameters that are gathered more than once in a list, as patterns; those that move most come first.
  std::vector<std::string> gatheredAgain() const {
    std::map<std::string, double> sent;
    for (const PlannedRole &role : current.plan.roles)
      for (const FlatFunction &function : role.role->functions) {
        std::set<int> seen;
        for (const FlatCommand &command : function.commands)
          if (int port = gatheredPort(function, command); port >= 0 && !seen.insert(port).second)
            sent[patternOf(role.role->ports[port].name, command)] += command.sent;
      }
    std::vector<std::string> patterns;
    for (const auto &[pattern, bytes] : sent)
      patterns.push_back(pattern);
    llvm::sort(patterns,
               [&](const std::string &a, const std::string &b) { return std::tie(sent[b], a) < std::tie(sent[a], b); });
    return patterns;
  }

  /// The port whose state a start moves, or whose state alone what it moves is made from; -1: something else.
  static int gatheredPort(const FlatFunction &function, const FlatCommand &start) {
    if (start.kind != FlatCommand::Kind::Start)
      return -1;
    int value = start.operands.front().value;
    while (!function.isArgument(value)) {
      const FlatCommand &made = function.commands[function.definedBy[value]];
      if (made.operands.size() != 1 || made.kind != FlatCommand::Kind::Launch)
        return -1;
      value = made.operands.front().value;
    }
    return function.arguments[value];
  }

  /// "h.*.mlp.c_fc.weight" from "h.3.mlp.c_fc.weight", which is read in layer 3 of h.
  static std::string patternOf(llvm::StringRef name, const FlatCommand &reader) {
    if (std::string layer = reader.layers + "." + std::to_string(reader.layer) + "."; name.consume_front(layer))
      return reader.layers + ".*." + name.str();
    return name.str();
  }

  /// Tries to gather only once what is gathered again, where memory allows.
  void searchShared() {
    for (const std::string &pattern : gatheredAgain()) {
      Choices choices = best;
      choices.gathers.push_back({pattern, {{Gathering::Shared}}, ""});
      accept(choices);
    }
  }

  /// Tries to begin gathers further ahead, until nothing is gained twice in a row.
  void searchAhead() {
    int without = 0;
    for (uint64_t more = best.gatherAhead + 1; without < 2 && more <= mostAhead; more += 1 + more / 3) {
      Choices choices = best;
      choices.gatherAhead = more;
      without = accept(choices) ? 0 : without + 1;
    }
  }

  /// The starts that are waited for, by role, function and name, the longest waiting first.
  struct Waited {
    size_t role, function;
    ExposedStart start;
    double most = 0; ///< of its layers
  };
  std::vector<Waited> waitedFor() const {
    std::vector<std::pair<size_t, size_t>> places; // of lists
    for (size_t role = 0; role < current.plan.roles.size(); ++role)
      for (size_t function = 0; function < current.plan.roles[role].role->functions.size(); ++function)
        places.push_back({role, function});
    std::map<std::tuple<size_t, size_t, std::string>, Waited> all;
    for (const timing::ClassTimes &times : current.simulated.classes)
      for (const timing::Exposed &exposed : times.exposed) {
        auto [role, function] = places[exposed.list];
        const FlatCommand &command = current.plan.roles[role].role->functions[function].commands[exposed.command];
        if (command.kind != FlatCommand::Kind::Start || exposed.moving <= 0)
          continue;
        Waited &waited =
            all.try_emplace({role, function, command.name}, Waited{role, function, {-1, 0, 0}}).first->second;
        waited.start.seconds += exposed.moving;
        waited.start.times += exposed.times;
        if (exposed.moving > waited.most) {
          waited.most = exposed.moving;
          waited.start.command = static_cast<int>(exposed.command);
        }
      }
    std::vector<Waited> sorted;
    for (auto &[key, waited] : all)
      if (waited.start.seconds > leastExposed * current.simulated.seconds)
        sorted.push_back(std::move(waited));
    llvm::sort(sorted, [](const Waited &a, const Waited &b) {
      return std::tie(b.start.seconds, a.role, a.function, a.start.command) <
             std::tie(a.start.seconds, b.role, b.function, b.start.command);
    });
    return sorted;
  }

  /// Goes through what is waited for until something helps. Returns false if nothing does.
  bool improveOrder() {
    for (const Waited &waited : waitedFor()) {
      const PlannedRole &role = current.plan.roles[waited.role];
      const timing::Device &device = layout.deviceOf(firstRankOf(waited.role));
      OrderCandidates candidates(role.role->functions[waited.function], role.orders[waited.function],
                                 [&](const FlatCommand &launch) { return launchSeconds(device, launch); });
      size_t tried = 0;
      for (const std::vector<OrderRule> &rules : candidates.of(waited.start)) {
        if (!mayTry() || ++tried > mostCandidates)
          break;
        if (acceptRules(rules))
          return mayTry();
      }
    }
    return false;
  }

  bool acceptRules(const std::vector<OrderRule> &rules) {
    Choices choices = best;
    choices.order.insert(choices.order.end(), rules.begin(), rules.end());
    // What can be seen to be impossible costs no plan.
    std::vector<const FlatRole *> roles;
    for (const PlannedRole &role : current.plan.roles)
      roles.push_back(role.role.get());
    std::vector<std::vector<FlatOrder>> orders;
    return applyOrder(choices.order, roles, orders).empty() && accept(choices);
  }

  /// Tries the best choices with buckets of other sizes, which they name. In simulation few are better; in measurements
  /// any may be.
  void tryBuckets() {
    using abi::BucketSize;
    constexpr uint64_t Megabyte = 1'000'000;
    auto named = [](Choices choices, const Plan &plan) {
      choices.buckets = plan.buckets;
      choices.bucketSize = {};
      return choices;
    };
    isNew(named(best, current.plan));
    std::vector<BucketSize> sizes{{BucketSize::Kind::Auto}, {BucketSize::Kind::None}};
    for (uint64_t megabytes : {1, 5, 25, 100})
      sizes.push_back({BucketSize::Kind::Bytes, megabytes * Megabyte});
    for (BucketSize size : sizes) {
      if (!mayTry())
        return;
      Choices choices = best;
      choices.buckets.clear();
      choices.bucketSize = size;
      std::optional<Tried> tried = tryOut(choices);
      if (!tried)
        continue;
      if (choices = named(choices, tried->plan); isNew(choices))
        result.tried.push_back({choices, tried->simulated.seconds});
    }
  }

  int64_t firstRankOf(size_t role) const {
    const std::vector<int> &roleOf = current.step.roleOf;
    return std::find(roleOf.begin(), roleOf.end(), static_cast<int>(role)) - roleOf.begin();
  }

  static double launchSeconds(const timing::Device &device, const FlatCommand &launch) {
    const abi::Work &work = launch.work;
    return timing::kernelSeconds(device,
                                 {work.kind(), launch.type, work.flops(),
                                  static_cast<double>(work.bytes_read()) + static_cast<double>(work.bytes_written())});
  }

  static constexpr uint64_t mostAhead = 16;
  static constexpr int64_t mostParts = 8;

  Planner &planner;
  const timing::Layout &layout;
  SearchLimits limits;
  uint64_t memory = 0, plans = 0;
  std::set<std::string> known; ///< what was tried
  Choices best;
  Tried current; ///< of the best
  SearchedOrder result;
};

} // namespace

FailureOr<SearchedOrder> searchOrder(Planner &planner, const Choices &given, const timing::Layout &layout,
                                     const SearchLimits &limits) {
  return OrderSearch(planner, layout, limits).run(given);
}

} // namespace dtc
