#include "tools/verify/GeneratedKernel.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/lower/Targets.h"
#include "passes/lower/kernels/KernelInterface.h"
#include "passes/lower/kernels/KernelPlan.h"

#include <limits>

using namespace mlir::dt;

namespace dtc::verify {

static KernelOp kernelOf(mlir::ModuleOp module) {
  auto kernels = module.getOps<KernelOp>();
  return kernels.empty() ? KernelOp() : *kernels.begin();
}

GeneratedKernel::GeneratedKernel(const abi::Kernel &stated, const std::string &target, mlir::MLIRContext &context)
    : symbol(stated.symbol()) {
  std::string why;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) { why = diagnostic.str(); });
  module = mlir::parseSourceString<mlir::ModuleOp>(stated.reference(), &context);
  KernelOp kernel = module ? kernelOf(*module) : KernelOp();
  if (!kernel)
    throw ProgramFault("kernel '" + symbol +
                       "' has no reference that can be interpreted: " + (why.empty() ? "it is no dt.kernel" : why));
  if (kernel.getSymName() != symbol) // this names the code that runs
    throw ProgramFault("kernel '" + symbol + "' has the reference of '" + kernel.getSymName().str() + "'");
  setTarget(*module, target);
  mlir::FailureOr<KernelPlan> planned = planKernel(kernel, why);
  if (failed(planned))
    throw ProgramFault("kernel '" + symbol + "' cannot be compiled: " + why);
  plan = std::make_unique<KernelPlan>(std::move(*planned));
  mlir::FailureOr<KernelInterface> interface = dtc::describe(kernel);
  for (const auto &inputs : interface->inPlace)
    mayOverwrite.emplace_back(inputs.begin(), inputs.end());
  checkPasses(stated);
}

/// The plan determines blocks and threads, and also the scratch memory through which blocks pass results.
void GeneratedKernel::checkPasses(const abi::Kernel &kernel) const {
  LaunchShape shape = targetOf(*module).getLaunchShape(*plan);
  auto fail = [&](const std::string &what, int64_t stated, int64_t needed) {
    throw ProgramFault("kernel '" + symbol + "' is said to have " + std::to_string(stated) + " " + what + "; it has " +
                       std::to_string(needed));
  };
  if (kernel.passes_size() != int(shape.passes.size()))
    fail("functions", kernel.passes_size(), int64_t(shape.passes.size()));
  for (auto [stated, needed] : llvm::zip_equal(kernel.passes(), shape.passes)) {
    if (stated.blocks() != needed.blocks)
      fail("blocks", stated.blocks(), needed.blocks);
    if (stated.threads() != needed.threads)
      fail("threads a block", stated.threads(), needed.threads);
  }
  if (int64_t(kernel.scratch_bytes()) != shape.scratchBytes)
    fail("bytes of scratch", int64_t(kernel.scratch_bytes()), shape.scratchBytes);
}

GeneratedKernel::GeneratedKernel(GeneratedKernel &&) noexcept = default;
GeneratedKernel::~GeneratedKernel() = default;

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

namespace {
struct NeededScalar {
  std::string what;
  int64_t value;
};

/// The scalars that a kernel needs in one launch, operation by operation.
class NeededScalars {
public:
  NeededScalars(const RankContext &rank, const std::vector<int64_t> &given) : rank(rank), given(given) {}

  void append(const std::string &what, int64_t value) { needed.push_back({what, value}); }
  void append(mlir::Operation &op);

  std::vector<NeededScalar> needed;
  std::vector<int64_t> sites; ///< of the launch, by the numbers that the kernel's draws have

private:
  void appendSite(int64_t number);
  /// Where this rank's piece begins along a dimension, times that dimension's stride; see KernelPlan.h.
  int64_t placeOf(ShardingAttr sharding, int64_t dim, int64_t localSize, int64_t stride) const {
    return rank.indexIn(sharding.getDimAxes(dim)) * localSize * stride;
  }

  const RankContext &rank;
  const std::vector<int64_t> &given;
};
} // namespace

