// A stand-in for cuDNN's graph interface: descriptors that refuse what the manual forbids, and graphs of operations run
// one after the other in f64 (cudnn_graph.h), in the order of the stand-in driver's streams where that is loaded,
// otherwise at once on the host's memory. Errors are reported on the standard error.
//
// Heuristics name three engines, as real ones may: one that needs more workspace than anybody has, one that gives
// different bits each time and says so, and a good one. Workspace is destroyed.
//
// DTC_STAND_IN_CUDNN in the environment changes it:
//   refuses        heuristics name no engine
//   fails          the good engine's plan cannot be launched
//   version=91500  the version that it claims to be
#include "runtime/kernels/cuda/cudnn.h"
#include "test/gpu/stand_in/cudnn_graph.h"
#include "test/gpu/stand_in/find.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

using namespace dtc;
using namespace dtc::cudnn;
using namespace dtc::test;

struct cudnnContext {
  CUstream_st *stream = nullptr;
};

namespace {

thread_local std::string lastError;
std::atomic<int> changes = 0; ///< of the engine that gives different bits each time

int refuse(Status status, const std::string &why) {
  lastError = why;
  std::fprintf(stderr, "stand-in for cuDNN: %s\n", why.c_str());
  return status;
}

std::string_view setting() {
  const char *text = std::getenv("DTC_STAND_IN_CUDNN");
  return text ? text : "";
}

struct State;
using Shared = std::shared_ptr<State>;

struct Value {
  int type = -1;
  int64_t count = 0;
  std::vector<std::byte> bytes; ///< what was given; of descriptors nothing
  std::vector<Shared> descriptors;
};

/// Which engine of those below.
enum Engine : int64_t { TooLarge, Changing, Good, Engines };

/// What is known of a descriptor. Other descriptors set in it are kept as they were then.
struct State {
  int type = -1;
  bool isFinal = false;
  std::map<int, Value> values = {};
  GraphTensor tensor = {};                           ///< of tensors
  GraphOperation operation = {};                     ///< of operations
  std::shared_ptr<const OperationsGraph> graph = {}; ///< of graphs, heuristics, configurations and plans
  int64_t engine = Good;                             ///< of configurations, engines and plans

