#include "tools/dtc/schedule/ScheduleText.h"
#include "tools/dtc/Colour.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dtc;
using namespace dtc::timetables;

static std::string listText(const std::vector<int32_t> &numbers) {
  std::string text;
  for (int32_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

void dtc::printSchedule(const ScheduleAnswer &answer) {
  const Simulated &simulated = answer.simulated;
  sayHeading(fmt::format("\n{}: {} stages on {} ranks, {} micro-batches\n", answer.timetable.name,
                         answer.timetable.stages(), answer.timetable.ranks.size(), answer.timetable.microBatches));
  say("  step                {:.6g}, of which a rank computes {:.6g}\n", simulated.seconds, simulated.meanWork());
  say("  bubble overhead     {:.4g} of a rank's work\n", simulated.bubbleOverhead());
  say("  bubble fraction     {:.4g} of the step\n", simulated.bubbleFraction());
  say("  without a barrier   {:.6g} from step to step; the rank that waits most waits {:.6g}\n", answer.steady.seconds,
      std::ranges::max(answer.steady.rankBubble));
  if (!answer.bestNamed.empty())
    say("  best named one      {} takes {:.6g}\n", answer.bestNamed, answer.namedSeconds);
  sayHeading("\n  rank  peak stashes      idle  stages\n");
  for (size_t rank = 0; rank < simulated.idle.size(); ++rank)
    say("  {:>4}  {:>12}  {:>8.5g}  {}\n", rank, answer.peakStashes[rank], simulated.idle[rank],
        listText(stagesOf(answer.timetable, static_cast<int32_t>(rank))));
  if (!answer.weightsOutOfOrder.empty())
    say("\n{}: results agree with other timetables within bounds, not in every bit.\n", answer.weightsOutOfOrder);
}

nlohmann::ordered_json dtc::entriesJson(const Timetable &timetable, const Simulated &simulated, size_t rank) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  const std::vector<Entry> &list = timetable.ranks[rank];
  for (size_t at = 0; at < list.size(); ++at) {
    const auto &[begin, end] = simulated.entries[rank][at];
    entries.push_back({{"entry", textOf(list[at])}, {"begin", begin}, {"end", end}});
    if (list[at].withNext)
      entries.back()["with"] = textOf(list[at + 1]);
  }
  return entries;
}

nlohmann::ordered_json dtc::toJson(const ScheduleAnswer &answer) {
  const Simulated &simulated = answer.simulated;
  nlohmann::ordered_json json = {{"timetable", answer.timetable.name},
                                 {"stages", answer.timetable.stages()},
                                 {"micro_batches", answer.timetable.microBatches},
                                 {"seconds", simulated.seconds},
                                 {"work", simulated.meanWork()},
                                 {"bubble_overhead", simulated.bubbleOverhead()},
                                 {"bubble_fraction", simulated.bubbleFraction()},
                                 {"seconds_without_barrier", answer.steady.seconds},
                                 {"weights_out_of_order", answer.weightsOutOfOrder}};
  if (!answer.bestNamed.empty())
    json["best_named"] = {{"timetable", answer.bestNamed}, {"seconds", answer.namedSeconds}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < simulated.idle.size(); ++rank)
    json["ranks"].push_back({{"rank", rank},
                             {"stages", stagesOf(answer.timetable, static_cast<int32_t>(rank))},
                             {"work", simulated.work[rank]},
                             {"idle", simulated.idle[rank]},
                             {"idle_without_barrier", answer.steady.rankBubble[rank]},
                             {"peak_stashes", answer.peakStashes[rank]},
                             {"entries", entriesJson(answer.timetable, simulated, rank)}});
  return json;
}
