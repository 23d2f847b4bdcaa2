#include "tools/dtc/forecast/ForecastMemory.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/report/Series.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>

namespace dtc {

using nlohmann::ordered_json;

ForecastMemory::ForecastMemory(const abi::Manifest &manifest, const timing::EqualRanks &classes, timing::Watcher *next)
    : manifest(manifest), classes(classes), next(next) {
  for (int number = 0; number < classes.count(); ++number) {
    int rank = classes.representativeOf(number);
    const abi::Role &role = abi::roleOf(manifest, rank);
    auto known = memories.find(&role);
    if (known == memories.end())
      known = memories.emplace(&role, timing::StepMemory(manifest, role, abi::stepTimetable)).first;
    ofClasses.push_back({number, rank, role, known->second, std::vector<double>(known->second.commands(), -1)});
  }
}

/// A transfer is reported a second time, with the times when it really ran.
void ForecastMemory::executed(const timing::Executed &executed) {
  if (next)
    next->executed(executed);
  const abi::Command &command = manifest.lists(static_cast<int>(executed.list)).commands(int(executed.command));
  if (abi::isStart(command) && !executed.isStart)
    return;
  OfClass &own = ofClasses[static_cast<size_t>(executed.ofClass)];
  own.begins[own.memory.firstCommands()[static_cast<size_t>(executed.entry)] + executed.command] = executed.begin;
}

/// "at h.3.mlp (micro, command 12)".
std::string ForecastMemory::placeOf(const OfClass &own, size_t command) const {
  const std::vector<size_t> &firsts = own.memory.firstCommands();
  auto entry = static_cast<size_t>(std::ranges::upper_bound(firsts, command) - firsts.begin()) - 1;
  abi::Unrolled entries = abi::unroll(abi::timetableOf(own.role, abi::stepTimetable), 1);
  abi::CommandList list = abi::Resolver(manifest, own.role).resolve(*entries[entry].entry);
  auto number = static_cast<int>(command - firsts[entry]);
  return fmt::format("at {} ({}, command {})", abi::locationOf(manifest, list.commands(number)), list.name(), number);
}

void ForecastMemory::print() const {
  constexpr size_t Most = 8;
  std::vector<const OfClass *> ofRoles; // the first class of each
  for (const OfClass &own : ofClasses)
    if (std::ranges::find(ofRoles, &own.role, [](auto *each) { return &each->role; }) == ofRoles.end())
      ofRoles.push_back(&own);
  sayHeading("\nMemory of a rank\n");
  for (const OfClass *own : std::span(ofRoles).first(std::min(Most, ofRoles.size())))
    say("  {:<18} {:>10}; most is in use {}\n", own->role.name(), bytesText(double(own->role.arena_bytes())),
        placeOf(*own, own->memory.peak()));
  if (ofRoles.size() > Most)
    say("  and {} roles more (--json has them)\n", ofRoles.size() - Most);
  const abi::Role &largest =
      (*std::ranges::max_element(ofRoles, {}, [](auto *each) { return each->role.arena_bytes(); }))->role;
  if (ofRoles.size() > 1)
    say("  Of these '{}' takes most:\n", largest.name());
  for (const abi::MemoryUse &use : largest.memory())
    if (use.bytes() > 0)
      say("    {:<32} {:>10}\n", use.category(), bytesText(double(use.bytes())));
}

ordered_json ForecastMemory::json(const OfClass &own) const {
  constexpr size_t MostPoints = 300;
  Series live;
  for (size_t at = 0; at < own.memory.commands(); ++at)
    live.add(static_cast<int64_t>(at), static_cast<double>(own.memory.liveAt(at)));
  // The parts of a bucket are started together.
  std::vector<double> begins = own.begins;
  for (size_t at = 0; at < begins.size(); ++at)
    if (begins[at] < 0)
      begins[at] = at == 0 ? 0 : begins[at - 1];
  uint64_t most = 0;
  ordered_json answer = {{"rank", own.rank}, {"ranks", classes.sizeOf(own.number)}, {"role", own.role.name()}};
  ordered_json categories = ordered_json::object(), bytes = ordered_json::object();
  for (const auto &[name, always] : own.memory.always()) {
    categories[name] = always;
    most += always;
  }
  for (const timing::MemoryCategory &category : own.memory.categories()) {
    categories[category.name] = category.most;
    most += category.most;
  }
  ordered_json seconds = ordered_json::array();
  for (int64_t at : thinned(live, MostPoints).steps) {
    seconds.push_back(begins[static_cast<size_t>(at)]);
    for (const timing::MemoryCategory &category : own.memory.categories())
      bytes[category.name].push_back(category.live[static_cast<size_t>(at)]);
  }
  answer["peak_bytes"] = most;
  answer["arena_bytes"] = own.role.arena_bytes();
  answer["categories"] = categories;
  size_t peak = own.memory.peak();
  if (own.memory.commands() > 0)
    answer["peak"] = {
        {"seconds", begins[peak]}, {"live_bytes", own.memory.liveAt(peak)}, {"where", placeOf(own, peak)}};
  answer["over_time"] = {{"seconds", seconds}, {"bytes", bytes}};
  return answer;
}

ordered_json ForecastMemory::json() const {
  ordered_json answer = ordered_json::array();
  for (const OfClass &own : ofClasses)
    answer.push_back(json(own));
  return answer;
}

} // namespace dtc