  template <typename T> T one(int attribute, T otherwise = {}) const {
    auto found = values.find(attribute);
    if (found != values.end() && found->second.bytes.size() >= sizeof(T))
      std::memcpy(&otherwise, found->second.bytes.data(), sizeof(T));
    return otherwise;
  }
  std::vector<int64_t> all(int attribute) const {
    auto found = values.find(attribute);
    std::vector<int64_t> result(found == values.end() ? 0 : size_t(found->second.count));
    if (!result.empty())
      std::memcpy(result.data(), found->second.bytes.data(), result.size() * sizeof(int64_t));
    return result;
  }
  const State *other(int attribute) const {
    auto found = values.find(attribute);
    return found == values.end() ? nullptr : found->second.descriptors[0].get();
  }
};

/// An attribute of a kind of descriptor: its type, whether it must be set, how many values it has.
struct Rule {
  int descriptor, attribute, type;
  bool isRequired;
  int64_t least, most;
  int of = -1; ///< what a descriptor must be
};

constexpr int64_t Many = 1000;
constexpr int AnyOperation = 1000;

constexpr Rule rules[] = {
    {TensorDescriptor, TensorType, DataTypeType, true, 1, 1},
    {TensorDescriptor, TensorSizes, Int64Type, true, 4, 4},
    {TensorDescriptor, TensorStrides, Int64Type, true, 4, 4},
    {TensorDescriptor, TensorNumber, Int64Type, true, 1, 1},
    {TensorDescriptor, TensorAlignment, Int64Type, true, 1, 1},
    {TensorDescriptor, TensorIsVirtual, BooleanType, false, 1, 1},
    {TensorDescriptor, TensorIsByValue, BooleanType, false, 1, 1},
    {MatmulDescriptor, MatmulPrecision, DataTypeType, true, 1, 1},
    {MatmulOperationDescriptor, MatmulA, DescriptorsType, true, 1, 1, TensorDescriptor},
    {MatmulOperationDescriptor, MatmulB, DescriptorsType, true, 1, 1, TensorDescriptor},
    {MatmulOperationDescriptor, MatmulC, DescriptorsType, true, 1, 1, TensorDescriptor},
    {MatmulOperationDescriptor, MatmulOperation, DescriptorsType, true, 1, 1, MatmulDescriptor},
    {PointwiseDescriptor, PointwiseModeAttribute, PointwiseModeType, true, 1, 1},
    {PointwiseDescriptor, PointwisePrecision, DataTypeType, true, 1, 1},
    {PointwiseDescriptor, PointwiseAxis, Int64Type, false, 1, 1},
    {PointwiseOperationDescriptor, PointwiseOperation, DescriptorsType, true, 1, 1, PointwiseDescriptor},
    {PointwiseOperationDescriptor, PointwiseX, DescriptorsType, true, 1, 1, TensorDescriptor},
    {PointwiseOperationDescriptor, PointwiseB, DescriptorsType, false, 1, 1, TensorDescriptor},
    {PointwiseOperationDescriptor, PointwiseT, DescriptorsType, false, 1, 1, TensorDescriptor},
    {PointwiseOperationDescriptor, PointwiseY, DescriptorsType, true, 1, 1, TensorDescriptor},
    {ReductionDescriptor, ReductionOperator, ReductionType, true, 1, 1},
    {ReductionDescriptor, ReductionPrecision, DataTypeType, true, 1, 1},
    {ReductionOperationDescriptor, ReductionOperation, DescriptorsType, true, 1, 1, ReductionDescriptor},
    {ReductionOperationDescriptor, ReductionX, DescriptorsType, true, 1, 1, TensorDescriptor},
    {ReductionOperationDescriptor, ReductionY, DescriptorsType, true, 1, 1, TensorDescriptor},
    {ReshapeOperationDescriptor, ReshapeX, DescriptorsType, true, 1, 1, TensorDescriptor},
    {ReshapeOperationDescriptor, ReshapeY, DescriptorsType, true, 1, 1, TensorDescriptor},
    {GraphDescriptor, GraphOperations, DescriptorsType, true, 1, Many, AnyOperation},
    {GraphDescriptor, GraphHandle, HandleType, true, 1, 1},
    {EngineHeuristicsDescriptor, HeuristicsGraph, DescriptorsType, true, 1, 1, GraphDescriptor},
    {EngineHeuristicsDescriptor, HeuristicsMode, HeuristicModeType, true, 1, 1},
    {PlanDescriptor, PlanHandle, HandleType, true, 1, 1},
    {PlanDescriptor, PlanConfig, DescriptorsType, true, 1, 1, EngineConfigDescriptor},
    {VariantPackDescriptor, PackNumbers, Int64Type, true, 1, Many},
    {VariantPackDescriptor, PackAddresses, AddressType, true, 1, Many},
    {VariantPackDescriptor, PackWorkspace, AddressType, true, 1, 1},
};

bool isOperation(int type) {
  return type == MatmulOperationDescriptor || type == PointwiseOperationDescriptor ||
         type == ReductionOperationDescriptor || type == ReshapeOperationDescriptor;
}

size_t bytesOf(int type) {
  return type == BooleanType                                                                         ? sizeof(bool)
         : type == Int64Type || type == AddressType || type == HandleType || type == DescriptorsType ? sizeof(int64_t)
                                                                                                     : sizeof(int);
}

State &stateOf(Descriptor descriptor) { return **static_cast<Shared *>(descriptor); }

bool isPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

std::string finishTensor(State &state) {
  GraphTensor &tensor = state.tensor;
  std::vector<int64_t> sizes = state.all(TensorSizes), strides = state.all(TensorStrides);
  std::copy(sizes.begin(), sizes.end(), tensor.sizes.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  tensor.number = state.one<int64_t>(TensorNumber);
  tensor.type = state.one<int>(TensorType);
  tensor.alignment = state.one<int64_t>(TensorAlignment);
  tensor.isVirtual = state.one<bool>(TensorIsVirtual);
  tensor.isByValue = state.one<bool>(TensorIsByValue);
  for (size_t i = 0; i < 4; ++i)
    if (tensor.sizes[i] < 1 || tensor.strides[i] < 0 || (tensor.sizes[i] > 1 && tensor.strides[i] == 0))
      return "a tensor's sizes and strides must be positive";
  if (!isPowerOfTwo(tensor.alignment) || tensor.alignment % int64_t(tensor.elementBytes()) != 0)
    return "a tensor's alignment is a power of two, and no less than an element";
  if (tensor.isByValue && (tensor.isVirtual || tensor.count() != 1))
    return "a number of the host is one element, and not virtual";
  return "";
}

std::string finishOperation(State &state) {
  GraphOperation &op = state.operation;
  auto tensor = [&](int attribute) { return state.other(attribute)->tensor; };
  if (state.type == MatmulOperationDescriptor) {
    op.operands = {tensor(MatmulA), tensor(MatmulB)};
    op.result = tensor(MatmulC);
    if (state.other(MatmulOperation)->one<int>(MatmulPrecision) != Float)
      return "matrices are multiplied in f32 alone here";
  } else if (state.type == ReductionOperationDescriptor) {
    op.kind = GraphOperation::Reduce;
    op.mode = state.other(ReductionOperation)->one<int>(ReductionOperator);
    op.operands = {tensor(ReductionX)};
    op.result = tensor(ReductionY);
  } else if (state.type == ReshapeOperationDescriptor) {
    op.kind = GraphOperation::Reshape;
    op.operands = {tensor(ReshapeX)};
    op.result = tensor(ReshapeY);
  } else {
    op.kind = GraphOperation::Pointwise;
    const State &kind = *state.other(PointwiseOperation);
    op.mode = kind.one<int>(PointwiseModeAttribute);
    op.axis = kind.one<int64_t>(PointwiseAxis, -1);
    for (int attribute : {PointwiseX, PointwiseB, PointwiseT})
      if (state.other(attribute))
        op.operands.push_back(tensor(attribute));
    op.result = tensor(PointwiseY);
  }
  return op.whyNot();
}

std::string finishGraph(State &state) {
  auto graph = std::make_shared<OperationsGraph>();
  for (const Shared &operation : state.values.at(GraphOperations).descriptors)
    graph->operations.push_back(operation->operation);
  std::string why = graph->finish();
  state.graph = graph;
  return why;
}

std::string finishPack(const State &state) {
  std::vector<int64_t> numbers = state.all(PackNumbers);
  if (numbers.size() != state.all(PackAddresses).size())
    return "as many addresses as tensors are needed";
  if (std::set<int64_t>(numbers.begin(), numbers.end()).size() != numbers.size())
    return "a tensor that is given twice";
  return "";
}

int64_t workspaceOf(int64_t engine) { return engine == TooLarge ? INT64_MAX / 2 : 384; }

/// One launch of a plan, until the stream reaches it: repeatedly, if that is captured. The code belongs to the plan and
/// is freed with it: a stream or CUDA graph that holds it longer, even only to free it, ends the process.
struct Launch {
  std::weak_ptr<State> plan;
  std::shared_ptr<const OperationsGraph> graph;
  std::map<int64_t, std::byte *> addresses;
  std::map<int64_t, float> numbers; ///< of the host, as they were
  std::byte *workspace;
  int64_t workspaceBytes, engine;

  static std::byte *reach(std::byte *address, size_t bytes) {
    auto *behind = findInDriver<dtc_stand_in_reach_fn>("dtc_stand_in_reach");
    return behind ? static_cast<std::byte *>(behind(reinterpret_cast<uintptr_t>(address), bytes)) : address;
  }

  void requirePlan() const {
    if (!plan.expired())
      return;
    std::fprintf(stderr, "stand-in for cuDNN: a stream or a CUDA graph holds a launch of a plan that is gone\n");
    std::abort();
  }

  void run() {
    requirePlan();
    std::map<int64_t, std::byte *> places;
    for (const auto &[number, tensor] : graph->given()) {
      auto held = numbers.find(number);
      places[number] = held != numbers.end()
                           ? reinterpret_cast<std::byte *>(&held->second)
                           : reach(addresses.at(number), size_t(tensor.span()) * tensor.elementBytes());
      if (!places[number]) {
        refuse(ExecutionFailed, "a tensor is not in one allocation of the GPU");
        return;
      }
    }
    std::byte *scratch = reach(workspace, size_t(workspaceBytes));
    if (!scratch) {
      refuse(ExecutionFailed, "the workspace is not in one allocation of the GPU");
      return;
    }
    std::fill_n(scratch, workspaceBytes, std::byte(0xff));
    if (engine == Changing) // so that using it is noticed
      for (auto &[number, value] : numbers)
        value *= 1 + float(++changes) / 64;
    graph->run(places);
  }
};

} // namespace

extern "C" {

size_t cudnnGetVersion() {
  constexpr std::string_view prefix = "version=";
  std::string_view text = setting();
  return text.starts_with(prefix) ? size_t(std::atoll(text.substr(prefix.size()).data())) : 91900;
}

const char *cudnnGetErrorString(int status) {
  return status == Success                                      ? "CUDNN_STATUS_SUCCESS"
         : status == NotSupported                               ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == NotFinalized                               ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"
         : status == ExecutionFailed                            ? "CUDNN_STATUS_EXECUTION_FAILED"
         : status >= BadParameter && status < int(NotSupported) ? "CUDNN_STATUS_BAD_PARAM"
                                                                : "CUDNN_STATUS_INTERNAL_ERROR";
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
  if (bytes > 0)
    message[lastError.copy(message, bytes - 1)] = 0;
  lastError.clear();
}

int cudnnCreate(Handle *handle) {
  *handle = new cudnnContext;
  return Success;
}

int cudnnDestroy(Handle handle) {
  delete handle;
  return Success;
}

int cudnnSetStream(Handle handle, CUstream_st *stream) {
  handle->stream = stream;
  return Success;
}

int cudnnBackendCreateDescriptor(int type, Descriptor *descriptor) {
  *descriptor = new Shared(std::make_shared<State>(State{.type = type}));
  return Success;
}

int cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  delete static_cast<Shared *>(descriptor);
  return Success;
}

int cudnnBackendSetAttribute(Descriptor descriptor, int attribute, int type, int64_t count, const void *values) {
  State &state = stateOf(descriptor);
  const Rule *rule = std::find_if(std::begin(rules), std::end(rules), [&](const Rule &each) {
    return each.descriptor == state.type && each.attribute == attribute;
  });
  std::string which =
      "attribute " + std::to_string(attribute) + " of descriptors of type " + std::to_string(state.type);
  if (state.isFinal)
    return refuse(BadParameter, which + " is set after it was finalized");
  if (rule == std::end(rules) || rule->type != type || count < rule->least || count > rule->most || !values)
    return refuse(BadParameter, which + " is not known here, or not of this type or number");
  Value value{type, count, {}, {}};
  if (type == DescriptorsType) {
    for (int64_t i = 0; i < count; ++i) {
      Shared other = *static_cast<Shared *>(static_cast<const Descriptor *>(values)[i]);
      if (!other->isFinal)
        return refuse(NotFinalized, which + " is not finalized");
      if (rule->of == AnyOperation ? !isOperation(other->type) : rule->of >= 0 && rule->of != other->type)
        return refuse(BadParameter, which + " is given a descriptor of type " + std::to_string(other->type));
      value.descriptors.push_back(std::move(other));
    }
  } else {
    const auto *bytes = static_cast<const std::byte *>(values);
    value.bytes.assign(bytes, bytes + size_t(count) * bytesOf(type));
  }
  state.values[attribute] = std::move(value);
  return Success;
}

int cudnnBackendFinalize(Descriptor descriptor) {
  State &state = stateOf(descriptor);
  for (const Rule &rule : rules)
    if (rule.descriptor == state.type && rule.isRequired && !state.values.contains(rule.attribute))
      return refuse(BadParameter, "attribute " + std::to_string(rule.attribute) + " of a descriptor of type " +
                                      std::to_string(state.type) + " is not set");
  std::string why;
  if (state.type == TensorDescriptor)
    why = finishTensor(state);
  else if (isOperation(state.type))
    why = finishOperation(state);
  else if (state.type == GraphDescriptor)
    why = finishGraph(state);
  else if (state.type == VariantPackDescriptor)
    why = finishPack(state);
  else if (state.type == EngineHeuristicsDescriptor)
    state.graph = state.other(HeuristicsGraph)->graph;
  else if (state.type == PlanDescriptor) {
    state.graph = state.other(PlanConfig)->graph;
    state.engine = state.other(PlanConfig)->engine;
  }
  if (!why.empty())
    return refuse(BadParameter, why);
  if (state.type == EngineHeuristicsDescriptor && setting() == "refuses")
    return NotSupported;
  state.isFinal = true;
  return Success;
}

/// The caller provides the descriptors that it asks for.
int cudnnBackendGetAttribute(Descriptor descriptor, int attribute, int type, int64_t most, int64_t *count,
                             void *values) {
  State &state = stateOf(descriptor);
  if (!state.isFinal)
    return refuse(NotFinalized, "an attribute of what is not finalized");
  auto give = [&](int kind, int64_t engines, auto set) {
    *count = std::min(most, engines);
    for (int64_t i = 0; i < *count; ++i) {
      State &other = stateOf(static_cast<Descriptor *>(values)[i]);
      if (other.type != kind || other.isFinal)
        return refuse(BadParameter, "descriptors that were given for others");
      other.isFinal = true;
      set(other, i);
    }
    return int(Success);
  };
  if (state.type == EngineHeuristicsDescriptor && attribute == HeuristicsResults && type == DescriptorsType)
    return give(EngineConfigDescriptor, Engines, [&](State &other, int64_t i) {
      other.graph = state.graph;
      other.engine = i;
    });
  if (state.type == EngineConfigDescriptor && attribute == ConfigEngine && type == DescriptorsType)
    return give(EngineDescriptor, 1, [&](State &other, int64_t) { other.engine = state.engine; });
  if (state.type == EngineDescriptor && attribute == EngineNotes && type == NumericalNoteType) {
    *count = std::min<int64_t>(most, state.engine == Changing ? 2 : 1);
    int notes[] = {0, NotDeterministic};
    std::copy_n(notes, *count, static_cast<int *>(values));
    return Success;
  }
  if (state.type == PlanDescriptor && attribute == PlanWorkspaceBytes && type == Int64Type && most == 1) {
    *count = 1;
    *static_cast<int64_t *>(values) = workspaceOf(state.engine);
    return Success;
  }
  return refuse(BadParameter, "an attribute that is not known here");
}

int cudnnBackendExecute(Handle handle, Descriptor plan, Descriptor pack) {
  const State &planned = stateOf(plan), &given = stateOf(pack);
  if (!planned.isFinal || planned.type != PlanDescriptor || !given.isFinal || given.type != VariantPackDescriptor)
    return refuse(NotFinalized, "a launch of what is no plan, or of a pack that is not finalized");
  if (setting() == "fails")
    return refuse(ExecutionFailed, "it was told to fail");
  auto launch = std::make_unique<Launch>();
  launch->plan = *static_cast<Shared *>(plan);
  launch->graph = planned.graph;
  launch->engine = planned.engine;
  launch->workspaceBytes = workspaceOf(planned.engine);
  launch->workspace = reinterpret_cast<std::byte *>(given.one<int64_t>(PackWorkspace));
  std::vector<int64_t> numbers = given.all(PackNumbers), addresses = given.all(PackAddresses);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto tensor = planned.graph->given().find(numbers[i]);
    if (tensor == planned.graph->given().end() || addresses[i] == 0)
      return refuse(BadParameter, "an address for what is no tensor, or none");
    if (!tensor->second.isByValue && addresses[i] % tensor->second.alignment != 0)
      return refuse(BadParameter, "a tensor that is less aligned than it says");
    if (tensor->second.isByValue)
      launch->numbers[numbers[i]] = *reinterpret_cast<float *>(addresses[i]);
    else
      launch->addresses[numbers[i]] = reinterpret_cast<std::byte *>(addresses[i]);
  }
  if (numbers.size() != planned.graph->given().size())
    return refuse(BadParameter, "a tensor without an address");
  auto run = [](void *argument) { static_cast<Launch *>(argument)->run(); };
  auto forget = [](void *argument) {
    auto *launch = static_cast<Launch *>(argument);
    launch->requirePlan();
    delete launch;
  };
  if (auto *enqueue = findInDriver<dtc_stand_in_enqueue_fn>("dtc_stand_in_enqueue"))
    enqueue(handle->stream, run, launch.release(), forget);
  else
    launch->run();
  return Success;
}
}
