// What one thread of an evaluator has to itself.
#pragma once

#include "tools/dtc/plan/Evaluator.h"
#include "tools/dtc/plan/Placing.h"

#include <deque>
#include <memory>
#include <string>

namespace dtc {

struct Evaluator::Worker {
  Worker(const CompileRequest &request, const timing::Cluster &cluster);

  plans::ModelFacts facts();
  plans::Evaluated evaluate(const plans::Problem &problem, const plans::Candidate &candidate);
  RefinedPlan refine(const plans::Problem &problem, const plans::Evaluated &found, const Refining &how);

  /// Candidates with equal keys are placed only once.
  static std::string keyOf(const plans::Problem &problem, const plans::Candidate &candidate);

private:
  /// A step, or why there is none.
  struct Known {
    std::string key, problem;
    std::shared_ptr<LogicalStep> step;
  };
  struct KnownPlace {
    std::string key, problem;
    std::unique_ptr<PlacedStep> placed;
  };
  /// Contexts keep every attribute that was ever made in them, so after enough work there is a new one.
  struct Session {
    Session();
    mlir::MLIRContext context;
    std::deque<Known> steps; ///< the last used at the end, as in `places`
    std::deque<KnownPlace> places;
    int64_t operations = 0; ///< of the modules that were placed or planned
  };

  Session &session();
  Model loadModel(const abi::Training &training);
  std::shared_ptr<LogicalStep> stepFor(const plans::Candidate &candidate);
  /// Both throw Error, again and again, for what is impossible.
  PlacedStep &place(const plans::Problem &problem, const plans::Candidate &candidate);

  CompileRequest request;
  timing::Cluster cluster;
  std::string configJson; ///< the model's, once it has been read: then its weights are not checked again
  std::unique_ptr<Session> own;
};

} // namespace dtc