/// A launch may choose the site of a number freely, once: its effect is compared. Numbers count up from 0.
void NeededScalars::appendSite(int64_t number) {
  if (number < 0 || number > int64_t(sites.size()))
    throw ProgramFault("draws at site number " + std::to_string(number) + ", the next is " +
                       std::to_string(sites.size()));
  if (number == int64_t(sites.size())) {
    int64_t chosen = needed.size() < given.size() ? given[needed.size()] : 0;
    if (chosen < 0 || chosen > std::numeric_limits<uint32_t>::max())
      throw ProgramFault("has scalar " + std::to_string(needed.size()) + " " + std::to_string(chosen) +
                         ", which is no site of a dt.random: sites have 32 bits");
    sites.push_back(chosen);
  }
  append("the site of a dt.random", sites[number]);
}

/// The scalars of one operation.
void NeededScalars::append(mlir::Operation &op) {
  if (auto iota = mlir::dyn_cast<IotaOp>(op); iota && iota.getSharding()) {
    int64_t dim = iota.getDim();
    append("the first index of a dt.iota", placeOf(*iota.getSharding(), dim, shapeOf(iota.getType())[dim], 1));
  }
  auto random = mlir::dyn_cast<RandomOp>(op);
  if (!random)
    return;
  appendSite(static_cast<int64_t>(random.getSite()));
  if (!random.getSharding())
    return;
  llvm::ArrayRef<int64_t> whole = random.getGlobalShape(), local = shapeOf(random.getType());
  for (size_t dim = 0; dim < whole.size(); ++dim)
    append(
        "the place of a dt.random along dimension " + std::to_string(dim),
        placeOf(*random.getSharding(), int64_t(dim), local[dim], HostTensor::numElements(whole.drop_front(dim + 1))));
}

/// A flat kernel's size, then the scalars of each operation in turn. Returns the launch's sites.
std::vector<int64_t> GeneratedKernel::checkScalars(const RankContext &rank, const std::vector<int64_t> &scalars) const {
  NeededScalars needs(rank, scalars);
  if (plan->kind == KernelKind::Flat)
    needs.append("the number of elements", plan->columns());
  try {
    for (mlir::Operation &op : kernelOf(*module).getBody().front())
      needs.append(op);
  } catch (const ProgramFault &fault) {
    throw ProgramFault("kernel '" + symbol + "' " + fault.what());
  }
  if (scalars.size() != needs.needed.size())
    throw ProgramFault("kernel '" + symbol + "' reads " + std::to_string(needs.needed.size()) +
                       " scalars, the launch has " + std::to_string(scalars.size()));
  for (auto [i, needed] : llvm::enumerate(needs.needed))
    if (scalars[i] != needed.value)
      throw ProgramFault("scalar " + std::to_string(i) + " of kernel '" + symbol + "' is " +
                         std::to_string(scalars[i]) + "; " + needed.what + " is " + std::to_string(needed.value));
  return needs.sites;
}

//===----------------------------------------------------------------------===//
// Grid and buffers
//===----------------------------------------------------------------------===//

/// How many elements of an output, from its first on, `indices` indices of the grid write; KernelPlan.h says what an
/// index does.
int64_t GeneratedKernel::written(unsigned output, int64_t indices) const {
  bool hasColumns = plan->hasColumns(plan->outputSpans[output]);
  switch (plan->kind) {
  case KernelKind::Flat: // where something is reduced, one index does all the work, and must not do it twice
    if (plan->rank() == 0 || !plan->reductions.empty())
      return indices * HostTensor::numElements(shapeOf(plan->outputs[output].getType()));
    return indices;
  case KernelKind::Rows:
    return hasColumns ? indices * plan->columns() : indices;
  case KernelKind::Columns: {
    int64_t block = targetOf(*module).getLaunchShape(*plan).columnBlock;
    int64_t blocks = (plan->columns() + block - 1) / block;
    return indices / blocks * plan->columns() + indices % blocks * block;
  }
  case KernelKind::Total:
    return indices;
  }
  llvm_unreachable("not a kind");
}

