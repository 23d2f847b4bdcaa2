// dtc inspect: what is in a program.
#include "passes/choices/PipelineTimetable.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/timetables.h"
#include "runtime/config/training_config.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/PeerMemory.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StepWork.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/MadeAgain.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>

using namespace dtc;
using nlohmann::ordered_json;

static constexpr const char *inspectFooter =
    "\nExamples:\n"
    "  $ dtc inspect gpt\n"
    "  $ dtc inspect gpt --cluster examples/clusters/h100x8.textproto\n"
    "  $ dtc inspect gpt --memory\n"
    "  $ dtc inspect gpt --json | jq .roles[0].memory\n"
    "  $ dtc inspect gpt --choices > choices.toml\n";

namespace {

struct InspectOptions {
  std::string program, cluster;
  bool json = false, choices = false, memory = false;
};

/// How often each kind of command occurs in a list.
struct CommandCounts {
  int64_t launches = 0, collectives = 0, transfers = 0, waits = 0;

  explicit CommandCounts(const abi::CommandList &list) {
    for (const abi::Command &command : list.commands()) {
      launches += command.has_launch();
      collectives += command.has_start();
      transfers += command.has_send() || command.has_recv();
      waits += command.has_wait();
    }
  }
};

/// How often all lists together launch each kernel.
std::vector<int64_t> countLaunches(const abi::Manifest &manifest) {
  std::vector<int64_t> launches(manifest.kernels_size(), 0);
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (command.has_launch() && command.launch().kernel() < launches.size())
        ++launches[command.launch().kernel()];
  return launches;
}

// For people

void printHead(const abi::Manifest &manifest) {
  const abi::Training &training = manifest.training();
  say("Model       {}: {} parameters in {} tensors; {}\n", manifest.model_name(), totalParameters(manifest),
      manifest.parameters_size(),
      manifest.model_directory().empty() ? "seeded initialisation" : "weights of " + manifest.model_directory());
  say("Sizes      ");
  for (const abi::Symbol &symbol : manifest.symbols())
    say(" {} {}", symbol.name(), symbol.size());
  say("\nMesh        {}: {}; strategy {}\n", meshText(manifest.mesh()), ranksText(Mesh(manifest.mesh()).ranks()),
      manifest.strategy());
  say("Target      {} ({})\n", manifest.target(), fmt::join(manifest.target_features(), " "));
  say("Certificate {}\n",
      manifest.has_certificate() ? "no deadlock: " + certificateText(manifest.certificate()) : "none");
  if (manifest.has_generation()) {
    const abi::Generation &sizes = manifest.generation();
    say("Generation  {} row{} of {} positions, a prompt's read {} at a time; products in {}\n", sizes.rows(),
        sizes.rows() == 1 ? "" : "s", sizes.capacity(), sizes.prompt(), training.compute());
    return;
  }
  say("Training    {} steps of {} samples in {} micro-batch{}; {}, learning rate {}, {} schedule\n", training.steps(),
      training.global_batch(), training.accumulation(), training.accumulation() == 1 ? "" : "es", training.optimizer(),
      training.learning_rate(), training.schedule());
  say("Work        {:.4g} flops a token\n", manifest.flops_per_token());
}

/// One line per section.
void printSettings(const abi::Training &training) {
  sayHeading("\nSettings\n");
  std::string section;
  for (const SettingValue &setting : listSettings(training)) {
    if (setting.section == section)
      say(", ");
    else
      say("{}  {:<14}", section.empty() ? "" : "\n", setting.section);
    say("{} = {}", setting.key, setting.value);
    section = setting.section;
  }
  say("\n");
}

/// The file that dtc compile --choices reads.
void printChoices(const abi::Manifest &manifest) {
  sayHeading("\nChoices\n");
  std::istringstream lines(manifest.choices());
  for (std::string line; std::getline(lines, line);)
    say("{}{}\n", line.empty() ? "" : "  ", line);
}

/// The cost of a step for a rank, by the part of the step.
void printWork(const abi::Manifest &manifest, const abi::Role &role) {
  if (manifest.has_generation())
    return;
  sayHeading("\nWork of a step");
  say("{:>18}{:>14}{:>14}{:>14}{:>14}\n", "launches", "Gflop", "reads", "writes", "sends");
  for (const auto &[direction, part] : totalsOfStep(manifest, role))
    say("  {:<20}{:>10}{:>14.4g}{:>14}{:>14}{:>14}\n",
        direction == abi::UNKNOWN_DIRECTION ? "unknown" : abi::nameOf(direction), part.launches, part.flops / 1e9,
        bytesText(part.bytesRead), bytesText(part.bytesWritten), bytesText(part.sent));
}

/// As in files of timetables (docs/schedules.md); 0 for what is no pass.
char letterOf(abi::CommandList::Duty duty) {
  switch (duty) {
  case abi::CommandList::FORWARD_PASS:
    return 'F';
  case abi::CommandList::BACKWARD_PASS:
    return 'B';
  case abi::CommandList::INPUT_GRADIENTS:
    return 'I';
  case abi::CommandList::WEIGHT_GRADIENTS:
    return 'W';
  default:
    return 0;
  }
}

/// "F0 F1 B0 F2 B1 B2", with the stage where the rank has several: "0F0 2F0"; only the first ones of a long sequence.
/// Where steps overlap, with the step ahead of the running one instead: "F+3 B+0"; or, where a step has several
/// micro-batches, behind it: "B3 F0+1".
std::string passesText(const abi::Manifest &manifest, const abi::Role &role) {
  constexpr int most = 32;
  std::string text;
  int passes = 0;
  bool hasSeveral = manifest.stages_size() > manifest.roles_size();
  bool overlaps = abi::stepsAhead(manifest, abi::stepTimetable) > 0, isTurned = abi::mayRedo(role);
  auto numberOf = [&](const abi::TimetableEntry &entry) {
    std::string ahead = overlaps && (entry.step() > 0 || !isTurned) ? fmt::format("+{}", entry.step()) : "";
    return isTurned || !overlaps ? std::to_string(entry.micro_batch()) + ahead : ahead;
  };
  for (const abi::TimetableEntry &entry : abi::timetableOf(role, abi::stepTimetable).period()) {
    auto list = std::ranges::find(manifest.lists(), entry.list(), [](const auto &each) { return each.name(); });
    char letter = letterOf(list->duty());
    if (letter == 0)
      continue;
    if (++passes > most)
      return text + " ...";
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", hasSeveral ? std::to_string(entry.stage()) : "", letter,
                        numberOf(entry));
  }
  return text;
}

