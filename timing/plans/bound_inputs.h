// What the bounds of a candidate are computed from: its sizes, and what its state, micro-batches and timetable take. In
// the order of forEachCandidate, neighbours share most of that, and it is worked out again only where they differ.
#pragma once

#include "runtime/abi/recompute.h"
#include "timing/plans/bound_context.h"
#include "timing/plans/candidate.h"

#include <optional>

namespace dtc::plans {

class BoundInputs {
public:
  /// `context` outlives it.
  explicit BoundInputs(const BoundContext &context) : context(&context) {}
  BoundInputs(const BoundContext &context, const Candidate &candidate) : BoundInputs(context) { set(candidate); }

  void set(const Candidate &candidate);

  const ModelFacts &model() const { return context->problem().model; }
  const Candidate &candidate() const { return *last; }
  bool isPipeline() const { return pp > 1; }

  /// Ranks that hold one copy of split state together.
  int64_t shards() const { return (hybrid > 0 ? hybrid : dp) * cp; }
  double slotShards() const { return isSplit[0] ? static_cast<double>(shards()) : 1; }
  double gradientShards() const { return slotShards(); }
  double parameterShards() const { return isSplit[2] ? static_cast<double>(shards()) : 1; }

  const BoundContext *context;

  // Of the mesh.
  int64_t pp = 1, dp = 1, tp = 1, cp = 1;
  Lane data, tensor, along, pipeline; ///< of dp, tp, cp and pp
  const Rows *rows = nullptr;         ///< of the pipeline
  double room = 0;                    ///< BoundContext::roomFor
  bool splitsSequence = false;

  // Of how state is split.
  int64_t hybrid = 0;             ///< neighbours that share state; 0: not hsdp
  bool isSplit[3] = {};           ///< slots; gradients in each micro-batch; parameters
  LeastExchange copiesReductions; ///< of a step: see exchanges.h

  // Of micro-batches.
  int64_t microBatches = 1;
  LeastExchange reductions, gathers; ///< of a step
  LeastExchange ofLayer;             ///< of one layer and one micro-batch, over tensor-parallel ranks

  // Of the timetable.
  const TimetableFacts *timetable = nullptr; ///< null: without a pipeline
  /// A flush: all passes of a step end before the next begins. Without one, "seconds" is what a step adds to many, in
  /// which some rank may have less to do than in the mean.
  bool isFlushed = true;
  double bubble = 0; ///< bubbleSeconds

  // Of recomputation.
  std::optional<abi::Recompute> recompute;
  double heldAlone = 0, heldWithState = 0; ///< bytes: see heldBytes

private:
  void setMesh();
  void setState();
  void setMicroBatches();
  void setTimetable();
  void setRecompute(bool isNew);

  std::optional<Candidate> last;
  LeastExchange reductionsOnce, gathersOnce;
  double kept = 0;
};

} // namespace dtc::plans
