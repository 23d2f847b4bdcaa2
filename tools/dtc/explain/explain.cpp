// dtc explain: why every collective of a program is there.
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/volume.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/explain/ExplainOrder.h"
#include "tools/dtc/forecast/CollectiveTimes.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

using namespace dtc;
using nlohmann::ordered_json;

static constexpr const char *explainFooter =
    "\nExamples:\n"
    "  $ dtc explain gpt\n"
    "  $ dtc explain gpt --cluster cluster.textproto          # and what each costs there\n"
    "  $ dtc explain gpt --cluster cluster.textproto --order  # what is hidden behind what\n"
    "  $ dtc explain gpt --json | jq '.collectives[] | select(.kind == \"all_gather\").reason'\n";

namespace {

struct ExplainOptions {
  std::string program, cluster;
  bool json = false, order = false;
};

/// What a step costs a rank.
struct StepCost {
  double sent = 0, flops = 0, arena = 0;
  double seconds = 0; ///< on a cluster, where one was named

  static StepCost of(const nlohmann::json &json) {
    return {json["sent_bytes"], json["flops"], json["arena_bytes"], json["seconds"]};
  }
  ordered_json json() const {
    ordered_json answer = {{"sent_bytes", sent}, {"flops", flops}, {"arena_bytes", arena}};
    if (seconds > 0)
      answer["seconds"] = seconds;
    return answer;
  }
};

/// An annotation that was tried, and what a step would cost with it.
struct Remedy {
  std::string entry;
  StepCost cost;
};

bool hasProposals(const abi::Manifest &manifest) {
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (!command.start().remedy().empty())
        return true;
  return false;
}

/// The remedies that dtc-compile has tried and confirmed, by the list and command that they remove.
struct Remedies {
  std::string problem; ///< why none was tried; empty: they were
  StepCost now;
  std::map<std::pair<std::string, int>, Remedy> of;