void printMemory(const abi::Manifest &manifest, const abi::Role &role) {
  sayHeading("\nMemory");
  say(" of a rank in role '{}': an arena of {} bytes, {} of them visible to peers\n", role.name(), role.arena_bytes(),
      role.arena_bytes() - std::min<uint64_t>(role.arena_bytes(), role.shared_begin()));
  for (const abi::MemoryUse &use : role.memory())
    say("  {:<{}}{:>16}  {}\n", use.category(), manifest.stages_size() > 1 ? 32 : 24, use.bytes(),
        bytesText(static_cast<double>(use.bytes())));
  if (role.host_bytes() > 0)
    say("  It also keeps {} in memory of the host, which copies move there and back.\n",
        bytesText(static_cast<double>(role.host_bytes())));
  if (uint64_t scratch = scratchBytes(manifest))
    say("  Its kernels also need {}, which they use one after the other.\n", bytesText(static_cast<double>(scratch)));
  if (uint64_t touched = touchedPeerBytes(manifest, role))
    say("  It also works in {} of its peers' memory, which the system counts for each process.\n",
        bytesText(static_cast<double>(touched)));
}

/// What the backward pass recomputes because it was not kept, and what that costs; equal layers together.
void printMadeAgain(const abi::Manifest &manifest, const abi::Role &role, const CollectiveTimes *times) {
  std::vector<MadeAgain> rows = madeAgain(manifest, role, times);
  sayHeading("\nMade again");
  if (rows.empty()) {
    say(" for the backward pass: nothing\n");
    return;
  }
  say(" for the backward pass, in a step{}{:>9}{:>12}{:>12}{:>12}{}\n", std::string(18, ' '), "Gflop", "touches",
      "sends", "layers", times ? fmt::format("{:>12}", "takes") : "");
  auto sayRow = [](const std::string &what, const MadeAgain &row) {
    say("  {:<46}{:>10.4g}{:>12}{:>12}{:>12}{}\n", what, row.work.flops / 1e9,
        bytesText(row.work.bytesRead + row.work.bytesWritten), bytesText(row.work.sent), row.numbers.size(),
        row.seconds ? fmt::format("{:>12}", secondsText(*row.seconds)) : "");
  };
  for (const MadeAgain &sum : sumByLayers(rows)) {
    sayRow(sum.layers.empty() ? "outside the layers" : sum.layers, sum);
    for (const MadeAgain &row : rows)
      if (row.layers == sum.layers)
        sayRow("  " + row.what, row);
  }
}

