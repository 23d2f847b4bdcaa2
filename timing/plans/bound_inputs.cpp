#include "timing/plans/bound_inputs.h"

#include "timing/plans/bubbles.h"
#include "timing/plans/exchanges.h"
#include "timing/plans/held.h"

#include <string>

namespace dtc::plans {

/// What follows a part that is new is new, too, except that only what it is made from counts for what is held.
void BoundInputs::set(const Candidate &candidate) {
  if (!last)
    last.emplace();
  bool isNew = !rows || candidate.mesh != last->mesh || candidate.splitsSequence != last->splitsSequence;
  if (isNew) {
    last->mesh = candidate.mesh;
    last->splitsSequence = candidate.splitsSequence;
    setMesh();
  }
  if (isNew |= candidate.state != last->state; isNew) {
    last->state = candidate.state;
    setState();
  }
  if (isNew |= candidate.microBatches != last->microBatches; isNew) {
    last->microBatches = candidate.microBatches;
    setMicroBatches();
  }
  if (isNew |= candidate.timetable != last->timetable; isNew) {
    last->timetable = candidate.timetable;
    setTimetable();
  }
  if (isNew || candidate.recompute != last->recompute) {
    last->recompute = candidate.recompute;
    setRecompute(isNew);
  }
}

void BoundInputs::setMesh() {
  pp = last->sizeOf("pp");
  dp = last->sizeOf("dp");
  tp = last->sizeOf("tp");
  cp = last->sizeOf("cp");
  data = context->laneOf(*last, "dp");
  tensor = context->laneOf(*last, "tp");
  along = context->laneOf(*last, "cp");
  pipeline = context->laneOf(*last, "pp");
  rows = &context->rowsOf(pipeline);
  room = context->roomFor(*last);
  splitsSequence = last->splitsSequence;
}

void BoundInputs::setState() {
  constexpr std::string_view hybridPrefix = "hsdp:";
  const std::string &state = last->state;
  hybrid = state.starts_with(hybridPrefix) ? std::stoll(state.substr(hybridPrefix.size())) : 0;
  isSplit[2] = state == "zero3" || hybrid > 0;
  isSplit[1] = state == "zero2" || isSplit[2];
  isSplit[0] = state == "zero1" || isSplit[1];
  reductionsOnce = reductionsOf(*this);
  gathersOnce = gathersOf(*this);
  copiesReductions = copiesReductionsOf(*this);
}

/// Gradients are reduced in each micro-batch, and parameters gathered, at least once: gathers may be shared.
void BoundInputs::setMicroBatches() {
  microBatches = last->microBatches;
  auto times = static_cast<double>(microBatches);
  reductions = reductionsOnce.times(isSplit[1] ? times : 1);
  gathers = gathersOnce.times(isSplit[2] ? times : 1);
  ofLayer = exchangesOfLayer(*this);
}

void BoundInputs::setTimetable() {
  timetable = isPipeline() ? &context->timetable(last->timetable, pp, microBatches) : nullptr;
  isFlushed = !timetable || timetable->isFlushed;
  bubble = bubbleSeconds(*this);
}

void BoundInputs::setRecompute(bool isNew) {
  recompute = abi::parseRecompute(last->recompute);
  if (double its = keptBytesOfLayer(*this); isNew || its != kept) {
    kept = its;
    heldAlone = heldBytes(*this, kept, 0);
    heldWithState = heldBytes(*this, kept, stateBytesOfParameter(*this) * model().layerParameters);
  }
}

} // namespace dtc::plans