  Remedies(const abi::Manifest &manifest, const std::string &program, const std::string &cluster) {
    if (!hasProposals(manifest))
      return;
    std::vector<std::string> words = {"remedies", program};
    if (!cluster.empty())
      words.insert(words.end(), {"--cluster", cluster});
    nlohmann::json answer = askForJson(words);
    problem = answer.is_object() ? answer.value("problem", "") : "the compiler cannot be run here";
    if (!problem.empty())
      return;
    now = StepCost::of(answer["cost"]);
    for (const nlohmann::json &remedy : answer["remedies"])
      for (const nlohmann::json &place : remedy["removes"])
        of[{place[0], place[1]}] = {remedy["remedy"], StepCost::of(remedy["cost"])};
  }
};

/// Collectives that are started as one.
struct BucketText {
  int parts = 0;
  double bytes = 0; ///< of all their values
  std::string why;
};

/// One collective of a list, with all that a reader may want to know about it.
struct Explanation {
  abi::Collective collective;
  std::string list, location, axes;
  std::string layer, direction; ///< empty where there is none
  std::vector<int> group;       ///< the ranks that take part, for the role's first rank
  uint32_t channel = 0;         ///< that the collective uses
  int64_t timesAStep = 0;       ///< 0: outside the training step, as in evaluation
  double payload = 0;           ///< bytes of the value
  double sent = 0;              ///< bytes a rank sends each time
  std::optional<Remedy> remedy;
  std::optional<CollectiveTime> time; ///< on a cluster, where one was named
  std::optional<BucketText> bucket;   ///< that it is a part of
  bool isPart = false;                ///< of the same start as the one before it
};

/// The bucket of a start, or nothing where it is started alone.
std::optional<BucketText> bucketOf(const abi::CommandList &list, int number, int64_t members) {
  while (abi::isPart(list, number))
    --number;
  const abi::Collective &first = list.commands(number).start();
  if (!first.more())
    return std::nullopt;
  BucketText bucket{0, 0, first.bucket()};
  for (bool hasMore = true; hasMore; ++number) {
    const abi::Collective &part = list.commands(number).start();
    hasMore = part.more();
    ++bucket.parts;
    bucket.bytes += payloadBytes(part, members);
  }
  return bucket;
}

/// The lists of a training step, in the order in which they first run; then the others.
std::vector<abi::CommandList> listsInOrder(const abi::Manifest &manifest, const abi::Role &role) {
  std::vector<abi::CommandList> lists = abi::Resolver(manifest, role).all();
  auto next = lists.begin();
  abi::forEachEntry(abi::timetableOf(role, abi::stepTimetable), [&](const abi::TimetableEntry &entry) {
    auto list = std::find_if(next, lists.end(), [&](const auto &each) { return each.name() == entry.list(); });
    if (list != lists.end())
      std::rotate(next++, list, list + 1);
  });
  return lists;
}

std::vector<Explanation> explainRole(const abi::Manifest &manifest, const abi::Role &role, const Remedies &remedies,
                                     const CollectiveTimes *times) {
  Mesh mesh(manifest.mesh());
  std::vector<Explanation> all;
  for (const abi::CommandList &list : listsInOrder(manifest, role))
    for (int i = 0; i < list.commands_size(); ++i) {
      const abi::Command &command = list.commands(i);
      if (!command.has_start())
        continue;
      const abi::Collective &collective = command.start();
      const abi::Group &members = manifest.groups(static_cast<int>(collective.group()));
      Group group = mesh.group(abi::firstRankOf(role), members);
      auto remedy = remedies.of.find({list.name(), i});
      all.push_back({collective, list.name(), locationText(manifest, command), groupText(members, manifest.mesh()),
                     command.has_layer() ? abi::layerName(manifest, command.layer()) : "",
                     std::string(abi::nameOf(command.direction())), group.ranks, members.channel(),
                     timesInStep(role, list), payloadBytes(collective, group.size()),
                     sentBytes(collective, group.size()),
                     remedy == remedies.of.end() ? std::nullopt : std::optional(remedy->second),
                     times ? std::optional(times->of(role, list, i)) : std::nullopt, bucketOf(list, i, group.size()),
                     abi::isPart(list, i)});
    }
  return all;
}

std::string timesText(int64_t times) {
  return times == 0 ? "not in the training step" : fmt::format("{} time{} a step", times, times == 1 ? "" : "s");
}

/// "{0, 8, 16, 24}"; of many ranks the first and the last.
std::string membersText(const std::vector<int> &ranks) {
  constexpr size_t most = 8, first = 3;
  if (ranks.size() <= most)
    return fmt::format("{{{}}}", fmt::join(ranks, ", "));
  return fmt::format("{{{}, ..., {}}}", fmt::join(ranks.begin(), ranks.begin() + first, ", "), ranks.back());
}

std::string headline(const Explanation &each) {
  return fmt::format("{} over {} at {} ({})", kindText(each.collective), each.axes, each.location, each.list);
}

/// The time that collectives of equal layers take together.
struct TimesTogether {
  std::string each; ///< "31.2 us each (ring over NVLink)"
  bool isInStep = false;
  double step = 0, exposed = 0, late = 0; ///< seconds of a step

