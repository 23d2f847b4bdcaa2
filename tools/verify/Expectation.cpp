#include "tools/verify/Expectation.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/outputs.h"
#include "runtime/abi/timetables.h"
#include "tools/verify/StepData.h"
#include "tools/verify/Subject.h"

#include <cmath>
#include <limits>

using namespace mlir::dt;

namespace dtc::verify {

static double squaredNorm(const HostTensor &tensor) {
  double sum = 0;
  for (double element : *tensor.elements)
    sum += element * element;
  return sum;
}

static double distance(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

static const google::protobuf::RepeatedPtrField<abi::TimetableEntry> &stepOf(const abi::Role &role) {
  return abi::timetableOf(role, abi::stepTimetable).period();
}

Expectation::Expectation(mlir::ModuleOp module, const abi::Role &timetable, int64_t vocabulary)
    : module(module), logical(module), vocabulary(vocabulary), samples(logical.samples()) {
  if (stepOf(timetable).empty()) {
    generate(timetable);
    return;
  }
  for (; draw < draws; ++draw) {
    begin(timetable);
    ExpectedRun &step = add(abi::stepTimetable);
    for (const abi::TimetableEntry &entry : stepOf(timetable))
      runList(entry, step);
    evaluate(timetable);
  }
  auto readsNormOnce = [&](const abi::TimetableEntry &entry) {
    return !entry.has_micro_batch() && readsNorm(entry.list());
  };
  if (llvm::none_of(stepOf(timetable), readsNormOnce))
    return; // stages update by themselves
  // The parts that read the norm run once more, as if the step had overflowed: all state stays as it is.
  overflows = true;
  begin(timetable);
  ExpectedRun &update = add(abi::stepTimetable);
  update.onceAlone = true;
  for (const abi::TimetableEntry &entry : stepOf(timetable))
    if (readsNormOnce(entry))
      runList(entry, update);
  if (!abi::timetableOf(timetable, abi::refreshTimetable).period().empty()) // copies keep their values too
    evaluate(timetable);
}

/// A prompt, and one more token.
void Expectation::generate(const abi::Role &timetable) {
  for (; draw < draws; ++draw) {
    begin(timetable);
    for (std::string_view name : {abi::promptTimetable, abi::generationTimetable})
      for (const abi::TimetableEntry &entry : abi::timetableOf(timetable, name).period())
        runList(entry, add(name));
  }
}

/// State is new. Where the program makes copies of parameters, all of them are written now; the module knows no copies.
void Expectation::begin(const abi::Role &timetable) {
  initialised.clear();
  for (const abi::TimetableEntry &making : abi::timetableOf(timetable, abi::refreshTimetable).period()) {
    ExpectedList &entry = add(abi::refreshTimetable).parts.emplace_back();
    entry.list = making.list();
    for (const abi::TimetableEntry &each : stepOf(timetable))
      for (llvm::StringRef name : logical.partsOf(each.list()))
        for (const LogicalProgram::Port &port : logical.arguments(name))
          if (port.key.kind == PortKind::Parameter)
            provide(port, 0, entry);
  }
}

void Expectation::evaluate(const abi::Role &timetable) {
  for (const abi::TimetableEntry &entry : abi::timetableOf(timetable, abi::evaluationTimetable).period())
    if (logical.has(entry.list()))
      runList(entry, add(abi::evaluationTimetable));
}

ExpectedRun &Expectation::add(std::string_view timetable) {
  ExpectedRun &run = expected.emplace_back();
  run.timetable = timetable;
  return run;
}

static const TensorKey norm = {PortKind::Output, std::string(abi::output::gradientNorm.name), ""};

bool Expectation::readsNorm(std::string_view function) const {
  return llvm::any_of(logical.arguments(function), [](const LogicalProgram::Port &port) { return port.key == norm; });
}

/// Relative to the value: f64Tolerance is then 1e-15 of the value, a few roundings. Smaller updates drown in the number
/// they are added to.
static constexpr double leastUpdate = 1e-6;

void Expectation::runList(const abi::TimetableEntry &each, ExpectedRun &run) {
  const std::string &list = each.list();
  int64_t microBatch = each.micro_batch();
  ExpectedList &entry = run.parts.emplace_back();
  entry.list = list;
  if (each.has_micro_batch())
    entry.microBatch = microBatch;
  llvm::SmallVector<llvm::StringRef, 2> functions = logical.partsOf(list);
  std::map<TensorKey, HostTensor> before;
  for (llvm::StringRef function : functions) {
    for (const LogicalProgram::Port &port : logical.arguments(function))
      provide(port, microBatch, entry);
    before = logical.tensors;
    logical.run(function);
  }
  std::vector<LogicalProgram::Port> results = logical.results(functions.back());
  auto update = [&](const LogicalProgram::Port &port) {
    return distance(logical.tensors.at(port.key), before.at(port.key));
  };
  double leastGradient = 1e-3 * gradientScale(functions.back());
  std::map<std::string, double> leastUpdates; // by slot; of parameters: ""
  for (const LogicalProgram::Port &port : results)
    if (port.key.isState() && !overflows)
      leastUpdates[port.key.slot] = std::hypot(leastUpdates[port.key.slot], update(port));
  double share = 1e-3 / std::sqrt(std::max<double>(1, llvm::count_if(results, [](const LogicalProgram::Port &port) {
                                                     return port.key.kind == PortKind::Parameter;
                                                   })));
  for (const LogicalProgram::Port &port : results) {
    const HostTensor &value = logical.tensors.at(port.key);
    double scale = std::sqrt(squaredNorm(value));
    if (port.key.isGradient())
      scale = std::max(scale, leastGradient);
    else if (port.key.isState() && !overflows)
      scale = std::max({update(port), share * leastUpdates[port.key.slot], leastUpdate * scale});
    entry.results.push_back({port, value, scale});
  }
}

/// The norm of a small model's gradients is rarely large enough to be clipped, so the second draw's update gets another
/// one; that of an overflow is infinite.
bool Expectation::provideNorm(const LogicalProgram::Port &port, ExpectedList &entry) {
  auto own = logical.tensors.find(norm);
  if ((draw % 2 == 0 && !overflows) || port.key != norm || own == logical.tensors.end())
    return false;
  constexpr double large = 100;
  HostTensor value(port.type.getShape(),
                   overflows ? std::numeric_limits<double>::infinity() : large + large * own->second[0]);
  own->second = value;
  entry.provided.push_back({port.key, value});
  return true;
}

void Expectation::provide(const LogicalProgram::Port &port, int64_t microBatch, ExpectedList &entry) {
  if (provideNorm(port, entry))
    return;
  bool isInput = port.key.kind == PortKind::Input;
  bool isKept = port.key.isState() || port.key.kind == PortKind::Cache;
  if (!isInput && !(isKept && initialised.insert(port.key).second))
    return;
  HostTensor value = isInput ? makeInput(port, microBatch, samples, vocabulary, draw) : makeState(port, draw);
  logical.tensors[port.key] = value;
  entry.provided.push_back({port.key, value});
}

/// Root mean square of the norms of a function's gradients.
double Expectation::gradientScale(std::string_view function) const {
  double sum = 0, count = 0;
  for (const LogicalProgram::Port &port : logical.results(function))
    if (port.key.isGradient()) {
      sum += squaredNorm(logical.tensors.at(port.key));
      ++count;
    }
  return count == 0 ? 0 : std::sqrt(sum / count);
}

} // namespace dtc::verify
