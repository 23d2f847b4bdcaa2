#include "tools/dtc/forecast/ForecastText.h"

#include "passes/choices/PipelineTimetable.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/timetables.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using nlohmann::ordered_json;

namespace dtc {

using timing::Forecast;
using timing::LowerBound;

std::string secondsText(double seconds) {
  constexpr double milli = 1e-3, micro = 1e-6;
  if (seconds >= 1)
    return fmt::format("{:.3g} s", seconds);
  return seconds >= milli ? fmt::format("{:.3g} ms", seconds / milli) : fmt::format("{:.3g} us", seconds / micro);
}

namespace {

/// A cause of waiting, with what the program says about its command.
struct Told {
  std::string what, why, remedy; ///< "all_reduce over dp at h.3.mlp (micro)"
};

const abi::CommandList *findList(const abi::Manifest &manifest, const std::string &name) {
  for (const abi::CommandList &list : manifest.lists())
    if (list.name() == name)
      return &list;
  return nullptr;
}

/// A role's list as its first entry runs it, so that places have their names.
Told tell(const abi::Manifest &manifest, const timing::Culprit &culprit) {
  const abi::CommandList *list = findList(manifest, culprit.list);
  if (!list || culprit.command >= static_cast<uint32_t>(list->commands_size()))
    return {};
  abi::CommandList resolved = *list;
  for (const abi::Role &role : manifest.roles())
    if (const abi::TimetableEntry *entry = abi::firstEntryOf(role, culprit.list)) {
      resolved = abi::Resolver(manifest, role).resolve(*entry);
      break;
    }
  const abi::Command &command = resolved.commands(static_cast<int>(culprit.command));
  std::string where = fmt::format("at {} ({})", locationText(manifest, command), culprit.list);
  if (command.has_copy())
    return {"copy " + where, "", ""};
  std::string over = groupText(manifest.groups(static_cast<int>(abi::groupOf(command))), manifest.mesh());
  if (command.has_start())
    return {fmt::format("{} over {} {}", kindText(command.start()), over, where), command.start().reason(),
            command.start().remedy()};
  return {fmt::format("{} of {} over {} ({})", command.has_send() ? "send" : "receive", abi::valueOf(command), over,
                      culprit.list),
          "what the next stage of the pipeline needs", ""};
}

std::string share(double part, double whole) { return fmt::format("{:5.1f}%", whole > 0 ? 100 * part / whole : 0.0); }

/// Whose compute, which link, or which chain.
std::string reasonText(const timing::Layout &layout, const Forecast &forecast) {
  const LowerBound &bound = forecast.bound;
  int rank = forecast.ranks[bound.ofClass].rank;
  switch (bound.reason) {
  case LowerBound::Compute:
    return fmt::format("the kernels of rank {}, one after the other{}", rank,
                       bound.moving > 0 ? ", and what moving takes of its processor" : "");
  case LowerBound::Link:
    return fmt::format("what rank {} moves over {}, at full bandwidth", rank,
                       layout.cluster().levels(bound.level).name());
  case LowerBound::LinkInTime:
    return fmt::format("what rank {} moves over {} from when it can begin, and what must follow", rank,
                       layout.cluster().levels(bound.level).name());
  case LowerBound::CriticalPath:
    return fmt::format("the chain of commands that ends on rank {}, with links and channels for each", rank);
  }
  return "";
}

void printTimes(const abi::Manifest &manifest, const Forecast &forecast) {
  double step = forecast.seconds;
  bool isCut = manifest.stages_size() > 1;
  say("  kernels        {}  {:>10}\n", share(forecast.compute(), step), secondsText(forecast.compute()));
  for (auto [kind, seconds] : forecast.kernels)
    say("    {:<12} {}  {:>10}\n", abi::nameOf(kind), share(seconds, step), secondsText(seconds));
  if (forecast.host() > 0)
    say("  host           {}  {:>10}  batches and metrics\n", share(forecast.host(), step),
        secondsText(forecast.host()));
  if (forecast.stolen() > 0)
    say("  slowed down    {}  {:>10}  by moving data on the processors that compute\n", share(forecast.stolen(), step),
        secondsText(forecast.stolen()));
  say("  communication  {}  {:>10}  exposed, of {} that something moves\n", share(forecast.moving(), step),
      secondsText(forecast.moving()), secondsText(forecast.moved));
  say("  {}  {}  {:>10}  waiting for other ranks", isCut ? "bubble       " : "idle         ",
      share(forecast.idle(), step), secondsText(forecast.idle()));
  if (isCut)
    say(": {:.3g} of a rank's work, {:.3g} of the step ({})", forecast.bubbleOverhead(), forecast.bubbleFraction(),
        timetableTitle(manifest.timetable()));
  say("\n");
}

/// Equal layers once, with their waiting added up.
void printCulprits(const abi::Manifest &manifest, const Forecast &forecast) {
  constexpr size_t Most = 6;
  struct Line {
    double late = 0, moving = 0;
    int64_t count = 0;
    Told told;
  };
  LayerNames layers(manifest);
  bool isCut = manifest.stages_size() > 1; // where the late one is the pipeline bubble, which has its own line
  auto weight = [&](const Line &line) { return line.moving + (isCut ? 0 : line.late); };
  std::map<std::string, Line> lines;
  for (const timing::Culprit &culprit : forecast.culprits) {
    Told told = tell(manifest, culprit);
    Line &line = lines[layers.generalise(told.what).text];
    line.late += culprit.late;
    line.moving += culprit.moving;
    line.count += culprit.times;
    line.told = told;
  }
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::erase_if(sorted, [&](const auto &each) { return weight(each.second) <= 0; });
  std::ranges::sort(sorted, std::greater(), [&](const auto &each) { return weight(each.second); });
  if (sorted.empty())
    return;
  sayHeading("\nWhat ranks wait for, longest first\n");
  for (const auto &[what, line] : std::span(sorted).first(std::min(Most, sorted.size()))) {
    say("  {:>10}  {}x {}\n", secondsText(weight(line)), line.count, what);
    if (!isCut && line.late > 0)
      say("              {} while it moves, {} for ranks that come later\n", secondsText(line.moving),
          secondsText(line.late));
    if (!line.told.why.empty())
      say("              why     {}\n", line.told.why);
    if (!line.told.remedy.empty())
      say("              remedy  {}\n", line.told.remedy);
  }
}

void printRanks(const Forecast &forecast) {
  constexpr size_t Most = 8;
  if (forecast.ranks.size() < 2)
    return;
  sayHeading("\nBy rank\n");
  say("  {:<18}{:>8}{:>12}{:>12}{:>12}\n", "", "ranks", "kernels", "moving", "idle");
  size_t shown = std::min(Most, forecast.ranks.size());
  for (const timing::RankForecast &each : std::span(forecast.ranks).first(shown))
    say("  {:<18}{:>8}{:>12}{:>12}{:>12}\n", fmt::format("{} ({})", each.rank, each.role), each.ranks,
        secondsText(each.compute + each.stolen), secondsText(each.moving), secondsText(each.idle));
  if (shown < forecast.ranks.size())
    say("  and {} kinds of ranks more (--json has them)\n", forecast.ranks.size() - shown);
}

void printLinks(const timing::Layout &layout, const Forecast &forecast) {
  sayHeading("\nLinks of a rank that sends most\n");
  for (int level = 0; level < layout.cluster().levels_size(); ++level) {
    double sent = 0, busy = 0;
    for (const timing::RankForecast &each : forecast.ranks) {
      sent = std::max(sent, each.sent[level]);
      busy = std::max(busy, each.busy[level]);
    }
    if (sent > 0)
      say("  {:<18} {:>10} a step, busy {:.1f}% of it\n", layout.cluster().levels(level).name(), bytesText(sent),
          100 * busy);
  }
}

} // namespace

void printForecast(const abi::Manifest &manifest, const timing::Layout &layout, const Forecast &forecast) {
  say("{} for {} on {}: a step takes ", manifest.model_name(), meshText(manifest.mesh()), layout.cluster().name());
  sayHeading(secondsText(forecast.seconds));
  say("{}\n", forecast.band > 0 ? fmt::format(" ± {:.0f}%", 100 * forecast.band) : "");
  printTimes(manifest, forecast);
  say("  at least       {}  {:>10}  {}\n", share(forecast.bound.seconds, forecast.seconds),
      secondsText(forecast.bound.seconds), reasonText(layout, forecast));
  say("  {:.4g} tokens/s", forecast.tokens / forecast.seconds);
  if (forecast.peakFlops > 0)
    say(", MFU {:.1f}%, HFU {:.1f}%", 100 * forecast.mfu(), 100 * forecast.hfu());
  say("\n");
  printCulprits(manifest, forecast);
  printRanks(forecast);
  if (layout.ranks() > 1)
    printLinks(layout, forecast);
}

std::vector<std::string> forecastLines(const timing::Layout &layout, const Forecast &forecast) {
  double seconds = forecast.seconds, bound = forecast.bound.seconds;
  std::string step = fmt::format("a step takes {}", secondsText(seconds));
  if (layout.ranks() > 1)
    step += fmt::format(": ranks wait {} of it for what moves, and {} for each other", secondsText(forecast.moving()),
                        secondsText(forecast.idle()));
  return {step, fmt::format("no order of what moves takes less than {}, {:.1f}% less: {}", secondsText(bound),
                            100 * (1 - bound / seconds), reasonText(layout, forecast))};
}

static ordered_json boundJson(const timing::Layout &layout, const Forecast &forecast) {
  const LowerBound &bound = forecast.bound;
  constexpr std::array names = {"compute", "link", "critical path", "link in time"};
  ordered_json json = {
      {"seconds", bound.seconds}, {"reason", names[bound.reason]}, {"rank", forecast.ranks[bound.ofClass].rank}};
  if (bound.level >= 0)
    json["level"] = layout.cluster().levels(bound.level).name();
  return json;
}

ordered_json toJson(const abi::Manifest &manifest, const timing::Layout &layout, const Forecast &forecast) {
  ordered_json json = {{"cluster", layout.cluster().name()},
                       {"seconds", forecast.seconds},
                       {"band", forecast.band},
                       {"host", forecast.host()},
                       {"kernels", forecast.compute()},
                       {"slowed_down", forecast.stolen()},
                       {"exposed", forecast.moving()},
                       {"moved", forecast.moved},
                       {"idle", forecast.idle()},
                       {"bubble_overhead", forecast.bubbleOverhead()},
                       {"bubble_fraction", forecast.bubbleFraction()},
                       {"lower_bound", boundJson(layout, forecast)},
                       {"tokens_per_second", forecast.tokens / forecast.seconds},
                       {"mfu", forecast.mfu()},
                       {"hfu", forecast.hfu()}};
  for (auto [kind, seconds] : forecast.kernels)
    json["kernel_classes"][std::string(abi::nameOf(kind))] = seconds;
  json["ranks"] = ordered_json::array();
  for (const timing::RankForecast &each : forecast.ranks) {
    ordered_json rank = {{"rank", each.rank},      {"ranks", each.ranks},     {"role", each.role},
                         {"host", each.host},      {"kernels", each.compute}, {"slowed_down", each.stolen},
                         {"exposed", each.moving}, {"idle", each.idle}};
    for (int level = 0; level < layout.cluster().levels_size(); ++level)
      rank["links"][layout.cluster().levels(level).name()] = {{"sent_bytes", each.sent[level]},
                                                              {"busy", each.busy[level]}};
    json["ranks"].push_back(rank);
  }
  json["waits"] = ordered_json::array();
  for (const timing::Culprit &each : forecast.culprits) {
    Told told = tell(manifest, each);
    json["waits"].push_back({{"what", told.what},
                             {"list", each.list},
                             {"command", each.command},
                             {"rank", each.rank},
                             {"late", each.late},
                             {"moving", each.moving},
                             {"times", each.times},
                             {"reason", told.why},
                             {"remedy", told.remedy}});
  }
  return json;
}

} // namespace dtc
