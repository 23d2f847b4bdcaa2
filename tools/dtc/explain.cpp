// dtc explain: why every collective of a program is there.
#include "runtime/comm/mesh.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

using namespace dtc;
using nlohmann::ordered_json;

namespace {

struct ExplainOptions {
  std::string program;
  bool json = false;
};

/// One collective of a list, with everything a reader wants to know.
struct Explanation {
  const abi::Collective *collective;
  std::string list, location, axes;
  std::vector<int> group; ///< the ranks that rank 0 meets
  uint32_t channel = 0;   ///< on which they meet
  int64_t timesAStep = 0; ///< 0: outside the training step, as in evaluation
  double payload = 0;     ///< bytes of the value
  double sent = 0;        ///< bytes a rank sends each time
};

std::vector<Explanation> explainRole(const abi::Manifest &manifest, const abi::Role &role) {
  Mesh mesh(manifest.mesh());
  std::vector<Explanation> all;
  for (const abi::CommandList &list : role.lists()) {
    int64_t times = std::count_if(role.step().begin(), role.step().end(),
                                  [&](const abi::TimetableEntry &entry) { return entry.list() == list.name(); });
    for (const abi::Command &command : list.commands()) {
      if (!command.has_start())
        continue;
      const abi::Collective &collective = command.start();
      const abi::Group &members = manifest.groups(static_cast<int>(collective.group()));
      Group group = mesh.group(0, members.axes());
      bool located = command.location() < static_cast<uint32_t>(manifest.locations_size()) &&
                     !manifest.locations(command.location()).empty();
      all.push_back({&collective, list.name(), located ? manifest.locations(command.location()) : "the whole step",
                     axesText(members.axes(), manifest.mesh()), group.ranks, members.channel(), times,
                     payloadBytes(collective, group.size()), sentBytes(collective, group.size())});
    }
  }
  return all;
}

std::string timesText(int64_t times) {
  return times == 0 ? "not in the training step" : fmt::format("{} time{} a step", times, times == 1 ? "" : "s");
}

std::string headline(const Explanation &each) {
  return fmt::format("{} over {} at {} ({})", kindText(each.collective->kind()), each.axes, each.location, each.list);
}

std::string details(const Explanation &each) {
  std::string text;
  auto out = std::back_inserter(text);
  if (!each.collective->value().empty())
    fmt::format_to(out, "  value   {}\n", each.collective->value());
  fmt::format_to(out, "  why     {}\n", each.collective->reason());
  fmt::format_to(out, "  group   {} ranks, such as {{{}}}, on channel {}\n", each.group.size(),
                 fmt::join(each.group, ", "), each.channel);
  fmt::format_to(out, "  volume  {} ({:.0f} bytes), of which a rank sends {}; {}\n", bytesText(each.payload),
                 each.payload, bytesText(each.sent), timesText(each.timesAStep));
  if (!each.collective->remedy().empty())
    fmt::format_to(out, "  remedy  {}\n", each.collective->remedy());
  return text;
}

/// Collectives that differ only in their layer once.
void print(const std::vector<Explanation> &all, const LayerNames &layers) {
  std::vector<std::string> texts;
  for (const Explanation &each : all)
    texts.push_back(headline(each) + "\n" + details(each));
  for (const FoldedText &folded : layers.fold(texts)) {
    size_t line = folded.text.find('\n');
    sayHeading(folded.text.substr(0, line));
    say("\n");
    if (folded.count > 1)
      say("  layers  {}{} collectives like this\n", folded.layers.empty() ? "" : folded.layersText() + ": ",
          folded.count);
    say("{}", folded.text.substr(line + 1));
  }
}

/// What one step sends, by kind and axes.
void printTotals(const std::vector<Explanation> &all) {
  struct Total {
    int64_t count = 0;
    double sent = 0;
  };
  std::map<std::string, Total> totals;
  for (const Explanation &each : all) {
    Total &total = totals[kindText(each.collective->kind()) + " over " + each.axes];
    total.count += each.timesAStep;
    total.sent += each.sent * static_cast<double>(each.timesAStep);
  }
  say("In one step a rank takes part in\n");
  for (const auto &[what, total] : totals)
    say("  {:>6} {:<32} sending {}\n", total.count, what, bytesText(total.sent));
  if (totals.empty())
    say("  no collective\n");
}

ordered_json toJson(const Explanation &each) {
  return {{"kind", kindText(each.collective->kind())},
          {"list", each.list},
          {"location", each.location},
          {"axes", each.axes},
          {"group", each.group},
          {"channel", each.channel},
          {"value", each.collective->value()},
          {"reason", each.collective->reason()},
          {"remedy", each.collective->remedy()},
          {"bytes", each.payload},
          {"sent_bytes", each.sent},
          {"times_per_step", each.timesAStep}};
}

void explain(const ExplainOptions &options) {
  abi::Manifest manifest = readManifest(options.program);
  LayerNames layers(manifest);
  ordered_json collectives = ordered_json::array();
  for (const abi::Role &role : manifest.roles()) {
    std::vector<Explanation> all = explainRole(manifest, role);
    if (options.json) {
      for (const Explanation &each : all)
        collectives.push_back(toJson(each));
    } else {
      print(all, layers);
      printTotals(all);
    }
  }
  if (options.json)
    printJson({{"collectives", collectives}});
}

} // namespace

void dtc::addExplain(CLI::App &app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App *verb = app.add_subcommand(
      "explain", "Say of every collective where in the model it is, why it is there, who takes part and what it moves, "
                 "and which annotation would remove it.");
  verb->footer("\n  dtc explain gpt\n"
               "  dtc explain gpt --json | jq '.collectives[] | select(.kind == \"all_gather\").reason'\n");
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options] { explain(*options); });
}