void printRole(const abi::Manifest &manifest, const abi::Role &role) {
  if (manifest.stages_size() > 1) {
    sayHeading("\nPasses");
    say(" of a step, forward and backward, by {} ({})\n  {}\n",
        abi::mayRedo(role)                                  ? "micro-batch, and how many steps they are ahead"
        : abi::stepsAhead(manifest, abi::stepTimetable) > 0 ? "how many steps they are ahead"
                                                            : "micro-batch",
        timetableTitle(manifest.timetable()), passesText(manifest, role));
  }
  sayHeading("\nCommands");
  say("    {:>24}{:>14}{:>14}{:>14}{:>10}\n", "launches", "collectives", "transfers", "waits", "a step");
  for (const abi::CommandList &list : abi::Resolver(manifest, role).all()) {
    CommandCounts counts(list);
    say("  {:<24}{:>10}{:>14}{:>14}{:>14}{:>9}x\n", list.name(), counts.launches, counts.collectives, counts.transfers,
        counts.waits, timesInStep(role, list));
  }
  printWork(manifest, role);
}

/// Each as in the first role that has it.
std::vector<abi::Tensor> parametersOf(const abi::Manifest &manifest) {
  std::map<int, const abi::Tensor *> found; // by the parameter's number
  for (const abi::Role &role : manifest.roles())
    for (const abi::Tensor &tensor : role.tensors())
      if (tensor.kind() == abi::Tensor::PARAMETER)
        found.emplace(tensor.parameter(), &tensor);
  std::vector<abi::Tensor> tensors;
  for (const auto &[number, tensor] : found)
    tensors.push_back(*tensor);
  return tensors;
}

/// One row per parameter, equal layers once: the shape in the file, the logical dimensions with the axes that split the
/// stored parameter, and the piece of one rank.
void printParameters(const abi::Manifest &manifest) {
  sayHeading("\nParameters");
  say("  name, shape in the file: dimensions/axes that split them, piece of a rank\n");
  std::vector<std::string> rows;
  for (const abi::Tensor &tensor : parametersOf(manifest)) {
    const abi::Parameter &parameter = manifest.parameters(tensor.parameter());
    rows.push_back(fmt::format("{} {}: {}, {}", parameter.name(), shapeText(parameter.file_shape()),
                               shardingText(tensor, parameter.dim_names(), manifest.mesh()),
                               shapeText(tensor.local_shape())));
  }
  for (const FoldedText &row : LayerNames(manifest).fold(rows))
    say("  {}{}\n", row.text, row.layers.empty() ? "" : fmt::format("; {} ({})", row.layersText(), row.count));
}

/// A kernel's name without what distinguishes it from others that do the same on other shapes: a generated kernel's
/// number, and what a library kernel was specialized for.
std::string workOf(const abi::Kernel &kernel) {
  return kernel.symbol().substr(0, kernel.library() ? kernel.symbol().find('$') : kernel.symbol().rfind('_'));
}

/// One row for all kernels that do the same, in the order of their first launches.
void printKernels(const abi::Manifest &manifest) {
  struct Row {
    std::string work;
    bool library;
    int64_t kernels = 0, launches = 0;
  };
  std::vector<Row> rows;
  std::map<std::string, size_t> places;
  std::vector<int64_t> launches = countLaunches(manifest);
  for (int i = 0; i < manifest.kernels_size(); ++i) {
    const abi::Kernel &kernel = manifest.kernels(i);
    auto [place, isNew] = places.try_emplace(workOf(kernel), rows.size());
    if (isNew)
      rows.push_back({workOf(kernel), kernel.library()});
    ++rows[place->second].kernels;
    rows[place->second].launches += launches[i];
  }
  sayHeading("\nKernels");
  say("     {:>46}{:>10}\n", "kernels", "launches");
  for (const Row &row : rows)
    say("  {:<48}{:>8}{:>10}  {}\n", row.work, row.kernels, row.launches, row.library ? "library" : "generated");
}

// For programs

