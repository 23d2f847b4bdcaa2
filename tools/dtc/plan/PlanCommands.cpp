#include "tools/dtc/plan/PlanCommands.h"

#include "timing/cluster/extents.h"
#include "tools/dtc/OtherVerbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
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

/// Of each node that has any. Ranks fill nodes in their order.
static std::vector<int64_t> ranksOfNodes(const plans::Problem &problem) {
  abi::Mesh mesh;
  abi::Axis &axis = *mesh.add_axes();
  axis.set_name("dp");
  axis.set_size(problem.devices);
  timing::Layout layout(problem.cluster, mesh);
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    if (rank == 0 || layout.nodeOf(rank) != layout.nodeOf(rank - 1))
      ranks.push_back(0);
    ++ranks.back();
  }
  return ranks;
}

std::string runCommand(const CommandWords &words, const plans::Problem &problem) {
  constexpr size_t fewHosts = 4;
  std::string program = shellWord(programNameFor(words.model));
  std::string data = words.data.empty() ? "FILE" : shellWord(words.data);
  std::vector<int64_t> nodes = ranksOfNodes(problem);
  if (nodes.size() == 1)
    return fmt::format("dtc run {} --data {}", program, data);
  if (nodes.size() > fewHosts && std::ranges::count(nodes, nodes.front()) == std::ssize(nodes))
    return fmt::format("DTC_TOKEN=$(openssl rand -hex 32) srun --nodes={} --ntasks={} --ntasks-per-node={} ./{} --data "
                       "{}",
                       nodes.size(), problem.devices, nodes.front(), program, data);
  std::vector<std::string> hosts;
  for (int64_t ranks : nodes)
    hosts.push_back(fmt::format("node{}:{}", hosts.size() + 1, ranks));
  return fmt::format("dtc run --hosts {} {} --data {}", fmt::join(hosts, ","), program, data);
}

std::vector<std::string> commandNotes(const CommandWords &words, const plans::Problem &problem) {
  std::vector<std::string> notes;
  if (words.data.empty())
    notes.emplace_back("FILE: a token file, as 'dtc data pack' writes it");
  if (std::string run = runCommand(words, problem); run.find(" --hosts ") != std::string::npos)
    notes.emplace_back("node1, ...: the names of your hosts; they share this folder, or have copies of the program and "
                       "the data");
  else if (run.find(" srun ") != std::string::npos)
    notes.emplace_back("srun: within an allocation, as of sbatch, in a folder that its nodes share");
  if (words.choicesFile.empty())
    notes.emplace_back("with -o FILE the first command takes the plan's own cut, recomputation, order and buckets; "
                       "without it 'dtc compile' looks for its own");
  return notes;
}

} // namespace dtc
