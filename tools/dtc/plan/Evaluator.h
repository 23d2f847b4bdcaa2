// Plans for candidates: each is placed, packed and simulated, as `dtc compile --cluster` does it, without generating code.
//
// Candidates with equal micro-batches have the same *what*, which is made once for each thread and cloned. Candidates of
// one mesh and strategy share *where*, too, so those that are handed over together are best neighbours.
#pragma once

#include "timing/plans/search.h"
#include "tools/dtc/CompileModel.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// What refining found.
struct RefinedPlan {
  plans::Evaluated evaluated; ///< with the choices
  std::string choices;        ///< as --choices reads them: cut, recomputation by layer, order, buckets
};

class Evaluator {
public:
  /// `request`: the model, its settings and target; what candidates decide is replaced. `threads`: candidates that are
  /// evaluated at the same time.
  Evaluator(const CompileRequest &request, const timing::Cluster &cluster, int threads);
  ~Evaluator();

  /// The facts that bounds need. Throws Error where the model or a setting is wrong.
  plans::ModelFacts facts() const;

  /// In their order. What a candidate makes impossible is its Evaluated::problem; an Error is thrown only for what
  /// would go wrong with every candidate.
  std::vector<plans::Evaluated> evaluate(const plans::Problem &problem, std::span<const plans::Candidate> candidates);

  /// Looks for a better cut, a mix of what is recomputed, and a better order, with up to `effort` plans. Never worse than
  /// the candidate as it was evaluated.
  RefinedPlan refine(const plans::Problem &problem, const plans::Evaluated &found, uint64_t effort);

private:
  struct Worker; ///< a context with its modules; one for each thread
  CompileRequest request;
  timing::Cluster cluster;
  std::vector<std::unique_ptr<Worker>> workers;
};

} // namespace dtc
