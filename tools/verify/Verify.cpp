#include "tools/verify/Verify.h"

#include "dialect/IR/Roles.h"
#include "dialect/reference/Shards.h"
#include "runtime/abi/error.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/Provenance.h"
#include "tools/verify/StepData.h"

#include <cmath>
#include <set>

using namespace mlir::dt;

namespace dtc::verify {

/// The compared tensors of both sides disagree, or the lists cannot be run.
struct Disagreement {
  std::string message;
};

static std::string roleName(abi::Tensor::Role role) {
  switch (role) {
  case abi::Tensor::PARAMETER:
    return role::parameter.str();
  case abi::Tensor::MOMENT1:
    return role::moment1.str();
  case abi::Tensor::MOMENT2:
    return role::moment2.str();
  case abi::Tensor::GRADIENT:
    return role::gradient.str();
  case abi::Tensor::REDUCED_GRADIENT:
    return role::reducedGradient.str();
  case abi::Tensor::INPUT:
    return role::input.str();
  default:
    return role::output.str();
  }
}

static double norm(const HostTensor &tensor) {
  double sum = 0;
  for (double element : *tensor.elements)
    sum += element * element;
  return std::sqrt(sum);
}

static double distance(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

namespace {
class Verifier {
public:
  Verifier(mlir::ModuleOp module, const abi::Manifest &manifest, const VerifyOptions &options, VerifyReport &report)
      : manifest(manifest), options(options), report(report), logical(module),
        commands(manifest, *module.getContext()) {
    for (const abi::Tensor &tensor : manifest.tensors())
      tensors[{roleName(tensor.role()), tensor.name()}] = &tensor;
    for (const abi::Symbol &symbol : manifest.symbols())
      if (symbol.name() == "vocab")
        vocabulary = symbol.size();
    if (vocabulary == 0)
      throw Error(ExitCode::BadInput, "the program has no symbol 'vocab', which bounds the tokens");
  }

  void run() {
    for (const abi::TimetableEntry &entry : manifest.roles(0).step())
      runList(entry.list(), entry.micro_batch());
    if (logical.has(function::eval))
      runList(function::eval.str(), 0);
  }

private:
  void runList(const std::string &list, int64_t microBatch) {
    std::string function = list == "micro_first" ? function::micro.str() : list;
    for (const LogicalProgram::Port &port : logical.arguments(function))
      provide(port, microBatch);
    auto before = logical.tensors;
    logical.run(function);
    executed.push_back(list);
    try {
      commands.run(list);
    } catch (const ProgramFault &fault) {
      throw Disagreement{fault.what()};
    }
    double gradientScale = rootMeanSquareOfGradients(function);
    for (const LogicalProgram::Port &port : logical.results(function))
      compare(list, port, before, gradientScale);
  }

  /// Gives both sides an argument's value: inputs anew each time, state once.
  void provide(const LogicalProgram::Port &port, int64_t microBatch) {
    const std::string &role = port.key.first;
    bool isInput = role == role::input;
    bool isState = role == role::parameter || role == role::moment1 || role == role::moment2;
    if (!isInput && !(isState && initialised.insert(port.key).second))
      return;
    if (port.key.second == "tokens")
      samples = port.type.getDimSize(0);
    HostTensor value =
        isInput ? makeInput(port, microBatch, samples, vocabulary, options.seed) : makeState(port, options.seed);
    logical.tensors[port.key] = value;
    auto tensor = tensors.find(port.key);
    if (tensor == tensors.end())
      return; // an input that no list of this program reads
    // Padding of state is zero and stays so; that of inputs is undefined.
    HostTensors pieces = scatter(value, shardingOf(*tensor->second), commands.mesh(), isState ? 0 : poisonValue);
    for (int64_t rank = 0; rank < commands.ranks(); ++rank)
      commands.write(rank, *tensor->second, pieces[rank]);
  }

  ShardingAttr shardingOf(const abi::Tensor &tensor) const {
    return toAttribute(tensor.sharding(), manifest.mesh(), *commands.mesh().getContext());
  }

  static bool isGradient(const TensorKey &key) {
    return key.first == role::gradient || key.first == role::reducedGradient;
  }

  double rootMeanSquareOfGradients(const std::string &function) const {
    double sum = 0, count = 0;
    for (const LogicalProgram::Port &port : logical.results(function))
      if (isGradient(port.key)) {
        double size = norm(logical.tensors.at(port.key));
        sum += size * size;
        ++count;
      }
    return count == 0 ? 0 : std::sqrt(sum / count);
  }

  void compare(const std::string &list, const LogicalProgram::Port &port, const std::map<TensorKey, HostTensor> &before,
               double gradientScale) {
    auto tensor = tensors.find(port.key);
    if (tensor == tensors.end())
      throw Error(ExitCode::BadInput, "the program keeps no " + describe(port.key));
    const HostTensor &expected = logical.tensors.at(port.key);
    HostTensors pieces;
    for (int64_t rank = 0; rank < commands.ranks(); ++rank)
      pieces.push_back(commands.read(rank, *tensor->second));
    std::string problem;
    std::optional<HostTensor> actual =
        gather(pieces, shardingOf(*tensor->second), commands.mesh(), port.type.getShape(), problem);
    if (!actual)
      disagree(list, *tensor->second, describe(port.key) + ": " + problem);

    double scale = norm(expected);
    if (isGradient(port.key))
      scale = std::max(scale, 1e-3 * gradientScale);
    else if (initialised.count(port.key))
      scale = distance(expected, before.at(port.key));
    Comparison comparison = {list, describe(port.key), distance(expected, *actual), options.tolerance * scale};
    report.comparisons.push_back(comparison);
    if (!comparison.agrees()) {
      char text[96];
      std::snprintf(text, sizeof text, " differs by %.3g, allowed is %.3g", comparison.error, comparison.bound);
      disagree(list, *tensor->second, comparison.tensor + text);
    }
  }

  [[noreturn]] void disagree(const std::string &list, const abi::Tensor &tensor, const std::string &what) {
    throw Disagreement{"after list '" + list + "': " + what + "; " + findCollectiveBehind(manifest, executed, tensor)};
  }

  const abi::Manifest &manifest;
  const VerifyOptions &options;
  VerifyReport &report;
  LogicalProgram logical;
  CommandInterpreter commands;
  std::map<TensorKey, const abi::Tensor *> tensors;
  std::set<TensorKey> initialised; ///< state that both sides have
  std::vector<std::string> executed;
  int64_t vocabulary = 0, samples = 0;
};
} // namespace

VerifyReport verify(mlir::ModuleOp logical, const abi::Manifest &compiled, const VerifyOptions &options) {
  VerifyReport report;
  try {
    Verifier(logical, compiled, options, report).run();
  } catch (const Disagreement &disagreement) {
    report.failure = disagreement.message;
  } catch (const ProgramFault &fault) {
    report.failure = fault.what();
  }
  return report;
}

} // namespace dtc::verify