  void add(const CollectiveTime &time, int64_t timesAStep) {
    each = fmt::format("{} each ({} over {})", secondsText(time.seconds), time.algorithm, time.level);
    isInStep = timesAStep > 0;
    step += time.seconds * static_cast<double>(timesAStep);
    exposed += time.exposed;
    late += time.late;
  }
  std::string text() const {
    if (!isInStep)
      return each;
    std::string waits = exposed > 0 ? fmt::format("ranks wait {} while they move", secondsText(exposed)) : "hidden";
    return fmt::format("{}; {} a step, {}{}", each, secondsText(step), waits,
                       late > 0 ? fmt::format(", and {} for ranks that come later", secondsText(late)) : "");
  }
};

/// What a step costs a rank, now and with the remedy.
std::string costText(const StepCost &now, const StepCost &then) {
  constexpr double hardly = 0.005;
  double work = now.flops > 0 ? then.flops / now.flops : 1;
  std::string works = std::abs(work - 1) < hardly ? "works as much" : fmt::format("works {:.2f} times as much", work);
  std::string text =
      fmt::format("a rank then sends {} a step instead of {}, {} and needs {} instead of {}", bytesText(then.sent),
                  bytesText(now.sent), works, bytesText(then.arena), bytesText(now.arena));
  if (now.seconds > 0)
    text += fmt::format("; a step takes {} instead of {}", secondsText(then.seconds), secondsText(now.seconds));
  return text;
}

std::string details(const Explanation &each, const StepCost &now) {
  std::string text;
  auto out = std::back_inserter(text);
  if (!each.collective.value().empty())
    fmt::format_to(out, "  value   {}\n", each.collective.value());
  fmt::format_to(out, "  why     {}\n", each.collective.reason());
  if (!each.direction.empty())
    fmt::format_to(out, "  part    {}{}{}\n", each.direction, each.layer.empty() ? "" : " of ", each.layer);
  fmt::format_to(out, "  group   {} ranks, such as {}, on channel {}\n", each.group.size(), membersText(each.group),
                 each.channel);
  fmt::format_to(out, "  volume  {}{} ({:.0f} bytes), of which a rank sends {}; {}\n",
                 each.collective.has_counts() ? "at most " : "", bytesText(each.payload), each.payload,
                 bytesText(each.sent), timesText(each.timesAStep));
  if (each.remedy)
    fmt::format_to(out, "  remedy  {}\n          {}\n", each.remedy->entry, costText(now, each.remedy->cost));
  return text;
}

/// Collectives that differ only in their layer are shown once.
void print(const std::vector<Explanation> &all, const LayerNames &layers, const StepCost &now) {
  std::vector<std::string> texts;
  std::map<std::string, TimesTogether> times; // keyed by the text that equal layers share
  for (const Explanation &each : all) {
    texts.push_back(headline(each) + "\n" + details(each, now));
    if (each.time)
      times[layers.generalise(texts.back()).text].add(*each.time, each.timesAStep);
  }
  for (const FoldedText &folded : layers.fold(texts)) {
    size_t line = folded.text.find('\n');
    say("\n");
    sayHeading(folded.text.substr(0, line));
    say("\n");
    if (folded.count > 1)
      say("  layers  {}{} collectives like this\n", folded.layers.empty() ? "" : folded.layersText() + ": ",
          folded.count);
    say("{}", folded.text.substr(line + 1));
    if (auto time = times.find(layers.generalise(folded.text).text); time != times.end())
      say("  time    {}\n", time->second.text());
  }
}

struct Total {
  int64_t count = 0, starts = 0; ///< fewer starts than collectives where some are parts of one
  double sent = 0;
  double seconds = 0, exposed = 0; ///< where a cluster was named
};
using Totals = std::map<std::string, Total>;

/// "send of h.3 by 1 over pp": what pipeline stages pass on.
Totals transfersOf(const abi::Manifest &manifest, const abi::Role &role, const CollectiveTimes *times) {
  Totals totals;
  for (const abi::CommandList &list : abi::Resolver(manifest, role).all())
    for (const abi::Command &command : list.commands()) {
      if (!command.has_send() && !command.has_recv())
        continue;
      const abi::Transfer &transfer = abi::transferOf(command);
      Total &total = totals[fmt::format("{} {} over {}: {} of {}", command.has_send() ? "send" : "receive",
                                        transfer.shift() > 0 == command.has_send() ? "forward" : "backward",
                                        groupText(manifest.groups(static_cast<int>(transfer.group())), manifest.mesh()),
                                        abi::nameOf(command.direction()), transfer.value())];
      int64_t count = timesInStep(role, list);
      total.count += count;
      if (!command.has_send())
        continue;
      total.sent += static_cast<double>(count) *
                    static_cast<double>(abi::bytesOf(transfer.type(), static_cast<uint64_t>(transfer.elements())));
      if (times)
        total.seconds += static_cast<double>(count) * times->ofSend(role, command);
    }
  return totals;
}

/// What one step sends, by kind and axes.
void printTotals(const abi::Manifest &manifest, const abi::Role &role, const std::vector<Explanation> &all,
                 const CollectiveTimes *times) {
  Totals totals;
  for (const Explanation &each : all) {
    if (each.timesAStep == 0)
      continue;
    Total &total = totals[kindText(each.collective) + " over " + each.axes];
    total.count += each.timesAStep;
    total.starts += each.isPart ? 0 : each.timesAStep;
    total.sent += each.sent * static_cast<double>(each.timesAStep);
    if (each.time) {
      total.seconds += each.time->seconds * static_cast<double>(each.timesAStep);
      total.exposed += each.time->exposed;
    }
  }
  sayHeading(manifest.roles_size() == 1 ? "In one step a rank takes part in\n"
                                        : fmt::format("In one step a rank of role '{}' takes part in\n", role.name()));
  for (const auto &[what, total] : totals)
    say("  {:>6} {:<32} sending {}{}{}\n", total.count, what, bytesText(total.sent),
        total.starts < total.count ? fmt::format(" in {} start{}", total.starts, total.starts == 1 ? "" : "s") : "",
        total.seconds > 0
            ? fmt::format(" in {}, {} of it exposed", secondsText(total.seconds), secondsText(total.exposed))
            : "");
  for (const auto &[what, total] : transfersOf(manifest, role, times))
    say("  {:>6} {:<48} {}{}\n", total.count, what, total.sent > 0 ? "sending " + bytesText(total.sent) : "",
        total.seconds > 0 ? " in " + secondsText(total.seconds) : "");
  if (totals.empty())
    say("  no collective\n");
}

/// Which collectives are started as one, and why there are this many starts.
void printBuckets(const std::vector<Explanation> &all) {
  bool isFirst = true;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].isPart || !all[i].bucket)
      continue;
    if (std::exchange(isFirst, false))
      sayHeading("\nBuckets: what one start begins\n");
    const BucketText &bucket = *all[i].bucket;
    std::vector<std::string> places;
    for (size_t part = i; part < i + static_cast<size_t>(bucket.parts); ++part)
      places.push_back(all[part].location);
    constexpr size_t most = 6, first = 3;
    std::string named =
        places.size() <= most
            ? fmt::format("{}", fmt::join(places, ", "))
            : fmt::format("{}, ..., {}", fmt::join(places.begin(), places.begin() + first, ", "), places.back());
    say("  {}: {} of {} parts over {}, {}: {}\n          {}\n", all[i].list, kindText(all[i].collective), bucket.parts,
        all[i].axes, bytesText(bucket.bytes), named, bucket.why.empty() ? "as the choices say" : bucket.why);
  }
}

