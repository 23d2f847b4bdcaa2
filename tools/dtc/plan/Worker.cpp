#include "tools/dtc/plan/Worker.h"

#include "passes/choices/PipelineTimetable.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "tools/dtc/plan/PlanFigures.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtc {

/// Places of one step are handed over together, so few are needed at a time. Each has the whole model.
static constexpr size_t mostPlaces = 4, mostSteps = 3;
/// Operations of plans after which a context is left behind: some hundred MB of attributes.
static constexpr int64_t mostOperations = 1 << 20;

Evaluator::Worker::Session::Session() : context(mlir::MLIRContext::Threading::DISABLED) {
  context.printOpOnDiagnostic(false); // an error names the place; printed operations are as long as the model
}

Evaluator::Worker::Worker(const CompileRequest &request, const timing::Cluster &cluster)
    : request(request), cluster(cluster) {
  if (request.choicesText.empty() && !request.choicesFile.empty())
    this->request.choicesText = MappedFile(request.choicesFile).text();
}

Evaluator::Worker::Session &Evaluator::Worker::session() {
  if (!own)
    own = std::make_unique<Session>();
  return *own;
}

Model Evaluator::Worker::loadModel(const abi::Training &training) {
  ModelOptions options = modelOptions(request, training);
  if (!configJson.empty())
    return loadConfig(configJson, request.model, options, session().context);
  Model model = load(request.model, options, session().context);
  configJson = model.configJson;
  return model;
}

/// Moves what has that key to the end; null where nothing has.
template <typename Kept> static Kept *findKept(std::deque<Kept> &all, const std::string &key) {
  auto found = std::ranges::find(all, key, &Kept::key);
  if (found == all.end())
    return nullptr;
  std::rotate(found, found + 1, all.end());
  return &all.back();
}

/// Adds what is new, and drops what was not used for the longest time.
template <typename Kept> static Kept &keepNew(std::deque<Kept> &all, const std::string &key, size_t most) {
  if (all.size() == most)
    all.pop_front();
  all.emplace_back();
  all.back().key = key;
  return all.back();
}

std::shared_ptr<LogicalStep> Evaluator::Worker::stepFor(const plans::Candidate &candidate) {
  std::string key = fmt::format("{} {}", candidate.microBatches, overlapsSteps(candidate.timetable));
  Known *known = findKept(session().steps, key);
  if (!known) {
    known = &keepNew(session().steps, key, mostSteps);
    try {
      abi::Training training = settingsFor(request, candidate.microBatches);
      known->step = stepOf(loadModel(training), request, candidate, training);
    } catch (const Error &error) {
      known->problem = error.what();
    }
  }
  if (!known->step)
    throw Error(ExitCode::BadInput, known->problem);
  return known->step;
}

std::string Evaluator::Worker::keyOf(const plans::Problem &problem, const plans::Candidate &candidate) {
  return fmt::format("{} {} {} {} {}", candidate.microBatches, overlapsSteps(candidate.timetable), candidate.meshText(),
                     candidate.strategyText(), problem.margin);
}

PlacedStep &Evaluator::Worker::place(const plans::Problem &problem, const plans::Candidate &candidate) {
  std::string key = keyOf(problem, candidate);
  KnownPlace *known = findKept(session().places, key);
  if (!known) {
    if (session().operations > mostOperations)
      own = nullptr;
    std::string why;
    std::unique_ptr<PlacedStep> placed;
    try {
      placed = placeStep(stepFor(candidate), request, cluster, problem.margin, candidate);
    } catch (const Error &error) {
      why = error.what();
    }
    known = &keepNew(session().places, key, mostPlaces);
    known->placed = std::move(placed);
    known->problem = std::move(why);
  }
  if (!known->placed)
    throw Error(ExitCode::BadInput, known->problem);
  session().operations += known->placed->step->operations;
  return *known->placed;
}

plans::Evaluated Evaluator::Worker::evaluate(const plans::Problem &problem, const plans::Candidate &candidate) {
  try {
    PlacedStep &placed = place(problem, candidate);
    plans::Evaluated evaluated =
        evaluateChoices(placed, problem, candidate, choicesFor(placed, problem, candidate));
    placed.planner->forget(); // no other candidate lowers the same
    return evaluated;
  } catch (const Error &error) {
    plans::Evaluated impossible;
    impossible.candidate = candidate;
    impossible.problem = error.what();
    return impossible;
  }
}

} // namespace dtc
