// The bound of a pipeline's bubble. Symbols: p ranks, m micro-batches.
//
// Rank r of a pipeline begins when a micro-batch has gone forward through the stages before its first one. Behind its
// last input gradient the gradient goes back through them, and the first stage has weight gradients to compute. Where
// backward passes are whole, only the weight gradients of one micro-batch follow that input gradient on rank r.
// (Otherwise many may, so what is behind it is not counted.) Forward passes, input gradients and weight gradients are
// each a third of model flops; of attention, more than a third is input gradient.
#include "timing/plans/bubbles.h"

#include "timing/plans/work.h"

#include <algorithm>
#include <cmath>

namespace dtc::plans {

namespace {

/// Shares of a micro-batch's work: that of the stages before a rank which comes before and behind what the rank does;
/// that of the first stage which comes behind that. And for how many micro-batches the rank is busy in between.
struct Pipe {
  explicit Pipe(const BoundInputs &inputs)
      : facts(*inputs.timetable), ranks(inputs.pp), around(facts.splitsBackward ? 1.0 / 3 : 2.0 / 3),
        last(facts.splitsBackward ? 0 : 1.0 / 3), busy(real(inputs.microBatches) - last),
        microBatches(real(inputs.microBatches)) {}
  const TimetableFacts &facts;
  int64_t ranks;
  double around, last, busy, microBatches;
};

/// Any cut of all work, in however small pieces: x_r of it, X_r before rank r, takes T >= m x_0 and, in times of one
/// micro-batch, T >= around X_r + busy x_r + last x_0 for all others. As much as possible on each rank leaves the least
/// for the next: with q = (1 - around / busy)^(p - 1), X reaches (T - last x_0) / around (1 - q) + q x_0, and must
/// reach 1. That is linear in x_0, which is T / m or nothing where it is the largest.
double continuousCut(const Pipe &pipe) {
  double q = std::pow(1 - pipe.around / pipe.busy, real(pipe.ranks - 1));
  auto reached = [&](double first) { return (1 - pipe.last * first) / pipe.around * (1 - q) + q * first; };
  return 1 / std::max(reached(0), reached(1 / pipe.microBatches));
}

/// A layer and the head, of one micro-batch, at the rate of each row.
struct Indivisible {
  double layer, head; ///< flops
  int64_t layers;
};

/// How many layers ranks can have, `first` of them on the first rank, so that each is done in time. As many as possible
/// on each rank leave the fewest for the others: with one layer more before it, a rank can have at most one fewer.
int64_t layersInTime(const Pipe &pipe, const Rows &rows, const Indivisible &work, int64_t first, double seconds) {
  bool isOneEach = pipe.facts.perRank == 1;
  int64_t taken = 0;
  for (int64_t rank = 0; rank < pipe.ranks; ++rank) {
    double rate = rows.rates[static_cast<size_t>(rank)], busy = rank == 0 ? pipe.microBatches : pipe.busy;
    // Of several stages, the first ones have one layer each or more.
    double before = pipe.around * real(isOneEach ? std::min(taken, work.layers) : rank) * work.layer / rows.most;
    double behind = rank == 0 ? 0 : pipe.last * real(isOneEach ? first : 1) * work.layer / rows.most;
    bool hasHead = rank == (pipe.facts.isInV ? 0 : pipe.ranks - 1);
    double left = seconds - before - behind - (hasHead ? busy * work.head / rate : 0);
    if (left < 0)
      return 0;
    auto most = static_cast<int64_t>(std::floor(left / (busy * work.layer / rate) + 1e-9));
    if (rank == 0 && most < first)
      return 0;
    taken += rank == 0 ? first : most;
  }
  return taken;
}

/// Where the first rank cannot have so many layers in time, it cannot have more.
bool canCut(const Pipe &pipe, const Rows &rows, const Indivisible &work, double seconds) {
  for (int64_t first = 1; first <= work.layers; ++first) {
    int64_t taken = layersInTime(pipe, rows, work, first, seconds);
    if (taken >= work.layers)
      return true;
    if (taken == 0)
      return false;
  }
  return false;
}

/// The least time in which whole layers can be done.
double wholeLayers(const Pipe &pipe, const Rows &rows, const Indivisible &work) {
  if (work.layer <= 0 || work.layers < pipe.ranks * pipe.facts.perRank)
    return 0;
  double below = 0,
         above = 2 * (pipe.microBatches + real(pipe.ranks)) * (real(work.layers) * work.layer + work.head) / rows.least;
  for (int round = 0; round < 30; ++round) {
    double middle = (below + above) / 2;
    (canCut(pipe, rows, work, middle) ? above : below) = middle;
  }
  return below;
}

/// A micro-batch is in the first stage's stash while it goes forward through all stages and back: of the k that fit
/// there at a time (heldBytes), m take m / k such rounds.
double roundTrips(const Pipe &pipe, double microBatch, const Rows &rows) {
  double held = pipe.facts.held.empty() ? 0 : pipe.facts.held.front();
  return held > 0 ? pipe.microBatches / held * 2.0 / 3 * microBatch / rows.most : 0;
}

double pipelineSeconds(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  const Rows &rows = *inputs.rows;
  Pipe pipe(inputs);
  double microBatch = productFlops(model) / pipe.microBatches, seconds = roundTrips(pipe, microBatch, rows);
  if (pipe.facts.perRank == 1 && rows.areAlike())
    seconds = std::max(seconds, continuousCut(pipe) * microBatch / rows.most);
  Indivisible work = {layerFlops(model) / real(std::max<int64_t>(1, model.layers)) / pipe.microBatches,
                      6 * headElements(model) * model.tokens() / pipe.microBatches, model.layers};
  return inputs.context->stepSeconds() + std::max(seconds, wholeLayers(pipe, rows, work));
}

} // namespace

double bubbleSeconds(const BoundInputs &inputs) {
  if (!inputs.isPipeline() || inputs.model().vocabulary == 0 || !inputs.isFlushed)
    return 0;
  return inputs.context->once({inputs.pipeline, inputs.candidate().timetable, inputs.microBatches},
                              [&] { return pipelineSeconds(inputs); });
}

} // namespace dtc::plans