ordered_json toJson(const Explanation &each) {
  ordered_json answer = {{"kind", kindText(each.collective)},
                         {"list", each.list},
                         {"location", each.location},
                         {"layer", each.layer},
                         {"direction", each.direction},
                         {"axes", each.axes},
                         {"group", each.group},
                         {"channel", each.channel},
                         {"value", each.collective.value()},
                         {"reason", each.collective.reason()},
                         {"remedy", each.remedy ? each.remedy->entry : ""},
                         {"bytes", each.payload},
                         {"sent_bytes", each.sent},
                         {"times_per_step", each.timesAStep}};
  if (each.remedy)
    answer["remedy_cost"] = each.remedy->cost.json();
  if (each.bucket)
    answer["bucket"] = {{"parts", each.bucket->parts},
                        {"bytes", each.bucket->bytes},
                        {"is_first", !each.isPart},
                        {"why", each.bucket->why}};
  if (each.time)
    answer["time"] = {{"seconds", each.time->seconds},
                      {"algorithm", each.time->algorithm},
                      {"level", each.time->level},
                      {"exposed", each.time->exposed},
                      {"late", each.time->late}};
  return answer;
}

/// Every send and receive of a role.
void addTransfers(const abi::Manifest &manifest, const abi::Role &role, ordered_json &transfers) {
  for (const abi::CommandList &list : listsInOrder(manifest, role))
    for (const abi::Command &command : list.commands()) {
      if (!command.has_send() && !command.has_recv())
        continue;
      const abi::Transfer &transfer = abi::transferOf(command);
      transfers.push_back({{"kind", command.has_send() ? "send" : "receive"},
                           {"role", role.name()},
                           {"list", list.name()},
                           {"direction", abi::nameOf(command.direction())},
                           {"axes", groupText(manifest.groups(static_cast<int>(transfer.group())), manifest.mesh())},
                           {"shift", transfer.shift()},
                           {"value", transfer.value()},
                           {"type", abi::elementType(transfer.type()).name},
                           {"bytes", abi::bytesOf(transfer.type(), static_cast<uint64_t>(transfer.elements()))},
                           {"times_per_step", timesInStep(role, list)}});
    }
}

