// The bounds. Symbols of comments: p ranks of a pipeline, m micro-batches, h hidden size, V vocabulary, L layers.
//
// What is sent is bounded because collectives over the same axes share a channel (passes/schedule/emit/Channels.h), on
// which one begins when the one before has ended: their times add up, and no step is shorter. What waits for others,
// what shares links with them and what a processor does meanwhile can only add to that (timing/events/simulate.h).
#include "timing/plans/bounds.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/recompute.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc::plans {

using abi::Collective;

namespace {

double real(int64_t number) { return static_cast<double>(number); }
double bytesOf(abi::DataType type) { return abi::elementType(type).bytes; }

/// A candidate in numbers.
struct Sizes {
  explicit Sizes(const Candidate &candidate)
      : pp(candidate.sizeOf("pp")), dp(candidate.sizeOf("dp")), tp(candidate.sizeOf("tp")),
        cp(candidate.sizeOf("cp")), microBatches(candidate.microBatches) {
    if (candidate.state.starts_with("hsdp:"))
      hybrid = std::stoll(candidate.state.substr(5));
    isSplit[2] = candidate.state == "zero3" || hybrid > 0;
    isSplit[1] = candidate.state == "zero2" || isSplit[2];
    isSplit[0] = candidate.state == "zero1" || isSplit[1];
  }

  /// Ranks that hold one copy of split state together.
  int64_t shards() const { return (hybrid > 0 ? hybrid : dp) * cp; }
  double slotShards() const { return isSplit[0] ? real(shards()) : 1; }
  double gradientShards() const { return slotShards(); }
  double parameterShards() const { return isSplit[2] ? real(shards()) : 1; }

