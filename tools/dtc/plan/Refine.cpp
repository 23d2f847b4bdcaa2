// Better choices for a candidate: its cut, then what is recomputed, then the order.
#include "tools/dtc/plan/PlanFigures.h"
#include "tools/dtc/plan/Worker.h"

#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/search/ChooseRecompute.h"
#include "passes/pipelines/search/SearchOrder.h"
#include "runtime/support/error.h"

#include "mlir/IR/Diagnostics.h"

#include <functional>

namespace dtc {

namespace {

class Refinement {
public:
  Refinement(PlacedStep &placed, const plans::Problem &problem, const plans::Candidate &candidate)
      : placed(placed), problem(problem), candidate(candidate), choices(choicesFor(placed, problem, candidate)),
        best(evaluateChoices(placed, problem, candidate, choices)) {}

  RefinedPlan run(const Refining &how) {
    if (!overlapsSteps(choices.timetable)) { // other plans are compared by a step by itself
      improveCut();
      if (how.mixesRecompute)
        improveRecompute();
      improveOrder(how.effort);
      sayCut();
    }
    return {best, printChoices(choices, hasStages(candidate)), isMixed};
  }

private:
  /// Whether it fits better, or fits as well and is faster.
  static bool isBetter(const plans::Evaluated &one, const plans::Evaluated &other) {
    return one.lack != other.lack ? one.lack < other.lack : one.seconds < other.seconds;
  }

  /// Takes the choices that `find` makes, if they are better, and returns whether. What leads to no plan is left.
  bool attempt(const std::function<mlir::FailureOr<Choices>()> &find) {
    mlir::ScopedDiagnosticHandler quiet(placed.planner->context(), [](mlir::Diagnostic &) { return mlir::success(); });
    mlir::FailureOr<Choices> found = find();
    if (failed(found)) {
      forgiveFailure(*placed.step->model.module);
      return false;
    }
    try {
      plans::Evaluated evaluated = evaluateChoices(placed, problem, candidate, *found);
      if (!isBetter(evaluated, best))
        return false;
      best = evaluated;
      choices = *found;
      return true;
    } catch (const Error &) {
      return false;
    }
  }

  void improveCut() {
    if (!hasStages(candidate))
      return;
    attempt([&]() -> mlir::FailureOr<Choices> {
      mlir::FailureOr<std::optional<BalancedStages>> balanced =
          balanceStages(*placed.planner, choices, problem.memoryLimit, *placed.layout);
      if (failed(balanced) || !*balanced)
        return mlir::failure();
      return (*balanced)->choices;
    });
  }

  /// Layers that need not be recomputed are kept, where some must be.
  void improveRecompute() {
    using Kind = abi::Recompute::Kind;
    Kind kind = abi::parseRecompute(candidate.recompute)->kind;
    bool isNeeded = best.lack > 0 || (kind != Kind::None && kind != Kind::Cheap);
    uint64_t room = roomOfArena(placed, problem, scratch());
    if (!isNeeded || room == 0)
      return;
    isMixed = attempt([&]() -> mlir::FailureOr<Choices> {
      mlir::FailureOr<ChosenRecompute> chosen =
          chooseRecompute(*placed.planner, choices, room, placed.layout->deviceOf(0), &*placed.layout);
      if (failed(chosen))
        return mlir::failure();
      return chosen->choices;
    });
  }

  void improveOrder(uint64_t effort) {
    if (effort <= 1 || best.lack > 0)
      return;
    attempt([&]() -> mlir::FailureOr<Choices> {
      mlir::FailureOr<SearchedOrder> searched =
          searchOrder(*placed.planner, choices, *placed.layout,
                      {effort, roomOfArena(placed, problem, scratch())});
      if (failed(searched))
        return mlir::failure();
      return searched->choices;
    });
  }

  /// Of the plan with the present choices, which the planner still has.
  uint64_t scratch() const {
    mlir::FailureOr<Plan> plan = placed.planner->plan(choices);
    return succeeded(plan) ? plan->scratch : 0;
  }

  /// A cut that choices do not name, `dtc compile --cluster` would choose by itself.
  void sayCut() {
    if (!hasStages(candidate))
      return;
    FirstError errors(*placed.planner->context());
    mlir::FailureOr<PlannedCut> cut = placed.planner->cut(choices);
    if (failed(cut))
      errors.fail(*placed.step->model.module);
    choices.layers = cut->layers;
  }

  PlacedStep &placed;
  const plans::Problem &problem;
  const plans::Candidate &candidate;
  Choices choices; ///< of the best
  plans::Evaluated best;
  bool isMixed = false;
};

} // namespace

RefinedPlan Evaluator::Worker::refine(const plans::Problem &problem, const plans::Evaluated &found,
                                      const Refining &how) {
  PlacedStep &placed = place(problem, found.candidate);
  RefinedPlan refined = Refinement(placed, problem, found.candidate).run(how);
  placed.planner->forget();
  return refined;
}

} // namespace dtc
