#include "tools/verify/Verify.h"

#include "dialect/IR/Roles.h"
#include "dialect/reference/Shards.h"
#include "runtime/abi/error.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/Provenance.h"

#include <cmath>
#include <cstdio>

using namespace mlir::dt;

namespace dtc::verify {

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

static double distance(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

namespace {
class Verifier {
public:
  Verifier(const Expectation &expectation, const abi::Manifest &manifest, double tolerance)
      : expectation(expectation), manifest(manifest), tolerance(tolerance), commands(manifest, expectation.context()) {
    for (const abi::Tensor &tensor : manifest.tensors())
      tensors[{roleName(tensor.role()), tensor.name()}] = &tensor;
  }

  /// Stops at the first failure.
  void run(VerifyReport &report) {
    for (const ExpectedList &list : expectation.lists()) {
      for (const auto &[key, value] : list.provided)
        provide(key, value);
      executed.push_back(list.list);
      commands.run(list.list);
      for (const ExpectedResult &result : list.results) {
        report.failure = compare(list.list, result, report);
        if (!report.failure.empty())
          return;
      }
    }
  }

private:
  void provide(const TensorKey &key, const HostTensor &value) {
    auto tensor = tensors.find(key);
    if (tensor == tensors.end())
      return; // an input that no list of this program reads
    // Padding of state is zero and stays so; that of inputs is undefined.
    HostTensors pieces = scatter(value, shardingOf(*tensor->second), commands.mesh(), isState(key) ? 0 : poisonValue);
    for (int64_t rank = 0; rank < commands.ranks(); ++rank)
      commands.write(rank, *tensor->second, pieces[rank]);
  }

  ShardingAttr shardingOf(const abi::Tensor &tensor) const {
    return toAttribute(tensor.sharding(), manifest.mesh(), expectation.context());
  }

  /// Empty, or what disagrees.
  std::string compare(const std::string &list, const ExpectedResult &expected, VerifyReport &report) {
    const auto &[port, value, scale] = expected;
    auto tensor = tensors.find(port.key);
    if (tensor == tensors.end())
      throw Error(ExitCode::BadInput, "the program keeps no " + describe(port.key));
    HostTensors pieces;
    for (int64_t rank = 0; rank < commands.ranks(); ++rank)
      pieces.push_back(commands.read(rank, *tensor->second));
    std::string problem;
    std::optional<HostTensor> actual =
        gather(pieces, shardingOf(*tensor->second), commands.mesh(), port.type.getShape(), problem);
    if (!actual)
      return blame(list, *tensor->second, describe(port.key) + ": " + problem);
    Comparison comparison = {list, describe(port.key), distance(value, *actual), tolerance * scale};
    report.comparisons.push_back(comparison);
    if (comparison.agrees())
      return "";
    char text[96];
    std::snprintf(text, sizeof text, " differs by %.3g, allowed is %.3g", comparison.error, comparison.bound);
    return blame(list, *tensor->second, comparison.tensor + text);
  }

  std::string blame(const std::string &list, const abi::Tensor &tensor, const std::string &what) const {
    return "after list '" + list + "': " + what + "; " + findCollectiveBehind(manifest, executed, tensor);
  }

  const Expectation &expectation;
  const abi::Manifest &manifest;
  double tolerance;
  CommandInterpreter commands;
  std::map<TensorKey, const abi::Tensor *> tensors;
  std::vector<std::string> executed;
};
} // namespace

VerifyReport verify(const Expectation &expectation, const abi::Manifest &compiled, double tolerance) {
  VerifyReport report;
  try {
    Verifier(expectation, compiled, tolerance).run(report);
  } catch (const ProgramFault &fault) {
    report.failure = fault.what();
  }
  return report;
}

VerifyReport verify(mlir::ModuleOp logical, const abi::Manifest &compiled, const VerifyOptions &options) {
  return verify(Expectation(logical, compiled.roles(0), vocabularyOf(compiled), options.seed), compiled,
                options.tolerance);
}

int64_t vocabularyOf(const abi::Manifest &manifest) {
  for (const abi::Symbol &symbol : manifest.symbols())
    if (symbol.name() == "vocab")
      return symbol.size();
  throw Error(ExitCode::BadInput, "the program has no symbol 'vocab', which bounds the tokens");
}

} // namespace dtc::verify