void explain(const ExplainOptions &options) {
  requireNoModel(options.program, "explain");
  abi::Manifest manifest = readManifest(options.program);
  if (options.order) {
    if (manifest.has_generation())
      throw Error(ExitCode::BadInput,
                  options.program + ": generates text and has no training step for --order to explain");
    return explainOrder(manifest, layoutOn(options.cluster, manifest.mesh()), options.json, [&] {
      nlohmann::json answer = askForJson({"accumulation", options.program, "--cluster", options.cluster});
      return answer.is_null() || answer["remedy"].is_null() ? std::nullopt
                                                            : std::optional(accumulationFrom(answer["remedy"]));
    });
  }
  std::optional<timing::Layout> layout;
  std::optional<CollectiveTimes> times;
  if (!options.cluster.empty())
    times.emplace(manifest, layout.emplace(layoutOn(options.cluster, manifest.mesh())));
  LayerNames layers(manifest);
  Remedies remedies(manifest, options.program, options.cluster);
  ordered_json collectives = ordered_json::array(), transfers = ordered_json::array();
  if (times && times->stepSeconds() > 0 && !options.json)
    say("A step takes {} on {}\n", secondsText(times->stepSeconds()), layout->cluster().name());
  for (const abi::Role &role : manifest.roles()) {
    std::vector<Explanation> all = explainRole(manifest, role, remedies, times ? &*times : nullptr);
    if (options.json) {
      for (const Explanation &each : all)
        collectives.push_back(toJson(each));
      addTransfers(manifest, role, transfers);
    } else {
      printTotals(manifest, role, all, times ? &*times : nullptr);
      printBuckets(all);
      print(all, layers, remedies.now);
    }
  }
  if (!remedies.problem.empty())
    tellWarning("no remedies are shown, as none was tried: " + remedies.problem);
  if (options.json)
    printJson({{"cost", remedies.now.json()}, {"collectives", collectives}, {"transfers", transfers}});
}

} // namespace

void dtc::addExplain(CLI::App &app) {
  auto [verb, options] =
      addVerb<ExplainOptions>(app, "explain",
                              "Show for every collective where in the model it is, why it is there, who takes part, "
                              "what it moves, and which annotation would remove it at what cost. Each of these has "
                              "been tried: the program's model was compiled with it.",
                              explainFooter);
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  auto *cluster = verb->add_option(
      "--cluster", options->cluster,
      "A cluster file (docs/clusters.md): say what each collective takes there, and how long ranks wait");
  verb->add_flag("--order", options->order,
                 "With --cluster: how much of all that a step moves is hidden, behind what, and what holds up the rest")
      ->needs(cluster);
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options] { explain(*options); });
}
