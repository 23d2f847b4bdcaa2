// dtc plan: which mesh, strategy, timetable and recomputation a model should have on a cluster, and why.
#include "tools/dtc/AdviceOptions.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/plan/ClusterSize.h"
#include "tools/dtc/plan/Evaluator.h"
#include "tools/dtc/plan/Placing.h"
#include "tools/dtc/plan/PlanCommands.h"
#include "tools/dtc/plan/PlanOptions.h"
#include "tools/dtc/plan/PlanText.h"
#include "tools/dtc/plan/TooSmall.h"
#include "tools/dtc/plan/WhyNot.h"
#include "tools/dtc/report/Page.h"
#include "tools/dtc/verify/VerifyProgram.h"

#include "runtime/config/training_config.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

using namespace dtc;

static constexpr const char *planFooter =
    "\nExamples:\n"
    "  $ dtc plan examples/gpt2 --cluster examples/clusters/h100x8.textproto --set compute=bf16 --set global_batch=64\n"
    "  $ dtc plan examples/gpt2 --cluster my.textproto -o choices.toml     # the commands then name this file\n"
    "  $ dtc plan examples/gpt3-175b --cluster examples/clusters/dgx_a100_superpod.textproto --devices 512,1024 \\\n"
    "      --set compute=bf16 --set global_batch=1536 --tokens 300e9 --days 30 --price 2\n"
    "  $ dtc plan examples/gpt2 --cluster my.textproto --devices least --fix tp=1 --forbid zero3\n";

