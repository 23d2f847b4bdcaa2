// What a simulated step hides behind what.
#include "tools/dtc/explain/ExplainOrder.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/events/bound.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/OrderTimes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <tuple>

using nlohmann::ordered_json;

namespace dtc {

namespace {

/// Single commands are not listed below this share of a step.
constexpr double hardly = 0.0005;

/// The names of commands, as the role runs them.
class Names {
public:
  Names(const abi::Manifest &manifest, const timing::Step &step, const abi::Role &role) : manifest(manifest) {
    for (const abi::CommandList &list : abi::Resolver(manifest, role).all())
      for (uint32_t number = 0; number < step.lists.size(); ++number)
        if (step.lists[number].name == list.name())
          add(number, list);
  }

  const std::string &operator()(ListedCommand command) const { return names.at(command); }
  bool areNumbered() const { return hasNumbers; }

private:
  /// When several commands of a layer have one name, as parts do, the second is "... #2"; an order names them this way,
  /// too.
  void add(uint32_t number, const abi::CommandList &list) {
    std::map<std::tuple<std::string, abi::Direction, uint32_t, std::string, bool>, int> known;
    for (int i = 0; i < list.commands_size(); ++i) {
      const abi::Command &command = list.commands(i);
      if (command.has_wait())
        continue;
      std::string name = nameOf(command);
      if (int count = ++known[{name, command.direction(), command.launch().kernel(), command.start().value(),
                               command.is_again()}];
          count > 1) {
        name += fmt::format(" #{}", count);
        hasNumbers = true;
      }
      names[{number, static_cast<uint32_t>(i)}] = std::move(name);
    }
  }

  /// "all_reduce over tp at h.3.mlp.c_fc (micro_last)", "weight_gradient product at h.3.mlp.c_fc".
  std::string nameOf(const abi::Command &command) const {
    std::string at = " at " + locationText(manifest, command);
    if (command.has_start() || command.has_send() || command.has_recv()) {
      const abi::Group &group = manifest.groups(static_cast<int>(abi::groupOf(command)));
      std::string what = command.has_start()  ? kindText(command.start())
                         : command.has_send() ? "send of " + abi::valueOf(command)
                                              : "receive of " + abi::valueOf(command);
      return fmt::format("{} over {}{}", what, groupText(group, manifest.mesh()), at);
    }
    if (command.has_copy())
      return "copy" + at;
    return fmt::format("{} {}{}", abi::nameOf(command.direction()), abi::nameOf(command.work().kind()), at);
  }

  const abi::Manifest &manifest;
  std::map<ListedCommand, std::string> names;
  bool hasNumbers = false;
};

/// The text about one start, or about those of equal layers together.
struct Told {
  std::string list;
  int64_t count = 0;
  OrderTime time;
  std::map<std::string, double> behind, ahead; ///< by name
  std::string before, after;

