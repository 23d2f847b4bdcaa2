// The cost of a planner's questions: user seconds of this process, by getrusage, one line of JSON.
//
//   plan_bench MODEL MESH BATCH SEQUENCE ORDERS
//
// `first`: from the model's file to the first plan. Of that `load` reads the file, `place` is *what* and *where*, which
// a planner runs once, `lower` the rest. `again`: another order of the same commands, the median and the maximum over
// ORDERS different ones. `gathers`: other gathers, so that *keep* and *how* are run once more.
#include "frontends/Frontend.h"
#include "mlir/IR/DialectRegistry.h"
#include "passes/pipelines/search/Planner.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/resource.h>

using namespace dtc;

static double userSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

/// Seconds since the last question.
static double lap() {
  static double before = 0;
  double now = userSeconds();
  return now - std::exchange(before, now);
}

/// Rules each of which starts one class of collectives, in all layers, only when it is waited for.
static std::vector<OrderRule> findRules(const PlannedRole &role) {
  std::vector<OrderRule> rules;
  std::vector<std::string> seen;
  for (const FlatFunction &function : role.role->functions)
    for (size_t number = 0; number + 1 < function.commands.size(); ++number) {
      const FlatCommand &command = function.commands[number];
      if (command.kind != FlatCommand::Kind::Start || command.users.empty() || !command.stages.isEmpty())
        continue;
      const FlatCommand &wait = function.commands[command.users.front()];
      std::string known = function.name + command.name;
      if (wait.layers != command.layers || std::find(seen.begin(), seen.end(), known) != seen.end())
        continue;
      seen.push_back(known);
      rules.push_back({function.name, command.name, true, wait.name, wait.layer - command.layer, ""});
    }
  return rules;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fmt::print(stderr, "plan_bench MODEL MESH BATCH SEQUENCE ORDERS\n");
    return 2;
  }
  size_t orders = std::strtoul(argv[5], nullptr, 10);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::DialectRegistry registry;
  registerFrontendDialects(registry);
  context.appendDialectRegistry(registry);
  Model model = load(argv[1], {std::atoll(argv[3]), std::atoll(argv[4]), 0.1, {}}, context);
  double loading = lap();
  CompileOptions options;
  options.where.mesh = argv[2];
  options.where.strategy = "megatron";
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  if (!planner)
    return 1;
  double placing = lap();
  Choices choices;
  mlir::FailureOr<Plan> first = planner->plan(choices);
  if (failed(first))
    return 1;
  double lowering = lap();

  std::vector<OrderRule> rules = findRules(first->roles.front());
  std::vector<double> again;
  for (size_t i = 0; i < orders && !rules.empty(); ++i) {
    choices.order = {rules[i % rules.size()]};
    (void)lap();
    mlir::FailureOr<Plan> plan = planner->plan(choices);
    if (failed(plan))
      return 1;
    again.push_back(lap());
  }
  std::sort(again.begin(), again.end());
  choices = {};
  choices.gatherAhead = 3;
  (void)lap();
  if (failed(planner->plan(choices)))
    return 1;
  double gathers = lap();
  size_t commands = 0;
  for (const FlatFunction &function : first->roles.front().role->functions)
    commands += function.commands.size();
  fmt::print("{{\"load\": {:.4f}, \"place\": {:.4f}, \"lower\": {:.4f}, \"first\": {:.4f}, \"again\": {:.4f}, "
             "\"again_most\": {:.4f}, \"gathers\": {:.4f}, \"classes\": {}, \"commands\": {}, \"arena\": {}}}\n",
             loading, placing, lowering, loading + placing + lowering, again.empty() ? 0 : again[again.size() / 2],
             again.empty() ? 0 : again.back(), gathers, rules.size(), commands, first->roles.front().arena.bytes);
  return 0;
}
