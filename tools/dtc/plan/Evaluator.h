// Plans for candidates: each is placed, packed and simulated, as `dtc compile --cluster` does it, without generating
// code.
//
// Candidates with equal micro-batches have the same *what*, which is made once for each thread and cloned. Candidates
// of one mesh and strategy share *where*, too, so those that are handed over together are best neighbours. An
// evaluation does not depend on what was evaluated before, nor on the thread.
//
// The layers are cut evenly, unless ranks have different devices: then by costs, as `dtc compile --cluster` cuts them
// (BalanceStages.h), because an even cut would leave fast devices waiting for slow ones. Buckets are chosen by costs.
// Memory is what `dtc compile --cluster` requires, arenas and the scratch memory of kernels, but not what copies keep
// on the host.
#pragma once

#include "timing/plans/search.h"
#include "tools/dtc/CompileModel.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// How plans are refined.
struct Refining {
  uint64_t effort = 1;        ///< plans that are tried for the order; 1: none is looked for
  bool mixesRecompute = true; ///< whether layers may recompute otherwise than the candidate says
};

/// What refining found.
struct RefinedPlan {
  plans::Evaluated evaluated; ///< with the choices
  /// As --choices reads them: timetable, cut, recomputation by layer, order, buckets. `dtc compile` with the
  /// candidate's --mesh, --strategy and --set accumulation, these choices, the same --cluster and --schedule-effort 1
  /// predicts the same step. (Without --schedule-effort 1 it goes on searching for a better order from there.)
  std::string choices;
  bool isMixed = false; ///< layers do not all recompute what the candidate says
};

class Evaluator {
public:
  /// `request`: the model, its settings and target; what candidates decide is replaced. `cluster`: also that of every
  /// problem. `threads`: candidates that are evaluated at the same time.
  Evaluator(const CompileRequest &request, const timing::Cluster &cluster, int threads);
  ~Evaluator();

  /// The facts that bounds need. Throws Error where the model or a setting is wrong.
  plans::ModelFacts facts() const;

  /// In their order. What a candidate makes impossible is its Evaluated::problem; an Error is thrown only for what
  /// would go wrong with every candidate: facts() throws it before.
  ///
  /// Evaluated::floor is that of PlanFloor.h, also where something is recomputed.
  std::vector<plans::Evaluated> evaluate(const plans::Problem &problem, std::span<const plans::Candidate> candidates);

  /// Looks for a better cut, a mix of what is recomputed, and a better order. Never worse than the candidate as it was
  /// evaluated: what does not fit is never taken for what does, nor a longer step for a shorter one.
  RefinedPlan refine(const plans::Problem &problem, const plans::Evaluated &found, const Refining &how);

  /// The same for several, in their order, some at the same time.
  std::vector<RefinedPlan> refineAll(const plans::Problem &problem, std::span<const plans::Evaluated> found,
                                     const Refining &how);

private:
  struct Worker; ///< a context with its modules; one for each thread
  std::vector<std::unique_ptr<Worker>> workers;
  std::map<std::string, size_t> homes; ///< of each mesh and strategy: the worker that placed it last
};

} // namespace dtc