namespace {

/// What the last plan is as a program, which has no code.
struct WholePlan {
  CompiledProgram program;
  timing::Layout layout;
  timing::Forecast forecast;
};

CompileRequest requestOf(const PlanVerbOptions &options) {
  CompileRequest request;
  request.model = options.model;
  request.configFile = options.configFile;
  request.assignments = options.given;
  request.target = options.target;
  request.memoryLimit = options.memoryLimit;
  request.warnings = false; // each candidate would repeat them
  return request;
}

/// The proposed plan with all checks of the compiler and the certificate, as the first command makes it.
std::unique_ptr<WholePlan> compileWhole(const PlanVerbOptions &options, const PlannedNumber &number) {
  const PlanRow &row = number.rows.front();
  const plans::Candidate &plan = row.plan.candidate;
  timing::Layout layout(number.problem.cluster, meshOf(plan));
  CompileRequest request = requestOf(options);
  request.mesh = plan.meshText();
  request.strategy = plan.strategyText();
  request.timetable = plan.timetable;
  request.assignments.push_back(fmt::format("accumulation={}", plan.microBatches));
  request.assignments.push_back("recompute=" + plan.recompute);
  request.choicesText = row.choices;
  request.layout = &layout;
  request.scheduleEffort = 1; // what there is to find is in the choices
  // Never destroyed, which would take as long as a phase: the process ends after this.
  static LoadedModel &loaded = *new LoadedModel(request);
  CompiledProgram program = loaded.compile(/*generateCode=*/false);
  timing::Forecast forecast = timing::forecastStep(program.manifest, layout);
  return std::make_unique<WholePlan>(WholePlan{std::move(program), std::move(layout), std::move(forecast)});
}

std::vector<std::string> givenTexts(const PlanVerbOptions &options, const plans::Problem &problem) {
  abi::Training training = readTraining(options.configFile, options.given);
  std::vector<std::string> texts = {
      fmt::format("sequence_length {}", problem.model.sequence), fmt::format("global_batch {}", problem.model.batch),
      "compute " + training.compute(), "gradients " + training.gradients(),
      options.allowsAsynchronous() ? "synchronous or asynchronous steps" : "synchronous steps"};
  if (problem.memoryLimit > 0)
    texts.push_back("at most " + bytesText(static_cast<double>(problem.memoryLimit)) + " a rank");
  if (problem.margin > 0)
    texts.push_back(fmt::format("{:.3g}% of memory left free", 100 * problem.margin));
  return texts;
}

/// The numbers of devices that are asked for, ascending. `least` may change the answer's marks.
std::vector<int64_t> numbersFor(const PlanVerbOptions &options, PlanSearch &search, PlanAnswer &answer) {
  timing::Cluster cluster = search.problemOf(1).cluster;
  int64_t all = deviceCount(cluster);
  if (options.devices == leastDevicesWord) {
    std::optional<PlanSearch::Least> least = search.leastDevices(1, all, options.effort);
    answer.isLeast = least.has_value();
    answer.isLeastProven = least && least->isProven;
    if (least)
      return {least->devices};
    while (all > 1 && plans::isEmpty(search.problemOf(all), search.constraints()))
      --all;
    return {all}; // where none is enough, the error says by how much
  }
  if (options.devices == allDevicesWord)
    return {all};
  std::vector<int64_t> numbers = parseDevices(options.devices);
  requireDevices(cluster, numbers.back());
  return numbers;
}

/// Plans for each number. Of several, those without a plan are left empty; one by itself is an error that says why.
void planNumbers(PlanSearch &search, const std::vector<int64_t> &numbers, const std::string &model,
                 PlanAnswer &answer) {
  std::optional<Error> first;
  for (int64_t devices : numbers)
    try {
      PlannedNumber planned = search.plan(devices);
      if (!planned.fits() && numbers.size() == 1)
        refuseTooSmall(search, planned, model);
      answer.numbers.push_back(std::move(planned));
    } catch (const Error &error) {
      if (numbers.size() == 1 || error.exitCode() != ExitCode::BadInput)
        throw;
      first = first ? first : error;
      PlannedNumber &number = answer.numbers.emplace_back();
      number.problem = search.problemOf(devices);
      number.refusal = error.what();
    }
  auto fitting = std::ranges::find_if(answer.numbers, &PlannedNumber::fits);
  if (fitting != answer.numbers.end())
    return;
  if (first)
    throw Error(*first);
  refuseTooSmall(search, answer.numbers.back(), model);
}

/// With a date the fewest devices that keep it; otherwise those with the shortest step.
size_t proposedNumber(const PlanAnswer &answer) {
  std::optional<size_t> best;
  for (size_t i = 0; i < answer.numbers.size(); ++i) {
    const PlannedNumber &number = answer.numbers[i];
    if (!number.fits())
      continue;
    double step = number.best().seconds;
    if (answer.target.days > 0 && isInTime(answer.target, step, number.problem.model.tokens()))
      return i;
    if (!best || step < answer.numbers[*best].best().seconds)
      best = i;
  }
  return best.value();
}

/// The best plans again with a better cut, recomputation and order, which may change their order. What is recomputed
/// stays as it is where a constraint says anything about it.
void refine(Evaluator &evaluator, uint64_t effort, const std::vector<plans::Constraint> &constraints,
            PlannedNumber &number) {
  if (effort == 0)
    return;
  Refining how = {effort,
                  std::ranges::find(constraints, "recompute", &plans::Constraint::dimension) == constraints.end()};
  std::vector<PlanRow> refined;
  std::vector<plans::Evaluated> evaluated;
  for (const PlanRow &row : number.rows)
    evaluated.push_back(row.plan);
  std::vector<RefinedPlan> all = evaluator.refineAll(number.problem, evaluated, how);
  evaluated.clear();
  for (RefinedPlan &found : all) {
    evaluated.push_back(found.evaluated);
    refined.push_back({std::move(found.evaluated), std::move(found.choices), found.isMixed});
  }
  number.refined = static_cast<int64_t>(refined.size());
  number.rows.clear();
  for (size_t index : plans::ranked(number.problem, evaluated))
    number.rows.push_back(refined[index]);
}

/// Over the numbers that were asked for, or all, half, a quarter ... of the devices.
std::vector<plans::Evaluated> frontOf(PlanSearch &search, const PlanAnswer &answer) {
  std::vector<int64_t> sizes;
  for (const PlannedNumber &number : answer.numbers)
    sizes.push_back(number.devices());
  if (sizes.size() == 1)
    for (int64_t half = sizes.front(); half % 2 == 0; sizes.push_back(half))
      half /= 2;
  std::vector<plans::Evaluated> all;
  for (int64_t devices : sizes)
    for (plans::Evaluated &plan : search.front(devices))
      all.push_back(std::move(plan));
  std::vector<plans::Evaluated> front;
  for (size_t index : plans::paretoFront(all))
    front.push_back(all[index]);
  return front;
}

void publishText(const std::string &path, const std::string &text) {
  AtomicFile file(path);
  file.append(text);
  file.publish(0666);
}

CommandWords wordsOf(const PlanVerbOptions &options) {
  CommandWords words;
  words.model = options.model;
  words.cluster = options.cluster;
  words.configFile = options.configFile;
  words.target = options.target;
  words.assignments = options.given;
  words.memoryLimit = options.memoryLimit;
  words.choicesFile = options.output;
  words.data = options.data;
  return words;
}

void tryOutputs(const PlanVerbOptions &options) {
  for (const auto &[option, path] : {std::pair{"-o ", options.output}, {"--report ", options.report}})
    if (!path.empty())
      asOption(option + path, [&path = path, &options] {
        requireNoInput(path, {options.model, options.cluster, options.configFile, options.data});
        requireWritable(path);
      });
}

int usualThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

/// Where the cluster is too small, plans are evaluated on one with more nodes, to say how many would do. An evaluator
/// is for one cluster.
struct LargerCluster {
  std::unique_ptr<Evaluator> evaluator;
  std::string figures;