ordered_json madeAgainJson(const std::vector<MadeAgain> &rows) {
  ordered_json answer = ordered_json::array();
  for (const MadeAgain &row : rows) {
    answer.push_back({{"layers", row.layers},
                      {"what", row.what},
                      {"count", row.numbers.size()},
                      {"launches", row.work.launches},
                      {"flops", row.work.flops},
                      {"bytes_read", row.work.bytesRead},
                      {"bytes_written", row.work.bytesWritten},
                      {"bytes_sent", row.work.sent}});
    if (row.seconds)
      answer.back()["seconds"] = *row.seconds;
  }
  return answer;
}

ordered_json roleJson(const abi::Manifest &manifest, const abi::Role &role, const CollectiveTimes *times) {
  ordered_json answer = {
      {"name", role.name()}, {"arena_bytes", role.arena_bytes()}, {"peer_bytes", touchedPeerBytes(manifest, role)}};
  if (role.host_bytes() > 0)
    answer["host_bytes"] = role.host_bytes();
  if (uint64_t scratch = scratchBytes(manifest))
    answer["scratch_bytes"] = scratch;
  answer["memory"] = ordered_json::object();
  for (const abi::MemoryUse &use : role.memory())
    answer["memory"][use.category()] = use.bytes();
  answer["lists"] = ordered_json::object();
  for (const abi::CommandList &list : abi::Resolver(manifest, role).all()) {
    CommandCounts counts(list);
    answer["lists"][list.name()] = {{"launches", counts.launches},
                                    {"collectives", counts.collectives},
                                    {"transfers", counts.transfers},
                                    {"waits", counts.waits}};
  }
  answer["work"] = ordered_json::object();
  for (const auto &[direction, part] : totalsOfStep(manifest, role))
    answer["work"][std::string(abi::nameOf(direction))] = {{"launches", part.launches},
                                                           {"flops", part.flops},
                                                           {"bytes_read", part.bytesRead},
                                                           {"bytes_written", part.bytesWritten},
                                                           {"bytes_sent", part.sent}};
  answer["made_again"] = madeAgainJson(madeAgain(manifest, role, times));
  return answer;
}

ordered_json tensorJson(const abi::Tensor &tensor, const abi::Manifest &manifest) {
  const abi::Parameter &parameter = manifest.parameters(tensor.parameter());
  auto list = [](const auto &values) { return std::vector<int64_t>(values.begin(), values.end()); };
  return {{"name", parameter.name()},
          {"file_shape", list(parameter.file_shape())},
          {"logical_shape", list(parameter.logical_shape())},
          {"dims", std::vector<std::string>(parameter.dim_names().begin(), parameter.dim_names().end())},
          {"sharding", shardingText(tensor, parameter.dim_names(), manifest.mesh())},
          {"local_shape", list(tensor.local_shape())},
          {"decays", parameter.decays()}};
}

ordered_json toJson(const abi::Manifest &manifest, const CollectiveTimes *times) {
  ordered_json answer = {{"model", manifest.model_name()},         {"parameters", totalParameters(manifest)},
                         {"weights", manifest.model_directory()},  {"strategy", manifest.strategy()},
                         {"choices", manifest.choices()},          {"target", manifest.target()},
                         {"ranks", Mesh(manifest.mesh()).ranks()}, {"flops_per_token", manifest.flops_per_token()}};
  for (const abi::Axis &axis : manifest.mesh().axes())
    answer["mesh"][axis.name()] = axis.size();
  for (const abi::Symbol &symbol : manifest.symbols())
    answer["symbols"][symbol.name()] = symbol.size();
  if (const abi::Generation &sizes = manifest.generation(); manifest.has_generation())
    answer["generation"] = {
        {"rows", sizes.rows()}, {"positions", sizes.capacity()}, {"prompt_positions", sizes.prompt()}};
  if (const abi::Certificate &certificate = manifest.certificate(); manifest.has_certificate()) {
    answer["certificate"] = {
        {"ranks", certificate.ranks()}, {"classes", certificate.classes()}, {"groups", certificate.groups()}};
    for (const abi::JudgedTimetable &judged : certificate.timetables())
      answer["certificate"]["timetables"][judged.name()] = {{"steps", judged.steps()}, {"commands", judged.commands()}};
  }
  for (const SettingValue &setting : listSettings(manifest.training()))
    answer["settings"][setting.section][setting.key] = ordered_json::parse(setting.value, nullptr, false);
  for (const abi::Role &role : manifest.roles())
    answer["roles"].push_back(roleJson(manifest, role, times));
  for (const abi::Tensor &tensor : parametersOf(manifest))
    answer["tensors"].push_back(tensorJson(tensor, manifest));
  std::vector<int64_t> launches = countLaunches(manifest);
  for (int i = 0; i < manifest.kernels_size(); ++i)
    answer["kernels"].push_back({{"symbol", manifest.kernels(i).symbol()},
                                 {"library", manifest.kernels(i).library()},
                                 {"launches", launches[i]}});
  return answer;
}

