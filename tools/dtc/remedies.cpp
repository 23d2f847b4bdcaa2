// dtc-compile remedies: which annotations would remove a program's collectives, and at what cost. dtc explain runs it.
// Each annotation that the collectives propose is tried: the program's model is compiled with it, and it is a remedy
// only if the collective is gone, a rank sends less in a step, and hardly works more.
#include "runtime/abi/resolve.h"
#include "runtime/support/error.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StepWork.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/CollectiveTimes.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <set>

using namespace dtc;
using nlohmann::ordered_json;

namespace {

/// At most this many times the work: a rank that repeats the work of others to save a message makes those others
/// useless.
constexpr double mostWork = 1.25;

/// What identifies a collective across compilations of its model, with its place in this one.
struct Place {
  std::string list;
  int command;
  std::string identity, remedy;
};

std::vector<Place> placesOf(const abi::Manifest &manifest) {
  std::vector<Place> places;
  for (const abi::Role &role : manifest.roles())
    for (const abi::CommandList &list : abi::Resolver(manifest, role).all())
      for (int i = 0; i < list.commands_size(); ++i)
        if (const abi::Command &command = list.commands(i); command.has_start()) {
          const abi::Collective &collective = command.start();
          const abi::Group &group = manifest.groups(static_cast<int>(collective.group()));
          std::string identity =
              fmt::format("{} {} {} {} {} {}", role.name(), list.name(), kindText(collective),
                          groupText(group, manifest.mesh()), locationText(manifest, command), collective.value());
          places.push_back({list.name(), i, identity, collective.remedy()});
        }
  return places;
}

/// The cost of a step, each as the highest of all ranks; and how long it takes on a cluster, if one is named.
struct Cost {
  double sent = 0, flops = 0;
  uint64_t arena = 0;
  double seconds = 0;

  Cost(const abi::Manifest &program, const timing::Layout *layout)
      : seconds(layout ? CollectiveTimes(program, *layout).stepSeconds() : 0) {
    for (const abi::Role &role : program.roles()) {
      CommandTotals step = sumOfStep(program, role);
      sent = std::max(sent, step.sent);
      flops = std::max(flops, step.flops);
      arena = std::max<uint64_t>(arena, role.arena_bytes());
    }
  }
  ordered_json json() const {
    return {{"sent_bytes", sent}, {"flops", flops}, {"arena_bytes", arena}, {"seconds", seconds}};
  }
};

/// The annotations that collectives propose, each for all layers at once, with the collectives that propose it.
std::map<std::string, std::vector<Place>> proposals(const abi::Manifest &program) {
  LayerNames layers(program);
  std::map<std::string, std::vector<Place>> proposed;
  for (const Place &place : placesOf(program))
    if (!place.remedy.empty())
      proposed[layers.generalise(place.remedy).text].push_back(place);
  return proposed;
}

/// The program of the model with one more annotation; nothing where it cannot be compiled that way.
std::optional<CompiledProgram> compileWith(const abi::Manifest &program, const std::string &path,
                                           const std::string &entry) {
  try {
    return LoadedModel(program, path, "", entry).compile(/*generateCode=*/false);
  } catch (const Error &) {
    return std::nullopt;
  }
}

std::set<std::string> identities(const abi::Manifest &manifest) {
  std::set<std::string> all;
  for (const Place &place : placesOf(manifest))
    all.insert(place.identity);
  return all;
}

/// What the proposal removes and costs; null where it is no remedy.
ordered_json tryRemedy(const abi::Manifest &program, const std::string &path, const std::string &entry,
                       const std::vector<Place> &proposers, const Cost &now, const timing::Layout *layout) {
  std::optional<CompiledProgram> changed = compileWith(program, path, entry);
  if (!changed)
    return nullptr;
  Cost then(changed->manifest, layout);
  if (then.sent >= now.sent || then.flops > mostWork * now.flops)
    return nullptr;
  std::set<std::string> left = identities(changed->manifest);
  ordered_json removed = ordered_json::array();
  for (const Place &place : proposers)
    if (!left.contains(place.identity))
      removed.push_back({place.list, place.command});
  return {{"remedy", entry}, {"cost", then.json()}, {"removes", removed}};
}

ordered_json findRemedies(const std::string &path, const std::string &cluster) {
  abi::Manifest program = readManifest(path);
  std::optional<timing::Layout> layout;
  if (!cluster.empty())
    layout = layoutOn(cluster, program.mesh());
  if (program.model_config_json().empty())
    return {{"problem", "the program was compiled from a model in text, which it does not carry"}};
  CompiledProgram same = LoadedModel(program, path, "").compile(/*generateCode=*/false);
  if (identities(same.manifest) != identities(program))
    return {{"problem", "this dtc would compile the model to other collectives; compile it again"}};
  const timing::Layout *onCluster = layout ? &*layout : nullptr;
  Cost now(same.manifest, onCluster);
  ordered_json answer = {{"cost", now.json()}, {"remedies", ordered_json::array()}};
  for (const auto &[entry, proposers] : proposals(program))
    if (ordered_json remedy = tryRemedy(program, path, entry, proposers, now, onCluster); !remedy.is_null())
      answer["remedies"].push_back(remedy);
  return answer;
}

} // namespace

void dtc::addRemedies(CLI::App &app) {
  auto path = std::make_shared<std::string>(), cluster = std::make_shared<std::string>();
  CLI::App *verb = app.add_subcommand("remedies", "Which annotations would remove collectives; dtc explain asks this.");
  verb->group("");
  verb->add_option("PROGRAM", *path, "What dtc compile wrote")->required();
  verb->add_option("--cluster", *cluster, "A cluster file: how long a step takes there, too");
  verb->callback([path, cluster] {
    ordered_json answer;
    try {
      answer = findRemedies(*path, *cluster);
    } catch (const Error &error) {
      answer = {{"problem", error.what()}};
    }
    printJson(answer);
  });
}