  Evaluator &evaluatorFor(const PlanVerbOptions &options, Evaluator &usual, const timing::Cluster &cluster,
                          const plans::Problem &problem) {
    if (deviceCount(problem.cluster) == deviceCount(cluster))
      return usual;
    std::string wanted = problem.cluster.SerializeAsString();
    if (!evaluator || figures != wanted) {
      evaluator = std::make_unique<Evaluator>(requestOf(options), problem.cluster, usualThreads());
      figures = std::move(wanted);
    }
    return *evaluator;
  }
};

/// All but what is found out by compiling the proposed plan.
PlanAnswer findPlans(const PlanVerbOptions &options, Evaluator &evaluator, const timing::Cluster &cluster) {
  plans::Problem problem;
  problem.model = evaluator.facts();
  problem.cluster = cluster;
  problem.memoryLimit = options.memoryLimit;
  problem.margin = options.margin;
  problem.allowsAsynchronous = options.allowsAsynchronous();
  PlanAnswer answer;
  answer.model = options.model;
  answer.given = givenTexts(options, problem);
  answer.target = options.goal;
  for (const plans::Constraint &constraint : options.constraints)
    answer.constraints.push_back(constraint.text);
  EvaluateOn evaluate = [&, larger = std::make_shared<LargerCluster>()](const plans::Problem &on,
                                                                        std::span<const plans::Candidate> candidates) {
    return larger->evaluatorFor(options, evaluator, cluster, on).evaluate(on, candidates);
  };
  PlanLimits limits;
  limits.most = options.effort;
  PlanSearch search(problem, options.constraints, evaluate, limits);
  planNumbers(search, numbersFor(options, search, answer), options.model, answer);
  answer.proposed = proposedNumber(answer);
  PlannedNumber &number = answer.numbers[answer.proposed];
  PopularPlans popular = evaluatePopular(search, number);
  addToTable(number, popular);
  refine(evaluator, options.refine, search.constraints(), number);
  answer.popular = popularVerdicts(search, number, popular);
  if (options.front || !options.report.empty())
    answer.front = frontOf(search, answer);
  answer.simulated = search.evaluatedCount();
  return answer;
}

void plan(PlanVerbOptions &options) {
  auto begin = std::chrono::steady_clock::now();
  if (looksLikeProgram(options.model))
    throw Error(ExitCode::BadInput, fmt::format("'{}' is a program, whose mesh is fixed; 'dtc plan' takes the model's "
                                                "directory, or a .mlir file",
                                                options.model));
  tryOutputs(options);
  timing::Cluster cluster = timing::readCluster(options.cluster);
  std::vector<double> lengths = options.data.empty() ? std::vector<double>() : documentLengths(options.data);
  completeOptions(options, cluster);
  Evaluator evaluator(requestOf(options), cluster, usualThreads());
  PlanAnswer answer = findPlans(options, evaluator, cluster);
  const PlannedNumber &number = answer.number();
  std::unique_ptr<WholePlan> whole = compileWhole(options, number);
  answer.wholeSeconds = whole->forecast.seconds;
  CommandWords words = wordsOf(options);
  answer.compileCommand = compileCommand(words, number.best().candidate);
  answer.runCommand = runCommand(words, number.problem);
  answer.notes = commandNotes(words, number.problem);
  if (!options.output.empty())
    publishText(options.output,
                number.rows.front().choices.empty() ? whole->program.manifest.choices() : number.rows.front().choices);
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<Finding> findings;
  if (options.advice.isShown()) {
    AdviceFacts facts{whole->program.manifest, &whole->layout, &whole->forecast};
    facts.sampleTokens = std::move(lengths);
    findings = adviceOn(options.advice, std::move(facts));
  }
  nlohmann::ordered_json json = toJson(answer);
  json["advice"] = toJson(findings);
  if (!options.report.empty()) {
    json["dtc"] = DTC_VERSION;
    publishText(options.report, planPage(json));
  }
  if (options.json) {
    json.erase("dtc");
    printJson(json);
    return;
  }
  printPlan(answer);
  printAdvice(findings, options.advice.shown == "all");
}

} // namespace

void dtc::addPlan(CLI::App &app) {
  auto [verb, options] = addVerb<PlanVerbOptions>(app, "plan", planSummary, planFooter);
  addPlanOptions(*verb, *options);
  addAdviceOptions(*verb, options->advice);
  verb->callback([options] { plan(*options); });
}