void GeneratedKernel::checkGrid(int64_t grid) const {
  for (unsigned output = 0; output < plan->outputs.size(); ++output) {
    int64_t size = HostTensor::numElements(shapeOf(plan->outputs[output].getType()));
    if (int64_t count = written(output, grid); grid < 0 || count != size)
      throw ProgramFault("a grid of " + std::to_string(grid) + " writes " + std::to_string(count) +
                         " elements of output " + std::to_string(output) + " of kernel '" + symbol + "', which has " +
                         std::to_string(size));
  }
}

/// A buffer's elements are of the type that the code loads or stores.
void GeneratedKernel::checkTypes(const std::vector<Buffer> &buffers) const {
  size_t inputs = plan->inputs.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    mlir::Value value = i < inputs ? plan->inputs[i] : plan->outputs[i - inputs];
    if (abi::DataType type = elementTypeOf(value.getType()).type; buffers[i].type != type)
      throw ProgramFault("buffer " + std::to_string(i) + " of kernel '" + symbol + "' is said to hold " +
                         abi::nameOf(buffers[i].type) + ", the kernel's holds " + abi::nameOf(type));
  }
}

void GeneratedKernel::checkOverlaps(const std::vector<Buffer> &buffers) const {
  size_t inputs = plan->inputs.size();
  auto fail = [&](size_t output, const std::string &over) {
    throw ProgramFault("output " + std::to_string(output) + " of kernel '" + symbol + "' lies over " + over);
  };
  for (size_t output = 0; output < plan->outputs.size(); ++output) {
    const Buffer &target = buffers[inputs + output];
    for (size_t input = 0; input < inputs; ++input) {
      bool inPlace = target.data == buffers[input].data && llvm::is_contained(mayOverwrite[output], input);
      if (!inPlace && target.overlaps(buffers[input]))
        fail(output, "input " + std::to_string(input) + ", which is read after it is written");
    }
    for (size_t other = 0; other < output; ++other)
      if (target.overlaps(buffers[inputs + other]))
        fail(output, "output " + std::to_string(other));
  }
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

void GeneratedKernel::launch(const RankContext &rank, const std::vector<Buffer> &buffers,
                             const std::vector<int64_t> &scalars, int64_t grid, std::optional<int64_t> part) const {
  size_t inputCount = plan->inputs.size(), outputCount = plan->outputs.size();
  if (buffers.size() != inputCount + outputCount)
    throw ProgramFault("kernel '" + symbol + "' has " + std::to_string(inputCount + outputCount) +
                       " buffers, the launch " + std::to_string(buffers.size()));
  checkTypes(buffers);
  std::vector<int64_t> sites = checkScalars(rank, scalars);
  checkGrid(grid);
  checkOverlaps(buffers);
  mlir::FunctionOpInterface function = kernelOf(*module);
  HostTensors inputs;
  for (size_t i = 0; i < inputCount; ++i) {
    HostTensor &input = inputs.emplace_back(shapeOf(plan->inputs[i].getType()));
    buffers[i].require(input.size());
    for (int64_t j = 0; j < input.size(); ++j)
      input[j] = buffers[i].read(j);
  }
  std::string problem;
  mlir::ScopedDiagnosticHandler handler(function->getContext(),
                                        [&](mlir::Diagnostic &diagnostic) { problem = diagnostic.str(); });
  RankContext inside = rank;
  inside.sites = sites;
  auto outputs = interpret(function, inside, inputs);
  if (failed(outputs))
    throw ProgramFault("kernel '" + symbol + "': " + problem);
  for (size_t i = 0; i < outputCount; ++i) {
    const Buffer &target = buffers[inputCount + i];
    target.require((*outputs)[i].size());
    const std::vector<double> &values = *(*outputs)[i].elements;
    target.writeAll({values.begin(), values.begin() + written(unsigned(i), part.value_or(grid))});
  }
}

KernelCode GeneratedKernel::code(CodeFunction function, RankContext rank, std::vector<int64_t> scalars,
                                 std::vector<int64_t> &sites) const {
  sites = checkScalars(rank, scalars);
  rank.sites = sites;
  return {kernelOf(*module),  *plan, targetOf(*module).getLaunchShape(*plan), std::move(function),
          std::move(scalars), rank};
}

} // namespace dtc::verify