  void add(const OrderTime &other, const Names &names, const LayerNames &layers) {
    auto name = [&](ListedCommand command) { return layers.generalise(names(command)).text; };
    time.times += other.times;
    time.moving += other.moving;
    time.hidden += other.hidden;
    time.queued += other.queued;
    time.spare += other.spare;
    for (auto [command, seconds] : other.behind)
      behind[name(command)] += seconds;
    for (auto [command, seconds] : other.ahead)
      ahead[name(command)] += seconds;
    if (count == 0 || other.exposed > mostExposed) {
      before = other.before ? name(*other.before) : "the step's begin";
      after = other.after ? name(*other.after) : "the step's end";
      mostExposed = other.exposed;
    }
    time.exposed += other.exposed;
    ++count;
  }

private:
  double mostExposed = 0;
};

std::vector<std::pair<std::string, double>> longestFirst(const std::map<std::string, double> &named, double least,
                                                         size_t most) {
  std::vector<std::pair<std::string, double>> sorted(named.begin(), named.end());
  std::erase_if(sorted, [&](const auto &each) { return each.second < least; });
  std::ranges::stable_sort(sorted, std::greater(), [](const auto &each) { return each.second; });
  sorted.resize(std::min(most, sorted.size()));
  return sorted;
}

/// What keeps the rest from being hidden; empty where nothing is left.
std::string holderText(const Told &told, double step) {
  if (told.time.exposed < hardly * step)
    return "";
  std::vector<std::pair<std::string, double>> ahead = longestFirst(told.ahead, 0.1 * told.time.exposed, 1);
  if (!ahead.empty() && told.time.queued > 0.1 * told.time.exposed)
    return fmt::format("it is queued for {}, most of it behind {}", secondsText(told.time.queued), ahead.front().first);
  return fmt::format("it starts behind {}, and {} needs it", told.before, told.after);
}

void print(const std::string &what, const Told &told, double step) {
  constexpr size_t most = 3;
  const OrderTime &time = told.time;
  say("\n");
  sayHeading(fmt::format("{} ({})", what, told.list));
  say("\n  moves   {}{} a step", told.count > 1 ? fmt::format("{} of these: ", told.count) : "",
      secondsText(time.moving));
  if (time.exposed < hardly * step)
    say(", all of it hidden{}\n",
        time.spare > 0
            ? fmt::format(", done {} before it is needed", secondsText(time.spare / static_cast<double>(time.times)))
            : "");
  else
    say(", of which {} ({:.0f}%) are hidden and {} are waited for\n", secondsText(time.hidden),
        100 * time.hidden / time.moving, secondsText(time.exposed));
  bool isFirst = true;
  for (const auto &[name, seconds] : longestFirst(told.behind, 0.05 * time.moving, most)) {
    say("  {}  {:>8}  {}\n", isFirst ? "behind" : "      ", secondsText(seconds), name);
    isFirst = false;
  }
  if (std::string holder = holderText(told, step); !holder.empty())
    say("  held    {}\n", holder);
}

ordered_json toJson(const std::string &what, const Told &told, double step) {
  ordered_json behind = ordered_json::array();
  for (const auto &[name, seconds] : longestFirst(told.behind, 0, told.behind.size()))
    behind.push_back({{"what", name}, {"seconds", seconds}});
  return {{"what", what},
          {"list", told.list},
          {"count", told.count},
          {"times", told.time.times},
          {"moving", told.time.moving},
          {"hidden", told.time.hidden},
          {"exposed", told.time.exposed},
          {"queued", told.time.queued},
          {"spare", told.time.spare},
          {"behind", behind},
          {"held", holderText(told, step)}};
}

/// Equal layers together, in the order of their first starts.
std::vector<std::pair<std::string, Told>> tell(const std::map<ListedCommand, OrderTime> &times, const Names &names,
                                               const timing::Step &step, const LayerNames &layers) {
  std::vector<std::pair<std::string, Told>> all;
  std::map<std::pair<uint32_t, std::string>, size_t> known;
  for (const auto &[command, time] : times) {
    std::string what = layers.generalise(names(command)).text;
    auto [at, isNew] = known.try_emplace({command.list, what}, all.size());
    if (isNew)
      all.push_back({what, {}});
    Told &told = all[at->second].second;
    told.list = step.lists[command.list].name;
    told.add(time, names, layers);
  }
  return all;
}

/// How far the step is from the lower bound, which no order can beat.
void printSummary(const timing::Layout &layout, const timing::Simulated &simulated, const timing::LowerBound &bound) {
  double exposed = simulated.classes[bound.ofClass].moving();
  say("A step takes {} on {}; ranks wait {} of it for what moves, and no order of that takes less than {}\n",
      secondsText(simulated.seconds), layout.cluster().name(), secondsText(exposed), secondsText(bound.seconds));
}

template <typename Remedy> void tellRemedy(const std::optional<Remedy> &remedy, bool asJson, ordered_json &all) {
  if (remedy && !asJson)
    say("{}\n", textOf(*remedy));
  if (remedy)
    all.push_back(toJson(*remedy));
}

} // namespace

void explainOrder(const abi::Manifest &manifest, const timing::Layout &layout, bool asJson,
                  const std::function<std::optional<MoreAccumulation>()> &askForAccumulation) {
  timing::Step step = timing::readStep(manifest, abi::stepTimetable);
  timing::Simulator simulator(step, layout);
  timing::Simulated simulated = simulator.run();
  timing::LowerBound bound = timing::lowerBound(step, layout, {}, simulated);
  LayerNames layers(manifest);
  ordered_json roles = ordered_json::array(), remedies = ordered_json::array();
  if (!asJson)
    printSummary(layout, simulated, bound);
  if (waitingOf(step, layout).isNotable()) {
    tellRemedy(askForAccumulation(), asJson, remedies);
    tellRemedy(findFasterLink(step, layout), asJson, remedies);
  }
  for (const abi::Role &role : manifest.roles()) {
    OrderTimes watcher(step, simulator.classes().classOf()[abi::firstRankOf(role)]);
    simulator.run(&watcher);
    Names names(manifest, step, role);
    ordered_json moves = ordered_json::array();
    if (!asJson && manifest.roles_size() > 1)
      say("\nRole '{}'\n", role.name());
    if (!asJson && names.areNumbered())
      say("\nWhere several in a layer have the same name, such as the parts of a batch or of a gradient, the second "
          "ends in #2\n");
    for (const auto &[what, told] : tell(watcher.read(), names, step, layers)) {
      if (asJson)
        moves.push_back(toJson(what, told, simulated.seconds));
      else
        print(what, told, simulated.seconds);
    }
    roles.push_back({{"role", role.name()}, {"moves", moves}});
  }
  if (asJson)
    printJson(
        {{"seconds", simulated.seconds}, {"lower_bound", bound.seconds}, {"remedies", remedies}, {"roles", roles}});
}

} // namespace dtc
