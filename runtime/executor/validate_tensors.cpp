// The validator's part for the tensors of roles.
#include "runtime/abi/addresses.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/outputs.h"
#include "runtime/abi/sources.h"
#include "runtime/abi/symbols.h"
#include "runtime/abi/tensors.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/shapes.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

namespace dtc {

namespace {

/// The ranks' pieces cover the tensor: anything that no rank stores would be lost.
void validateSharding(const abi::Tensor &tensor, const Mesh &mesh, const std::string &what) {
  int dims = tensor.global_shape_size();
  if (tensor.local_shape_size() != dims || tensor.sharding().dims_size() > dims)
    refuseProgram(fmt::format("{} has {} global and {} local dimensions, {} of them placed", what, dims,
                              tensor.local_shape_size(), tensor.sharding().dims_size()));
  Mesh::AxisRefs used = tensor.sharding().partial();
  for (const abi::DimSharding &dim : tensor.sharding().dims())
    used.MergeFrom(dim.axes());
  try {
    mesh.indexOf(0, used);
  } catch (const Error &error) {
    refuseProgram(fmt::format("{}: {}", what, error.what()));
  }
  if (tensor.sharding().reductions_size() != tensor.sharding().partial_size())
    refuseProgram(fmt::format("{} is partial over {} axes and says of {} how to combine", what,
                              tensor.sharding().partial_size(), tensor.sharding().reductions_size()));
  for (int reduction : tensor.sharding().reductions()) {
    if (!abi::Reduction_IsValid(reduction))
      refuseProgram(fmt::format("{} is combined in an unknown way ({})", what, reduction));
    if (reduction == abi::LOG_SUM_EXP)
      refuseProgram(fmt::format("{} is combined by log-sum-exp, and has no logarithms of weights", what));
  }
  for (int dim = 0; dim < dims; ++dim) {
    int64_t pieces = 1, stored;
    if (dim < tensor.sharding().dims_size())
      for (const abi::AxisRef &axis : tensor.sharding().dims(dim).axes())
        pieces *= axis.size(); // disjoint parts of the mesh: at most 2^20
    if (__builtin_mul_overflow(pieces, tensor.local_shape(dim), &stored) || stored < tensor.global_shape(dim))
      refuseProgram(fmt::format("{}: {} pieces of {} do not make up dimension {} of size {}", what, pieces,
                                tensor.local_shape(dim), dim, tensor.global_shape(dim)));
  }
}

/// Slots have names, which become parts of names in files. So may gradients, of which a rank has several stages' parts.
void validateSlotName(const abi::Tensor &tensor, const std::string &what) {
  constexpr size_t longest = 64;
  bool isName =
      !tensor.slot().empty() && tensor.slot().size() <= longest && std::ranges::all_of(tensor.slot(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  bool mayHaveOne = tensor.kind() == abi::Tensor::SLOT || tensor.kind() == abi::Tensor::GRADIENT ||
                    tensor.kind() == abi::Tensor::REDUCED_GRADIENT;
  bool isValid = tensor.slot().empty() ? tensor.kind() != abi::Tensor::SLOT : mayHaveOne && isName;
  if (!isValid)
    refuseProgram(fmt::format("{} has the slot '{}'; slots and parts of gradients, and nothing else, have names of a-z, 0-9 "
                              "and _, at most {}",
                              what, tensor.slot(), longest));
}

void validateTensor(const abi::Tensor &tensor, const abi::Manifest &manifest, const Mesh &mesh) {
  std::string what = fmt::format("tensor '{}'", tensor.name());
  if (!abi::Tensor::Kind_IsValid(tensor.kind()) || !abi::findElementType(tensor.type()))
    refuseProgram(fmt::format("{} has the unknown kind {} or type {}", what, static_cast<int>(tensor.kind()),
                              static_cast<int>(tensor.type())));
  checkedElements(tensor.global_shape(), what);
  checkedElements(tensor.local_shape(), what);
  validateSharding(tensor, mesh, what);
  validateSlotName(tensor, what);
  if (!abi::isOfParameter(tensor))
    return;
  if (tensor.parameter() < 0 || tensor.parameter() >= manifest.parameters_size())
    refuseProgram(
        fmt::format("{} belongs to parameter {} of {}", what, tensor.parameter(), manifest.parameters_size()));
  const abi::Parameter &parameter = manifest.parameters(tensor.parameter());
  if (abi::isCopy(tensor) && ((tensor.type() != abi::BF16 && tensor.type() != abi::F16) ||
                              !std::ranges::equal(parameter.logical_shape(), tensor.global_shape())))
    refuseProgram(fmt::format("the copy of parameter '{}' does not hold 16 bits in its shape", tensor.name()));
  // Optimizers compute in f32 and checkpoints store f32; in programs that do not train, the products decide the type.
  bool isOfType = manifest.has_generation() ? abi::elementType(tensor.type()).isFloating() : tensor.type() == abi::F32;
  if (abi::isState(tensor) && (!isOfType || !std::ranges::equal(parameter.logical_shape(), tensor.global_shape())))
    refuseProgram(fmt::format("{} does not hold f32 in the shape of its parameter", what));
}

/// No two trained tensors of a role, copies included, share memory. Adds the role's parameters to `placed`.
void validateState(const abi::Role &role, std::set<int> &placed) {
  std::vector<const abi::Tensor *> state;
  std::set<std::tuple<int, std::string_view, bool>> places; // parameter, slot, whether it is a copy
  for (const abi::Tensor &tensor : role.tensors()) {
    if (!abi::isKept(tensor))
      continue;
    state.push_back(&tensor);
    if (!places.emplace(tensor.parameter(), tensor.slot(), abi::isCopy(tensor)).second)
      refuseProgram(fmt::format("tensor '{}' has two places of one kind", tensor.name()));
    if (tensor.kind() == abi::Tensor::PARAMETER)
      placed.insert(tensor.parameter());
  }
  std::ranges::sort(state, {}, &abi::Tensor::address);
  uint64_t end = 0;
  for (const abi::Tensor *tensor : state) {
    if (tensor->address() < end)
      refuseProgram(fmt::format("tensor '{}' shares memory with the one before it", tensor->name()));
    end = tensor->address() + abi::bytesOf(*tensor);
  }
}

//===----------------------------------------------------------------------===//
// Tensors that the host fills and reads
//===----------------------------------------------------------------------===//

using ByName = std::map<std::string_view, const abi::Tensor *>;

ByName tensorsOf(const abi::Role &role, abi::Tensor::Kind kind) {
  ByName all;
  for (const abi::Tensor &tensor : role.tensors())
    if (tensor.kind() == kind && !all.emplace(tensor.name(), &tensor).second)
      refuseProgram(fmt::format("the program has two tensors named '{}'", tensor.name()));
  return all;
}

/// `elements`: how many the host reads or writes.
void requireElements(const abi::Tensor &tensor, abi::DataType type, int64_t elements) {
  int64_t has = abi::elementsOf(tensor);
  if (tensor.type() != type || has != elements)
    refuseProgram(fmt::format("tensor '{}' has {} elements of {} instead of {} of {}", tensor.name(), has,
                              abi::nameOf(tensor.type()), elements, abi::nameOf(type)));
}

/// Inputs have a source that the runtime knows; nothing else has a source.
void validateSource(const abi::Tensor &tensor, const abi::Training &training) {
  const abi::Source &source = tensor.source();
  bool isInput = tensor.kind() == abi::Tensor::INPUT;
  if (isInput ? source.kind() == abi::Source::NONE || !abi::Source::Kind_IsValid(source.kind()) : tensor.has_source())
    refuseProgram(fmt::format("tensor '{}' has the source {}; inputs, and nothing else, have one that the host knows",
                              tensor.name(), abi::describe(source)));
  bool hasSetting = source.kind() == abi::Source::BIAS_CORRECTION;
  const abi::Optimizer *optimizer = abi::findOptimizer(training.optimizer());
  if (hasSetting ? !optimizer || !optimizer->find(source.setting()) : !source.setting().empty())
    refuseProgram(fmt::format("the input '{}' has the source {} of '{}'; bias corrections, and nothing else, are of a "
                              "setting, one of the optimizer '{}'",
                              tensor.name(), abi::describe(source.kind()), source.setting(), training.optimizer()));
}

void validateInput(const abi::Tensor &input, const abi::Training &training) {
  if (input.source().kind() == abi::Source::KEY)
    return requireElements(input, abi::I32, 4);
  if (!abi::isOfSamples(input))
    return requireElements(input, abi::F32, 1);
  int64_t rows = training.global_batch() / training.accumulation();
  if (input.type() != abi::I32 || input.global_shape_size() != 2 || input.global_shape(0) != rows ||
      input.global_shape(1) != training.sequence_length())
    refuseProgram(fmt::format("the input '{}' of shape {} does not hold micro-batches of {} rows of {} tokens",
                              input.name(), text(input.global_shape()), rows, training.sequence_length()));
}

/// For a program that generates.
void validateInput(const abi::Tensor &input, const abi::Generation &sizes) {
  auto refuse = [&] {
    refuseProgram(fmt::format("the input '{}' ({}) of shape {} is none of {} rows of which {} positions are read at a "
                              "time",
                              input.name(), abi::describe(input.source()), text(input.global_shape()), sizes.rows(),
                              sizes.prompt()));
  };
  auto isCount = [&](int64_t count) { return count == 1 || count == sizes.prompt(); };
  switch (input.source().kind()) {
  case abi::Source::KEY:
    return requireElements(input, abi::I32, 4);
  case abi::Source::LAST_POSITION:
    return requireElements(input, abi::I32, 1);
  case abi::Source::POSITIONS:
    if (input.type() != abi::I32 || input.global_shape_size() != 1 || !isCount(input.global_shape(0)))
      refuse();
    return requireElements(input, abi::I32, input.global_shape(0));
  case abi::Source::TOKENS:
    if (input.type() != abi::I32 || input.global_shape_size() != 2 || input.global_shape(0) != sizes.rows() ||
        !isCount(input.global_shape(1)))
      refuse();
    return;
  default:
    refuse();
  }
}

void validateGenerationPorts(const abi::Manifest &manifest, const abi::Role &role) {
  for (const auto &[name, input] : tensorsOf(role, abi::Tensor::INPUT))
    validateInput(*input, manifest.generation());
  ByName outputs = tensorsOf(role, abi::Tensor::OUTPUT);
  auto logits = outputs.find(abi::output::logits.name);
  if (logits == outputs.end())
    refuseProgram(fmt::format("it has no tensor '{}'", abi::output::logits.name));
  requireElements(*logits->second, abi::F32, manifest.generation().rows() * abi::sizeOf(manifest, "vocab"));
}

void validateOutput(const abi::Output &output, const ByName &outputs, const abi::Manifest &manifest) {
  auto found = outputs.find(output.name);
  if (found != outputs.end())
    requireElements(*found->second, abi::F32, output.isOfParameters ? manifest.parameters_size() : 1);
  else if (!output.isOptional)
    refuseProgram(fmt::format("it has no tensor '{}'", output.name));
}

void validatePorts(const abi::Manifest &manifest, const abi::Role &role) {
  for (const abi::Tensor &tensor : role.tensors())
    validateSource(tensor, manifest.training());
  if (manifest.has_generation())
    return validateGenerationPorts(manifest, role);
  for (const auto &[name, input] : tensorsOf(role, abi::Tensor::INPUT))
    validateInput(*input, manifest.training());
  ByName outputs = tensorsOf(role, abi::Tensor::OUTPUT);
  for (const abi::Output *output : abi::output::all)
    validateOutput(*output, outputs, manifest);
}

/// A middle stage reads no samples, but some role must.
void requireSamples(const abi::Manifest &manifest) {
  for (const abi::Role &role : manifest.roles())
    for (const abi::Tensor &tensor : role.tensors())
      if (abi::isOfSamples(tensor))
        return;
  refuseProgram("it has no input of tokens, so that it would learn from no data");
}

} // namespace

void validatePlace(const abi::Tensor &tensor, const abi::Role &role) {
  const abi::ElementType *type = abi::findElementType(tensor.type());
  bool isKnown = type && abi::spaceOf(tensor.address()) < uint32_t(role.spaces_size());
  const abi::Space &space =
      isKnown ? role.spaces(static_cast<int>(abi::spaceOf(tensor.address()))) : abi::Space::default_instance();
  if (space.kind() == abi::Space::HOST)
    refuseProgram(fmt::format("tensor '{}' lies in space '{}' of the host's memory, which only copies reach",
                              tensor.name(), space.name()));
  uint64_t end = space.stride();
  uint64_t offset = abi::offsetOf(tensor.address()), width = type ? type->bytes : 1;
  uint64_t room = offset <= end ? (end - offset) / width : 0;
  bool fits = isKnown && offset % width == 0;
  for (int64_t size : tensor.local_shape()) {
    fits = fits && size >= 0;
    room = size > 0 ? room / static_cast<uint64_t>(size) : room;
  }
  if (!fits || room < 1)
    throw Error(ExitCode::BadInput,
                "the program's tensor '" + tensor.name() + "' does not lie in its role's memory; compile it again");
}

void validateTensors(const abi::Manifest &manifest) {
  Mesh mesh(manifest.mesh());
  std::set<int> placed;
  for (const abi::Role &role : manifest.roles()) {
    for (const abi::Tensor &tensor : role.tensors()) {
      validateTensor(tensor, manifest, mesh);
      validatePlace(tensor, role);
    }
    validateState(role, placed);
    validatePorts(manifest, role);
  }
  for (int parameter = 0; parameter < manifest.parameters_size(); ++parameter)
    if (!placed.contains(parameter))
      refuseProgram(fmt::format("parameter '{}' has no place", manifest.parameters(parameter).name()));
  requireSamples(manifest);
}

} // namespace dtc