timing::Forecast forecastOn(const timing::Layout &layout, const abi::Manifest &manifest) {
  return timing::forecastStep(manifest, layout);
}

void printOnCluster(const timing::Layout &layout, const abi::Manifest &manifest) {
  sayHeading("\nOn the cluster");
  say(" {}\n", layout.cluster().name());
  for (const Room &room : roomOf(manifest, layout))
    say("  {}: {}\n", room.isEnough() ? "fits" : "does not fit", roomText(room));
  if (manifest.has_generation())
    return;
  timing::Forecast forecast = forecastOn(layout, manifest);
  say("  a step takes {}{}: {:.4g} tokens/s, MFU {:.1f}%; 'dtc simulate' says where the time goes\n",
      secondsText(forecast.seconds), forecast.band > 0 ? fmt::format(" ± {:.0f}%", 100 * forecast.band) : "",
      forecast.tokens / forecast.seconds, 100 * forecast.mfu());
}

ordered_json onClusterJson(const timing::Layout &layout, const abi::Manifest &manifest) {
  std::vector<Room> rooms = roomOf(manifest, layout);
  ordered_json answer = {{"name", layout.cluster().name()},
                         {"fits", std::ranges::all_of(rooms, &Room::isEnough)},
                         {"memory", toJson(rooms)}};
  if (manifest.has_generation())
    return answer;
  timing::Forecast forecast = forecastOn(layout, manifest);
  answer["seconds"] = forecast.seconds;
  answer["band"] = forecast.band;
  answer["tokens_per_second"] = forecast.tokens / forecast.seconds;
  answer["mfu"] = forecast.mfu();
  return answer;
}

void inspect(const InspectOptions &options) {
  requireNoModel(options.program, "inspect");
  abi::Manifest manifest = readManifest(options.program);
  std::optional<timing::Layout> layout;
  if (!options.cluster.empty())
    layout = layoutOn(options.cluster, manifest.mesh());
  std::optional<CollectiveTimes> times;
  if (layout)
    times.emplace(manifest, *layout);
  const CollectiveTimes *known = times ? &*times : nullptr;
  if (options.json) {
    ordered_json answer = toJson(manifest, known);
    if (layout)
      answer["cluster"] = onClusterJson(*layout, manifest);
    printJson(answer);
    return;
  }
  if (options.choices) {
    say("{}", manifest.choices());
    return;
  }
  if (options.memory) {
    for (const abi::Role &role : manifest.roles()) {
      printMemory(manifest, role);
      printMadeAgain(manifest, role, known);
    }
    return;
  }
  printHead(manifest);
  if (layout)
    printOnCluster(*layout, manifest);
  if (!manifest.has_generation()) // for programs that generate, these settings have no effect
    printSettings(manifest.training());
  printChoices(manifest);
  for (const abi::Role &role : manifest.roles()) {
    printMemory(manifest, role);
    printRole(manifest, role);
  }
  printParameters(manifest);
  printKernels(manifest);
}

} // namespace

void dtc::addInspect(CLI::App &app) {
  auto [verb, options] = addVerb<InspectOptions>(
      app, "inspect",
      "Show a program's mesh, parameters and their shards, exact bytes of a rank by category, commands and kernels.",
      inspectFooter);
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  auto *cluster =
      verb->add_option("--cluster", options->cluster,
                       "A cluster file (docs/clusters.md): say whether it fits there, and what a step takes");
  auto *json = verb->add_flag("--json", options->json, "Answer for a program");
  auto *choices =
      verb->add_flag("--choices", options->choices, "Only what was chosen, as dtc compile --choices takes it")
          ->excludes(json)
          ->excludes(cluster);
  verb->add_flag("--memory", options->memory,
                 "Only the bytes of a rank by category, and what the backward pass recomputes because it was not kept, "
                 "with its cost; with --cluster in seconds, too")
      ->excludes(json)
      ->excludes(choices);
  verb->callback([options] { inspect(*options); });
}
