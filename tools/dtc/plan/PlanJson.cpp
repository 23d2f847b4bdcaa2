// The answer of a plan for programs (docs/json.md).
#include "tools/dtc/plan/PlanText.h"
#include "tools/dtc/plan/WhyNot.h"

#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace dtc {

static ordered_json planJson(const plans::Evaluated &plan) {
  const plans::Candidate &its = plan.candidate;
  ordered_json json = {{"plan", its.text()},
                       {"devices", its.devices()},
                       {"mesh", its.meshText()},
                       {"strategy", its.strategyText()},
                       {"timetable", its.timetable},
                       {"recompute", its.recompute},
                       {"micro_batches", its.microBatches}};
  if (its.sizeOf("pp") == 1)
    json["timetable"] = nullptr;
  json.update({{"problem", plan.problem},
               {"fits", plan.fits()},
               {"seconds", plan.seconds},
               {"band", plan.band},
               {"mfu", plan.mfu},
               {"compute", plan.compute},
               {"exposed", plan.exposed},
               {"bubble", plan.bubble},
               {"host", plan.host},
               {"bytes", plan.bytes},
               {"lack_bytes", plan.lack},
               {"sent_bytes", plan.sent}});
  return json;
}

static ordered_json prunedJson(const plans::PrunedBy &pruned) {
  ordered_json json = {{"bound", std::string(pruned.bound)}, {"plans", pruned.candidates}};
  json[isOfBytes(pruned) ? "closest_bytes" : "closest_seconds"] = pruned.closest;
  return json;
}

static ordered_json numberJson(const PlanAnswer &answer, const PlannedNumber &number) {
  ordered_json json = {{"devices", number.devices()},
                       {"considered", number.outcome.considered},
                       {"simulated", number.outcome.evaluated.size()},
                       {"impossible", number.impossible()},
                       {"untried", number.untried()},
                       {"complete", number.outcome.isComplete},
                       {"problem", number.refusal},
                       {"room_bytes", plans::roomOf(number.problem)},
                       {"pruned", ordered_json::array()},
                       {"refined", number.refined},
                       {"plans", ordered_json::array()}};
  for (const plans::PrunedBy &pruned : number.outcome.pruned)
    if (pruned.candidates > 0)
      json["pruned"].push_back(prunedJson(pruned));
  for (const PlanRow &row : number.rows) {
    ordered_json plan = planJson(row.plan);
    plan["choices"] = row.choices;
    if (answer.target.tokens > 0)
      plan["training_seconds"] = trainingSeconds(answer, row.plan.seconds);
    if (answer.target.tokens > 0 && answer.target.price > 0)
      plan["training_cost"] = trainingCost(answer, row.plan.seconds, number.devices());
    json["plans"].push_back(std::move(plan));
  }
  return json;
}

/// Null where nothing was said about the training.
static ordered_json targetJson(const PlanAnswer &answer) {
  const PlanTarget &target = answer.target;
  if (target.tokens == 0)
    return nullptr;
  ordered_json json = {{"tokens", target.tokens}};
  if (target.days > 0) {
    json["days"] = target.days;
    json["kept"] = isInTime(target, answer.best().seconds, answer.number().problem.model.tokens());
  }
  if (target.price > 0)
    json["price"] = target.price;
  return json;
}

ordered_json toJson(const PlanAnswer &answer) {
  const PlannedNumber &number = answer.number();
  ordered_json json = {{"model", answer.model},
                       {"cluster", number.problem.cluster.name()},
                       {"parameters", number.problem.model.parameters()},
                       {"tokens", number.problem.model.tokens()},
                       {"given", answer.given},
                       {"constraints", answer.constraints},
                       {"target", targetJson(answer)},
                       {"devices", number.devices()},
                       {"least_devices", answer.isLeast},
                       {"least_is_proven", answer.isLeast && answer.isLeastProven},
                       {"simulated", answer.simulated},
                       {"seconds", answer.seconds},
                       {"proposed", planJson(number.best())},
                       {"certified", answer.wholeSeconds > 0},
                       {"whole_seconds", answer.wholeSeconds},
                       {"numbers", ordered_json::array()},
                       {"why", ordered_json::object()},
                       {"popular", ordered_json::array()},
                       {"front", ordered_json::array()},
                       {"commands", {answer.compileCommand, answer.runCommand}},
                       {"notes", answer.notes}};
  for (const PlannedNumber &each : answer.numbers)
    json["numbers"].push_back(numberJson(answer, each));
  if (number.rows.size() > 1) {
    const plans::Evaluated &second = number.rows[1].plan;
    json["why"] = {{"runner_up", second.candidate.text()},
                   {"reason", plans::whyBefore(number.problem, number.best(), second)},
                   {"differences", differencesText(second, number.best())}};
  }
  for (const Popular &each : answer.popular)
    json["popular"].push_back({{"name", std::string(each.name)},
                               {"plan", each.text},
                               {"verdict", each.verdict},
                               {"seconds", each.seconds},
                               {"lack_bytes", each.lack}});
  for (const plans::Evaluated &plan : answer.front)
    json["front"].push_back(planJson(plan));
  return json;
}

} // namespace dtc
