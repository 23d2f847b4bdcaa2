#include "tools/dtc/plan/PlanCommands.h"

#include "timing/cluster/extents.h"
#include "tools/dtc/OtherVerbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace dtc {

std::string targetFor(const timing::Cluster &cluster) {
  if (cluster.nodes_size() == 0 || timing::isOfProcessors(cluster.nodes(0)))
    return "cpu:native";
  constexpr std::pair<std::string_view, const char *> known[] = {{"H100", "cuda:sm_90"},
                                                                 {"H200", "cuda:sm_90"},
                                                                 {"GH200", "cuda:sm_90"},
                                                                 {"B200", "cuda:sm_100"},
                                                                 {"B100", "cuda:sm_100"}};
  for (const auto &[name, target] : known)
    if (cluster.nodes(0).device().find(name) != std::string::npos)
      return target;
  return "cuda:sm_80";
}

std::string compileCommand(const CommandWords &words, const plans::Candidate &plan) {
  std::vector<std::string> all = {"dtc",           "compile",    words.model,        "--mesh",
                                  plan.meshText(), "--strategy", plan.strategyText()};
  auto add = [&](const char *option, const std::string &value) {
    if (!value.empty())
      all.insert(all.end(), {option, value});
  };
  if (plan.sizeOf("pp") > 1)
    add("--timetable", plan.timetable);
  add("--config", words.configFile);
  for (const std::string &assignment : words.assignments)
    add("--set", assignment);
  add("--set", fmt::format("accumulation={}", plan.microBatches));
  add("--set", "recompute=" + plan.recompute);
  add("--target", words.target == "cpu:native" ? "" : words.target); // the default
  add("--memory-limit", words.memoryLimit > 0 ? std::to_string(words.memoryLimit) : "");
  if (!words.choicesFile.empty())
    all.insert(all.end(), {"--choices", words.choicesFile, "--schedule-effort", "1"});
  add("--cluster", words.cluster);
  add("-o", programNameFor(words.model));
  std::vector<std::string> quoted;
  quoted.reserve(all.size());
  std::ranges::transform(all, std::back_inserter(quoted), shellWord);
  return fmt::format("{}", fmt::join(quoted, " "));
}

/// How many nodes the plan's ranks fill, and how many ranks are on the fullest.
static std::pair<int64_t, int64_t> nodesOf(const plans::Problem &problem) {
  const timing::Cluster &cluster = problem.cluster;
  if (timing::isOfProcessors(cluster.nodes(0))) { // in equal blocks
    int64_t nodes = std::min(timing::nodeCount(cluster), problem.devices);
    int64_t each = (problem.devices + nodes - 1) / nodes;
    return {(problem.devices + each - 1) / each, each};
  }
  int64_t left = problem.devices, count = 0, most = 0;
  for (const timing::Nodes &nodes : cluster.nodes()) {
    if (left <= 0)
      break;
    int64_t each = nodes.devices(), used = std::min<int64_t>(nodes.count(), (left + each - 1) / each);
    most = std::max(most, std::min(each, left));
    left -= used * each;
    count += used;
  }
  return {count, most};
}

std::string runCommand(const CommandWords &words, const plans::Problem &problem) {
  constexpr int64_t fewHosts = 4;
  std::string program = shellWord(programNameFor(words.model));
  std::string data = words.data.empty() ? "FILE" : shellWord(words.data);
  auto [nodes, each] = nodesOf(problem);
  if (nodes == 1)
    return fmt::format("dtc run {} --data {}", program, data);
  if (nodes > fewHosts)
    return fmt::format("DTC_TOKEN=$(openssl rand -hex 32) srun --nodes={} --ntasks={} --ntasks-per-node={} ./{} --data "
                       "{}",
                       nodes, problem.devices, each, program, data);
  std::vector<std::string> hosts;
  for (int64_t node = 0, left = problem.devices; node < nodes; ++node, left -= each)
    hosts.push_back(fmt::format("node{}:{}", node + 1, std::min(each, left)));
  return fmt::format("dtc run --hosts {} {} --data {}", fmt::join(hosts, ","), program, data);
}

} // namespace dtc
