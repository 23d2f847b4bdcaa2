#include "tools/dtc/plan/PlanOptions.h"

#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "timing/cluster/extents.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/plan/ClusterSize.h"
#include "tools/dtc/plan/PlanCommands.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtc {

/// Of a setting that a plan decides, the dimension that it fixes; empty for any other.
static std::string dimensionOfSetting(std::string_view assignment) {
  std::string_view key = assignment.substr(0, assignment.find('='));
  key = key.substr(key.find_last_of('.') == std::string_view::npos ? 0 : key.find_last_of('.') + 1);
  if (key == "accumulation")
    return "micro-batches";
  return key == "recompute" ? "recompute" : "";
}

static std::string checkDevices(const std::string &text) {
  if (text == allDevicesWord || text == leastDevicesWord)
    return "";
  std::vector<std::string> parts = CLI::detail::split(text, ',');
  auto isCount = [](const std::string &part) {
    int64_t count;
    return parseWhole(part, count) && count >= 1;
  };
  if (!parts.empty() && !text.ends_with(',') && std::ranges::all_of(parts, isCount))
    return "";
  return fmt::format(
      "'{}' is no number of devices; write for example 64, or 64,128, or {} for the fewest that hold the "
      "model, or {} for those of the cluster",
      text, leastDevicesWord, allDevicesWord);
}

std::vector<int64_t> parseDevices(const std::string &text) {
  std::vector<int64_t> numbers;
  for (const std::string &part : CLI::detail::split(text, ','))
    parseWhole(part, numbers.emplace_back());
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  return numbers;
}

void requireDevices(const timing::Cluster &cluster, int64_t devices) {
  int64_t all = deviceCount(cluster);
  bool areProcessors = std::ranges::all_of(cluster.nodes(), timing::isOfProcessors);
  if (devices > all && !areProcessors)
    throw Error(
        ExitCode::BadInput,
        fmt::format("--devices {}: the cluster '{}' has {}: write a number up to that, or raise nodes[{}].count "
                    "in the cluster file",
                    devices, cluster.name(), all, cluster.nodes_size() - 1));
}

static void addSearchOptions(CLI::App &verb, PlanVerbOptions &options) {
  verb.add_option("--devices", options.devices,
                  "How many devices a plan uses, all of them: a number, several as in 64,128, least (the fewest that "
                  "hold the model), or all that the cluster has")
      ->check(CLI::Validator(checkDevices, "", ""))
      ->type_name("COUNT,...")
      ->capture_default_str();
  takeRepeated(
      verb.add_option("--fix", options.fixed, "What every plan has, as in --fix tp=8 or --fix zero3; may be repeated"),
      "WHAT");
  takeRepeated(verb.add_option("--forbid", options.forbidden,
                               "What no plan has, as in --forbid zero3 or --forbid pp=8; may be repeated"),
               "WHAT");
  verb.add_option("--allow", options.allowed, "Also try plans that compute something else: asynchronous (PipeDream)")
      ->check(CLI::IsMember({"asynchronous"}));
  verb.add_option("--margin", options.margin, "The share of a device's memory that stays free, for what is not planned")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  takeSize(verb.add_option("--memory-limit", options.memoryLimit,
                           "The most bytes that a rank's arena may have, as in 16GB or 512MiB"));
  verb.add_option("--effort", options.effort, "The most candidates that are simulated for a number of devices")
      ->check(atLeast(1))
      ->type_name("COUNT")
      ->capture_default_str();
  verb.add_option("--refine", options.refine,
                  "How many orders are tried for each plan that is shown; 0: plans are shown as they were found, with "
                  "even cuts")
      ->check(atLeast(0))
      ->type_name("COUNT")
      ->capture_default_str();
}

static void addGoal(CLI::App &verb, PlanVerbOptions &options) {
  CLI::Option *tokens = verb.add_option("--tokens", options.goal.tokens,
                                        "How many tokens the training takes, as in 300e9: plans say how long that is")
                            ->check(positiveNumber());
  verb.add_option("--days", options.goal.days, "In how many days: which plans, and which number of devices, keep that")
      ->check(positiveNumber())
      ->needs(tokens);
  verb.add_option("--price", options.goal.price, "What a device costs an hour: plans say what the training costs")
      ->check(positiveNumber())
      ->needs(tokens);
}

void addPlanOptions(CLI::App &verb, PlanVerbOptions &options) {
  verb.add_option("MODEL", options.model, "A directory with a config.json, or a .mlir file")->required();
  verb.add_option("--cluster", options.cluster, "The cluster file (docs/clusters.md; 'dtc calibrate' writes one)")
      ->required();
  verb.add_option("--config", options.configFile,
                  "Training settings (TOML); a plan decides accumulation and recompute");
  takeRepeated(verb.add_option("--set", options.assignments,
                               "A training setting, as in --set global_batch=512; may be repeated. accumulation and "
                               "recompute are then fixed"),
               "KEY=VALUE");
  addSearchOptions(verb, options);
  addGoal(verb, options);
  verb.add_option("--target", options.target,
                  "Processor or GPU that programs are for, as for 'dtc compile'; by default what the cluster has")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(targetNames), std::end(targetNames))));
  verb.add_option("--data", options.data,
                  "The token file that the second command names; the lengths of its documents are looked at");
  verb.add_option("-o,--output", options.output,
                  "Write the choices of the proposed plan to this file, which the first command then names");
  verb.add_flag("--front", options.front,
                "Also show the plans that no other is better than in memory, time and devices; for one number of "
                "devices also with a half, a quarter ... of them");
  verb.add_option("--report", options.report, "Write a page with that front to this file (HTML)");
  verb.add_flag("--json", options.json, "Answer for a program");
}

/// `fix`: the same as --fix takes it. Throws Error (Usage), which names the setting.
static plans::Constraint fixedBySetting(const std::string &assignment, const std::string &fix) {
  std::string given = "--set " + assignment;
  if (fix == "recompute=auto")
    throw Error(ExitCode::Usage, given + ": a plan decides what is recomputed; leave it out");
  try {
    plans::Constraint fixed = plans::parseConstraint(fix, /*isFixed=*/true);
    fixed.text = given;
    return fixed;
  } catch (const Error &error) {
    std::string text = error.what(), named = "--fix " + fix;
    throw Error(error.exitCode(), text.starts_with(named) ? given + text.substr(named.size()) : given + ": " + text);
  }
}

void completeOptions(PlanVerbOptions &options, const timing::Cluster &cluster) {
  for (const std::string &text : options.fixed)
    options.constraints.push_back(plans::parseConstraint(text, /*isFixed=*/true));
  for (const std::string &text : options.forbidden)
    options.constraints.push_back(plans::parseConstraint(text, /*isFixed=*/false));
  for (const std::string &assignment : options.assignments) {
    std::string dimension = dimensionOfSetting(assignment);
    size_t equals = assignment.find('=');
    if (dimension.empty() || equals == std::string::npos) {
      options.given.push_back(assignment);
      continue;
    }
    options.constraints.push_back(fixedBySetting(assignment, dimension + assignment.substr(equals)));
  }
  if (options.target.empty())
    options.target = targetFor(cluster);
}

} // namespace dtc
