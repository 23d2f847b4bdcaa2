#include "runtime/kernels/cuda/cudnn_graph.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <utility>

namespace dtc::cudnn {

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Owned::Owned(const Library &library, DescriptorType type) : library(&library) {
  library.check(library.descriptorCreate(type, &descriptor), "cannot make a descriptor");
}

Owned::Owned(Owned &&other) noexcept : library(other.library), descriptor(std::exchange(other.descriptor, nullptr)) {}

Owned &Owned::operator=(Owned &&other) noexcept {
  std::swap(library, other.library);
  std::swap(descriptor, other.descriptor);
  return *this;
}

Owned::~Owned() {
  if (descriptor)
    library->descriptorDestroy(descriptor);
}

void Owned::set(Attribute attribute, AttributeType type, int64_t count, const void *values) {
  library->check(library->descriptorSet(descriptor, attribute, type, count, values), "cannot describe a graph");
}

void Owned::finalize() { library->check(library->descriptorFinalize(descriptor), "cannot describe a graph"); }

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

Sizes denseStrides(const Sizes &sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }

OperationGraph::Tensor OperationGraph::tensor(DataType type, const Sizes &sizes, const Sizes &strides, Attribute kind,
                                              bool hasKind) {
  Owned &tensor = parts.emplace_back(library, TensorDescriptor);
  Tensor result{++tensors, sizes, tensor.get()};
  tensor.set(TensorType, type);
  tensor.set(TensorSizes, sizes);
  tensor.set(TensorStrides, strides);
  tensor.set(TensorNumber, result.number);
  tensor.set(TensorAlignment, Alignment);
  if (hasKind)
    tensor.set(kind, true);
  tensor.finalize();
  return result;
}

OperationGraph::Tensor OperationGraph::memory(DataType type, const Sizes &sizes, const Sizes &strides) {
  return tensor(type, sizes, strides, TensorIsVirtual, false);
}

OperationGraph::Tensor OperationGraph::number() {
  return tensor(Float, {1, 1, 1, 1}, {1, 1, 1, 1}, TensorIsByValue, true);
}

OperationGraph::Tensor OperationGraph::inside(DataType type, const Sizes &sizes, const Sizes &strides) {
  return tensor(type, sizes, strides, TensorIsVirtual, true);
}

static void setOne(Owned &descriptor, Attribute attribute, Descriptor value) {
  descriptor.set(attribute, DescriptorsType, 1, &value);
}

void OperationGraph::add(Owned kind, Owned operation) {
  operations.push_back(operation.get());
  parts.push_back(std::move(kind));
  parts.push_back(std::move(operation));
}

OperationGraph::Tensor OperationGraph::matmul(const Tensor &a, const Tensor &b, std::optional<Tensor> result) {
  if (!result)
    result = inside(Float, {a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[3]});
  Owned kind(library, MatmulDescriptor), operation(library, MatmulOperationDescriptor);
  kind.set(MatmulPrecision, Float);
  kind.finalize();
  setOne(operation, MatmulA, a.descriptor);
  setOne(operation, MatmulB, b.descriptor);
  setOne(operation, MatmulC, result->descriptor);
  operation.set(MatmulOperation, kind);
  operation.finalize();
  add(std::move(kind), std::move(operation));
  return *result;
}

OperationGraph::Tensor OperationGraph::pointwise(PointwiseMode mode, DataType precision,
                                                 std::span<const Tensor> operands, const Tensor &result, int64_t axis) {
  Owned kind(library, PointwiseDescriptor), operation(library, PointwiseOperationDescriptor);
  kind.set(PointwiseModeAttribute, PointwiseModeType, 1, &mode);
  kind.set(PointwisePrecision, precision);
  if (axis >= 0)
    kind.set(PointwiseAxis, axis);
  kind.finalize();
  operation.set(PointwiseOperation, kind);
  constexpr Attribute places[] = {PointwiseX, PointwiseB, PointwiseT};
  for (size_t i = 0; i < operands.size(); ++i)
    setOne(operation, places[i], operands[i].descriptor);
  setOne(operation, PointwiseY, result.descriptor);
  operation.finalize();
  add(std::move(kind), std::move(operation));
  return result;
}

OperationGraph::Tensor OperationGraph::map(PointwiseMode mode, const Tensor &a, std::optional<Tensor> result) {
  return pointwise(mode, Float, std::array{a}, result ? *result : inside(Float, a.sizes));
}

OperationGraph::Tensor OperationGraph::combine(PointwiseMode mode, const Tensor &a, const Tensor &b,
                                               std::optional<Tensor> result) {
  return pointwise(mode, Float, std::array{a, b}, result ? *result : inside(Float, a.sizes));
}

OperationGraph::Tensor OperationGraph::select(const Tensor &condition, const Tensor &a, const Tensor &b) {
  return pointwise(Select, Float, std::array{a, b, condition}, inside(Float, a.sizes));
}

OperationGraph::Tensor OperationGraph::index(const Tensor &like, int64_t dimension) {
  return pointwise(GenerateIndex, Float, std::array{like}, inside(Int32, like.sizes), dimension);
}

OperationGraph::Tensor OperationGraph::greaterOrEqual(const Tensor &a, const Tensor &b) {
  return pointwise(GreaterOrEqual, Boolean, std::array{a, b}, inside(Boolean, a.sizes));
}

OperationGraph::Tensor OperationGraph::reduce(Reduction reduction, const Tensor &a, const Tensor &result) {
  Owned kind(library, ReductionDescriptor), operation(library, ReductionOperationDescriptor);
  kind.set(ReductionOperator, ReductionType, 1, &reduction);
  kind.set(ReductionPrecision, Float);
  kind.finalize();
  operation.set(ReductionOperation, kind);
  setOne(operation, ReductionX, a.descriptor);
  setOne(operation, ReductionY, result.descriptor);
  operation.finalize();
  add(std::move(kind), std::move(operation));
  return result;
}

OperationGraph::Tensor OperationGraph::reshape(const Tensor &a, const Tensor &result) {
  Owned operation(library, ReshapeOperationDescriptor);
  setOne(operation, ReshapeX, a.descriptor);
  setOne(operation, ReshapeY, result.descriptor);
  operation.finalize();
  add(Owned(), std::move(operation));
  return result;
}

const Owned &OperationGraph::finish(const Target &target) {
  graph = Owned(library, GraphDescriptor);
  graph.set(GraphOperations, DescriptorsType, int64_t(operations.size()), operations.data());
  if (target.handle)
    graph.set(GraphHandle, HandleType, 1, &target.handle);
  graph.finalize();
  return graph;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

Plan::Plan(const Library &library, const Target &target, OperationGraph graph, uint64_t mostWorkspaceBytes)
    : library(library), graph(std::move(graph)) {
  const Owned &finished = this->graph.finish(target);
  for (HeuristicMode mode : {HeuristicA, HeuristicFallback})
    for (const Owned &config : engineConfigs(library, finished, target, mode))
      if (tryEngine(target, config, mostWorkspaceBytes))
        return;
  throw Error("cuDNN has no kernels for it" + (refusals.empty() ? "" : ": " + refusals));
}

std::vector<Owned> Plan::engineConfigs(const Library &library, const Owned &graph, const Target &target,
                                       HeuristicMode mode) {
  Owned heuristics(library, EngineHeuristicsDescriptor);
  heuristics.set(HeuristicsGraph, graph);
  heuristics.set(HeuristicsMode, HeuristicModeType, 1, &mode);
  if (target.properties)
    setOne(heuristics, HeuristicsDevice, target.properties);
  std::vector<Owned> configs;
  if (library.descriptorFinalize(heuristics.get()) != Success)
    return configs; // it has none
  constexpr size_t Most = 16;
  std::array<Descriptor, Most> results = {};
  for (Descriptor &result : results)
    result = configs.emplace_back(library, EngineConfigDescriptor).get();
  int64_t count = 0;
  library.check(
      library.descriptorGet(heuristics.get(), HeuristicsResults, DescriptorsType, Most, &count, results.data()),
      "cannot ask for kernels");
  configs.resize(std::clamp<int64_t>(count, 0, Most));
  return configs;
}

/// Engines that cannot be queried count as not deterministic.
static bool isDeterministic(const Library &library, const Owned &config) {
  Owned engine(library, EngineDescriptor);
  Descriptor place = engine.get();
  int64_t count = 0;
  if (library.descriptorGet(config.get(), ConfigEngine, DescriptorsType, 1, &count, &place) != Success)
    return false;
  std::array<NumericalNote, NoteCount> notes = {};
  int64_t noteCount = 0;
  if (library.descriptorGet(place, EngineNotes, NumericalNoteType, NoteCount, &noteCount, notes.data()) != Success)
    return false;
  return std::find(notes.begin(), notes.begin() + std::min<int64_t>(noteCount, NoteCount), NotDeterministic) ==
         notes.begin() + std::min<int64_t>(noteCount, NoteCount);
}

bool Plan::tryEngine(const Target &target, const Owned &config, uint64_t mostWorkspaceBytes) {
  auto refuse = [&](const std::string &why) {
    if (refusals.find(why) == std::string::npos)
      refusals += (refusals.empty() ? "" : "; ") + why;
    return false;
  };
  if (!isDeterministic(library, config))
    return refuse("some may give other bits each time");
  try {
    Owned made(library, PlanDescriptor);
    if (target.handle)
      made.set(PlanHandle, HandleType, 1, &target.handle);
    else
      setOne(made, PlanDevice, target.properties);
    made.set(PlanConfig, config);
    made.finalize();
    int64_t needed = 0, count = 0;
    library.check(library.descriptorGet(made.get(), PlanWorkspaceBytes, Int64Type, 1, &count, &needed),
                  "cannot ask for the workspace");
    if (needed < 0 || uint64_t(needed) > mostWorkspaceBytes)
      return refuse("some need " + std::to_string(needed) + " bytes of workspace, and there are " +
                    std::to_string(mostWorkspaceBytes));
    bytes = uint64_t(needed);
    plan = std::move(made);
    return true;
  } catch (const Error &error) {
    return refuse(error.what());
  }
}

void Plan::launch(Handle handle, std::span<const Argument> arguments, void *workspace) const {
  std::vector<int64_t> numbers;
  std::vector<void *> addresses;
  for (const Argument &argument : arguments) {
    numbers.push_back(argument.number);
    addresses.push_back(argument.address);
  }
  Owned pack(library, VariantPackDescriptor);
  pack.set(PackNumbers, numbers);
  pack.set(PackAddresses, AddressType, int64_t(addresses.size()), addresses.data());
  pack.set(PackWorkspace, AddressType, 1, &workspace);
  pack.finalize();
  library.check(library.execute(handle, plan.get(), pack.get()), "cannot launch");
}

} // namespace dtc::cudnn
