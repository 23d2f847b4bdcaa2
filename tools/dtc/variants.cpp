// dtc-compile variants: a program's model with other orders of its step, or other buckets, each compiled. dtc tune runs
// it.
#include "runtime/support/error.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/WriteProgram.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace dtc;
using nlohmann::ordered_json;

namespace {

struct VariantOptions {
  std::string program, cluster, folder;
  size_t count = 6;
  uint64_t effort = usualEffort;
};

/// The program's own order, and the orders that are predicted to be the fastest: first those that differ in their step
/// times, then others.
std::vector<RankedPlan> choose(std::vector<RankedPlan> tried, size_t count) {
  std::vector<RankedPlan> chosen = {tried.front()};
  tried.erase(tried.begin());
  std::ranges::stable_sort(tried, {}, &RankedPlan::seconds);
  for (double alike : {1e-3, 0.0})
    for (auto plan = tried.begin(); plan != tried.end() && chosen.size() < count;) {
      bool isAlike = std::ranges::any_of(chosen, [&](const RankedPlan &other) {
        return std::abs(other.seconds - plan->seconds) < alike * plan->seconds;
      });
      if (!isAlike)
        chosen.push_back(std::move(*plan));
      plan = isAlike ? plan + 1 : tried.erase(plan);
    }
  return chosen;
}

/// One line, with the choices in which variants differ.
std::string summaryOf(const Choices &choices) {
  auto shared = std::ranges::count_if(choices.gathers, [](const GatherRule &rule) {
    return std::ranges::find(rule.runs, Gathering::Shared, &GatherRun::how) != rule.runs.end();
  });
  std::string text =
      fmt::format("gather_ahead {}, {} shared, {} moved", choices.gatherAhead, shared, choices.order.size());
  if (!choices.buckets.empty())
    text += fmt::format(", {} kind{} of buckets", choices.buckets.size(), choices.buckets.size() == 1 ? "" : "s");
  for (const std::vector<SplitRule> &rules : {choices.split, choices.splitGradients})
    for (const SplitRule &rule : rules)
      text += fmt::format(", {} in {} parts", rule.pattern, rule.parts);
  return text;
}

ordered_json makeVariants(const VariantOptions &options) {
  abi::Manifest program = readManifest(options.program);
  if (program.model_config_json().empty())
    throw Error(ExitCode::BadInput, options.program + ": was compiled from a model in text, which it does not carry; "
                                                      "compile a model's directory");
  if (program.has_generation())
    throw Error(ExitCode::BadInput, options.program + ": generates and has no step to tune");
  timing::Layout layout = layoutOn(options.cluster, program.mesh());
  std::vector<RankedPlan> tried =
      LoadedModel(program, options.program, "").rankOrders(layout, options.effort, options.count);
  ordered_json variants = ordered_json::array();
  for (RankedPlan &plan : choose(std::move(tried), options.count)) {
    abi::Manifest other = program;
    other.set_choices(printChoices(plan.choices, program.stages_size() > 1));
    std::string path = std::filesystem::path(options.folder) / fmt::format("variant-{}", variants.size());
    writeProgram(LoadedModel(other, options.program, "").compile(), path);
    variants.push_back({{"program", path},
                        {"seconds", plan.seconds},
                        {"choices", other.choices()},
                        {"summary", summaryOf(plan.choices)}});
  }
  return variants;
}

} // namespace

void dtc::addVariants(CLI::App &app) {
  auto [verb, options] =
      addVerb<VariantOptions>(app, "variants", "Programs with other orders of the step; dtc tune asks this.");
  verb->group("");
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  verb->add_option("--cluster", options->cluster, "A cluster file: how long a step takes there")->required();
  verb->add_option("--folder", options->folder, "Where programs are written")->required();
  verb->add_option("--count", options->count, "How many");
  verb->add_option("--schedule-effort", options->effort, "How many plans are looked at");
  verb->callback([options] { printJson({{"variants", makeVariants(*options)}}); });
}