  int64_t pp, dp, tp, cp, microBatches;
  int64_t hybrid = 0;       ///< neighbours that share state; 0: not hsdp
  bool isSplit[3] = {};     ///< slots; gradients in each micro-batch; parameters
};

/// A flush: all passes of a step end before the next begins. Without one, "seconds" is what a step adds to many, in
/// which some rank may have less to do than in the mean.
bool isFlushed(const BoundContext &context, const Candidate &candidate) {
  int64_t ranks = candidate.sizeOf("pp");
  return ranks == 1 || context.timetable(candidate.timetable, ranks, candidate.microBatches).isFlushed;
}

// Work

/// Products whose result the next layer reads, or whose gradient: not more than model flops say. These count rotary
/// embedding three times, which is computed twice and is no product: 9 operations an element of queries and keys,
/// beside 6 h for the products that give them, so at most 1.5 / (h + 1.5) of all. A model that multiplies its inputs
/// themselves, and no embedding, needs no gradient of them: two of three products are sure.
double productFlops(const ModelFacts &model) {
  double hidden = real(model.hidden), share = model.vocabulary > 0 ? 1 : 2.0 / 3;
  return share * model.flops() * (hidden > 0 ? hidden / (hidden + 1.5) : 1);
}

double headElements(const ModelFacts &model) { return real(model.hidden) * real(model.vocabulary); }

/// Elements behind the embedding that multiply every token: those of layers, and the head, tied or not.
double multipliers(const ModelFacts &model) {
  double head = headElements(model);
  return real(model.layers) * model.layerParameters + model.lastParameters + (model.lastParameters < head ? head : 0);
}

/// What model flops leave when every parameter multiplies every token is attention.
double attentionFlops(const ModelFacts &model) {
  if (model.vocabulary == 0 || model.layers == 0)
    return 0;
  return std::max(0.0, productFlops(model) - 6 * multipliers(model) * model.tokens());
}

/// Of the products of all layers with their weights: 6 for each element of a matrix and each token. Norms and biases
/// are less than 4 / h of a layer: there are at most a dozen vectors of h elements or of a matrix's width, and matrices
/// of 2 h² elements or more. 0 where the layers of the model are not so.
double layerFlops(const ModelFacts &model) {
  if (model.hidden < 8 || model.vocabulary == 0 || model.layers == 0)
    return 0;
  double flops = 6 * real(model.layers) * model.layerParameters * (1 - 4 / real(model.hidden)) * model.tokens();
  return flops + 6 * headElements(model) * model.tokens() <= model.flops() ? flops : 0;
}

/// What is recomputed in products and attention. Where only a layer's input is kept, attention needs what goes into it
/// and its own result, and the feed-forward block what its first products give: of each block only the last product,
/// which has no more elements than those before it, may be left out. So at least half of the forward products of
/// weights, 2 of 6 operations, are done again, and the whole of attention, a third of its model flops.
double recomputedFlops(const ModelFacts &model, const Candidate &candidate) {
  auto how = abi::parseRecompute(candidate.recompute);
  if (!how || how->kind != abi::Recompute::Kind::Full)
    return 0;
  return layerFlops(model) / 6 + attentionFlops(model) / 3;
}

/// What all ranks compute in products and attention. Backward, attention does five products of scores, not four: 14
/// twelfths of its model flops.
double executedFlops(const ModelFacts &model, const Candidate &candidate) {
  return productFlops(model) + attentionFlops(model) / 6 + recomputedFlops(model, candidate);
}

// Bytes

/// Bytes of parameters, slots and gradients on the fullest rank of a pipeline without counting its place in it: that
/// rank holds at least the mean. With tp all would be split at best; norms and biases are not. Gradients live as long
/// as the state (test/e2e/memory_test.cpp has their bytes): in 32 bits, or in what they travel in if there is nothing
/// to add; zero1 adds up whole ones. With PipeDream each is gone after its update, so they do not count. 16-bit copies
/// of parameters, which some targets keep, are not counted.
double stateBytesOf(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  double gradients = 0;
  if (isFlushed(context, candidate)) {
    gradients = (sizes.microBatches > 1 ? 4 : bytesOf(model.gradients)) / sizes.gradientShards();
    if (candidate.state == "zero1" && sizes.microBatches > 1 && sizes.shards() > 1)
      gradients += 4;
  }
  return (4 / sizes.parameterShards() + model.slotBytes / sizes.slotShards() + gradients) / real(sizes.tp);
}

double stateBytes(const BoundContext &context, const Candidate &candidate) {
  return stateBytesOf(context, candidate) * context.problem().model.parameters() / real(candidate.sizeOf("pp"));
}

/// What a layer keeps at least of a micro-batch: its input or something as large, from which its weight gradients
/// follow. In the type of products; between blocks it may be split along the sequence. 0 where nothing need be kept on
/// the device.
double keptBytes(const ModelFacts &model, const Candidate &candidate) {
  auto how = abi::parseRecompute(candidate.recompute);
  if (!how || how->kind == abi::Recompute::Kind::Offload)
    return 0;
  Sizes sizes(candidate);
  double tokens = model.tokens() / real(sizes.microBatches) / real(sizes.dp) / real(sizes.cp);
  double split = candidate.splitsSequence ? real(sizes.tp) : 1;
  return tokens * real(model.hidden) * bytesOf(model.compute) / split / real(how->group);
}

/// At the end of a forward pass there is what all layers of a rank keep, but for the first one, whose input follows
/// from the tokens or is counted elsewhere. Where stages have n_s layers and hold k_s micro-batches, some rank has (n_s
/// - 1) (state + k_s kept) or more, and all n_s - 1 add up to L less the stages: so it has at least that over the sum
/// of 1 / (state + k_s kept), whatever the cut.
double heldBytes(const BoundContext &context, const Candidate &candidate, double state) {
  const ModelFacts &model = context.problem().model;
  double kept = keptBytes(model, candidate);
  int64_t ranks = candidate.sizeOf("pp");
  if (ranks == 1)
    return std::max(0.0, real(model.layers - 1)) * kept;
  const TimetableFacts &facts = context.timetable(candidate.timetable, ranks, candidate.microBatches);
  double inverse = 0, layers = real(model.layers - static_cast<int64_t>(facts.held.size()));
  for (double held : facts.held)
    inverse += 1 / std::max(state + held * kept, 1e-30);
  return inverse > 0 ? std::max(layers, 0.0) / inverse : 0;
}

double activationBytes(const BoundContext &context, const Candidate &candidate) {
  return heldBytes(context, candidate, 0);
}

/// Both on the same rank: of a pipeline's stage the state of its layers alone.
double allBytes(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  double state = stateBytesOf(context, candidate);
  if (candidate.sizeOf("pp") == 1)
    return state * model.parameters() + heldBytes(context, candidate, 0);
  return heldBytes(context, candidate, state * model.layerParameters);
}

// Exchange

Lanes lanesOf(std::initializer_list<Lane> lanes) {
  Lanes several;
  std::ranges::copy_if(lanes, std::back_inserter(several), [](const Lane &lane) { return lane.size > 1; });
  return several;
}

/// The ranks that hold one copy of the state, or would all hold the same.
Lanes stateLanes(const BoundContext &context, const Candidate &candidate) {
  Sizes sizes(candidate);
  Lane data = context.laneOf(candidate, "dp");
  if (sizes.hybrid > 0)
    data.size = sizes.hybrid; // neighbours
  return lanesOf({data, context.laneOf(candidate, "cp")});
}

/// Elements whose whole gradients a rank of the mean stage reduces. Rows of an embedding may travel in its place; the
/// head's product gives all of its gradient, tied or not.
double reducedElements(const BoundContext &context, const Candidate &candidate) {
  return multipliers(context.problem().model) / real(candidate.sizeOf("pp")) / real(candidate.sizeOf("tp"));
}

/// All-reduce once a step; with split state reduce-scatter, once or (zero2, zero3, hsdp) for each micro-batch.
LeastExchange reductions(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  auto kind = sizes.isSplit[0] ? Collective::REDUCE_SCATTER : Collective::ALL_REDUCE;
  double bytes = reducedElements(context, candidate) * bytesOf(model.gradients);
  LeastExchange once = context.exchange(stateLanes(context, candidate), kind, bytes, model.gradients);
  return once.times(sizes.isSplit[1] ? real(sizes.microBatches) : 1);
}

/// Copies of hsdp add up their pieces, at least once a step.
LeastExchange copiesReductions(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  if (sizes.hybrid == 0)
    return {};
  Lane data = context.laneOf(candidate, "dp");
  double bytes = reducedElements(context, candidate) * bytesOf(model.gradients) / real(sizes.shards());
  return context.exchange(lanesOf({{data.stride * sizes.hybrid, sizes.dp / sizes.hybrid}}), Collective::ALL_REDUCE,
                          bytes, model.gradients);
}

/// Updated parameters once a step (zero1, zero2), in 32 bits; with split parameters those that every token meets, for
/// each micro-batch at least once, since gathers may be shared, in the type of products.
LeastExchange gathers(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  Lanes lanes = stateLanes(context, candidate);
  if (!sizes.isSplit[0])
    return {};
  if (!sizes.isSplit[2])
    return context.exchange(lanes, Collective::ALL_GATHER,
                            4 * model.parameters() / real(sizes.pp) / real(sizes.tp), abi::F32);
  double bytes = reducedElements(context, candidate) * bytesOf(model.compute);
  return context.exchange(lanes, Collective::ALL_GATHER, bytes, model.compute).times(real(sizes.microBatches));
}

/// How many sums over tensor-parallel ranks a layer has in the forward pass, and as many backward: two, or one where
/// attention and the feed-forward block read the same input and their sums are added first (GPT-NeoX).
double sumsOfLayer(const ModelFacts &) { return 1; }

/// Of one layer and one micro-batch: all-reduces or, with a split sequence, gathers and scatters.
LeastExchange ofLayer(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  Lanes lanes = lanesOf({context.laneOf(candidate, "tp")});
  double tokens = model.tokens() / real(sizes.microBatches) / real(sizes.dp) / real(sizes.cp);
  double bytes = tokens * real(model.hidden) * bytesOf(model.compute);
  LeastExchange layer;
  if (candidate.splitsSequence) {
    layer += context.exchange(lanes, Collective::ALL_GATHER, bytes, model.compute);
    layer += context.exchange(lanes, Collective::REDUCE_SCATTER, bytes, model.compute);
  } else {
    layer = context.exchange(lanes, Collective::ALL_REDUCE, bytes, model.compute);
  }
  return layer.times(2 * sumsOfLayer(model));
}

double reductionSeconds(const BoundContext &context, const Candidate &candidate) {
  if (!isFlushed(context, candidate))
    return 0;
  return std::max(reductions(context, candidate).seconds, copiesReductions(context, candidate).seconds);
}

/// On the channel of the reductions, too, where the axis is one: several axes might be named in another order.
double gatherSeconds(const BoundContext &context, const Candidate &candidate) {
  if (!isFlushed(context, candidate))
    return 0;
  double seconds = gathers(context, candidate).seconds;
  bool sharesChannel = seconds > 0 && stateLanes(context, candidate).size() == 1;
  return sharesChannel ? seconds + reductions(context, candidate).seconds : seconds;
}

/// Some stages of one rank have L / p layers or more, rounded up.
double tensorSeconds(const BoundContext &context, const Candidate &candidate) {
  int64_t ranks = candidate.sizeOf("pp");
  if (!isFlushed(context, candidate) || candidate.sizeOf("tp") == 1)
    return 0;
  double layers = real((context.problem().model.layers + ranks - 1) / ranks);
  return layers * real(candidate.microBatches) * ofLayer(context, candidate).seconds;
}

// Compute

/// By which a rank's processor computes later because it moves something: of one group, since a processor that moves
/// for two may do it at once. All places of a pipeline together.
double movingSeconds(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  double tensor = 0, state = 0;
  if (candidate.sizeOf("tp") > 1)
    tensor = real(model.layers) * real(candidate.microBatches) * ofLayer(context, candidate).processor;
  state = real(candidate.sizeOf("pp")) * std::max(reductions(context, candidate).processor,
                                                  gathers(context, candidate).processor);
  return std::max(tensor, state);
}

/// Where row s of a pipeline has the share f_s of all products, does them at the rate R_s of its slowest rank, and has
/// u_s seconds of other work, a step takes T >= f_s / R_s + u_s for every s. Weighted with R_s / sum R, and with all u
/// where the weight is least: T >= 1 / sum R + min R / sum R * sum u.
///
/// Without a flush a step is what one more adds to many (timing/events/forecast.cpp). On the rank that ended last there
/// is one more backward pass then, of the stage with the fewest layers at least. Such pipelines are cut evenly.
double computeSeconds(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  const Rows &rows = context.rowsOf(context.laneOf(candidate, "pp"));
  if (!isFlushed(context, candidate)) {
    double fewest = std::floor(real(model.layers) / real(candidate.sizeOf("pp")));
    return fewest * 2 / 3 * layerFlops(model) / real(std::max<int64_t>(1, model.layers)) / rows.most;
  }
  double others = updateSeconds(context, candidate) + movingSeconds(context, candidate);
  return context.stepSeconds() + executedFlops(model, candidate) / rows.sum +
         rows.least / rows.sum * others;
}

// Bubbles
//
// Rank r of a pipeline begins when a micro-batch has gone forward through the stages before its first one. Behind its
// last input gradient the gradient goes back through them, and the first stage has weight gradients to compute. Where
// backward passes are whole, only the weight gradients of one micro-batch follow that input gradient on rank r.
// (Otherwise many may, so what is behind it is not counted.) Forward passes, input gradients and weight gradients are
// each a third of model flops; of attention, more than a third is input gradient.

/// Shares of a micro-batch's work: that of the stages before a rank which comes before and behind what the rank does;
/// that of the first stage which comes behind that. And for how many micro-batches the rank is busy in between.
struct Pipe {
  Pipe(const TimetableFacts &facts, const Candidate &candidate)
      : facts(facts), ranks(candidate.sizeOf("pp")), around(facts.splitsBackward ? 1.0 / 3 : 2.0 / 3),
        last(facts.splitsBackward ? 0 : 1.0 / 3), busy(real(candidate.microBatches) - last),
        microBatches(real(candidate.microBatches)) {}
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

bool canCut(const Pipe &pipe, const Rows &rows, const Indivisible &work, double seconds) {
  for (int64_t first = 1; first <= work.layers; ++first) {
    int64_t taken = layersInTime(pipe, rows, work, first, seconds);
    if (taken >= work.layers)
      return true;
  }
  return false;
}

/// The least time in which whole layers can be done.
double wholeLayers(const Pipe &pipe, const Rows &rows, const Indivisible &work) {
  if (work.layer <= 0 || work.layers < pipe.ranks * pipe.facts.perRank)
    return 0;
  double below = 0, above = 2 * (pipe.microBatches + real(pipe.ranks)) *
                            (real(work.layers) * work.layer + work.head) / rows.least;
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

double pipelineSeconds(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Pipe pipe(context.timetable(candidate.timetable, candidate.sizeOf("pp"), candidate.microBatches), candidate);
  const Rows &rows = context.rowsOf(context.laneOf(candidate, "pp"));
  double microBatch = productFlops(model) / pipe.microBatches, seconds = roundTrips(pipe, microBatch, rows);
  if (pipe.facts.perRank == 1 && rows.areAlike())
    seconds = std::max(seconds, continuousCut(pipe) * microBatch / rows.most);
  Indivisible work = {layerFlops(model) / real(std::max<int64_t>(1, model.layers)) / pipe.microBatches,
                      6 * headElements(model) * model.tokens() / pipe.microBatches, model.layers};
  return context.stepSeconds() + std::max(seconds, wholeLayers(pipe, rows, work));
}

double bubbleSeconds(const BoundContext &context, const Candidate &candidate) {
  int64_t ranks = candidate.sizeOf("pp");
  if (ranks == 1 || context.problem().model.vocabulary == 0 || !isFlushed(context, candidate))
    return 0;
  return context.once({context.laneOf(candidate, "pp"), candidate.timetable, candidate.microBatches},
                      [&] { return pipelineSeconds(context, candidate); });
}

constexpr std::array<Bound, 8> boundTable = {{
    {"parameters and their state", Bound::Of::Bytes, stateBytes},
    {"activations in flight", Bound::Of::Bytes, activationBytes},
    {"state and activations", Bound::Of::Bytes, allBytes},
    {"compute", Bound::Of::Seconds, computeSeconds},
    {"compute and bubble", Bound::Of::Seconds, bubbleSeconds},
    {"gradients over the links", Bound::Of::Seconds, reductionSeconds},
    {"parameters over the links", Bound::Of::Seconds, gatherSeconds},
    {"activations over the tensor-parallel links", Bound::Of::Seconds, tensorSeconds},
}};

} // namespace

std::span<const Bound> bounds() { return boundTable; }

Least leastOf(const BoundContext &context, const Candidate &candidate) {
  constexpr double Rounding = 1 - 1e-9; // sums here are added in another order than the compiler's
  Least least{-1, -1, nullptr, nullptr};
  for (const Bound &bound : bounds()) {
    double value = Rounding * bound.value(context, candidate);
    bool isOfBytes = bound.of == Bound::Of::Bytes;
    if (value > (isOfBytes ? least.bytes : least.seconds)) {
      (isOfBytes ? least.bytes : least.seconds) = value;
      (isOfBytes ? least.ofBytes : least.ofSeconds) = &bound;
    }
  }
  return least;
}

/// What the optimizer reads and writes: parameters and slots both ways, and gradients, of what a rank updates.
double updateSeconds(const BoundContext &context, const Candidate &candidate) {
  const ModelFacts &model = context.problem().model;
  Sizes sizes(candidate);
  double bytes = 8 + 2 * model.slotBytes + std::min(4.0, bytesOf(model.gradients));
  return bytes * model.parameters() / real(sizes.tp) / sizes.slotShards() / context.memoryRate();
}

double floorShare(const Problem &problem, const Candidate &candidate) {
  double depth = real(problem.model.hidden) / real(candidate.sizeOf("tp"));
  return depth > 0 ? depth / (depth + 16) : 0;
}

} // namespace dtc::plans
