#include "runtime/executor/validate.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/manifest_version.h"
#include "runtime/abi/marks.h"
#include "runtime/comm/mesh.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace dtc {

namespace {

using Shape = google::protobuf::RepeatedField<int64_t>;

[[noreturn]] void refuse(const std::string &why) {
  throw Error(ExitCode::BadInput, "the program is inconsistent: " + why + "; compile it again");
}

std::string text(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// The product of a shape's sizes, all of them positive and together within the limits.
int64_t elementsOf(const Shape &shape, const std::string &what) {
  if (shape.size() > ManifestLimits::Dimensions)
    refuse(
        fmt::format("{} has {} dimensions; at most {} are accepted", what, shape.size(), ManifestLimits::Dimensions));
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 1)
      refuse(fmt::format("{} has the shape {}; sizes are positive", what, text(shape)));
    if (__builtin_mul_overflow(elements, size, &elements) || elements > ManifestLimits::TensorElements)
      refuse(fmt::format("{} of shape {} has more than 2^50 elements", what, text(shape)));
  }
  return elements;
}

void requireFinite(double value, const char *name) {
  if (!std::isfinite(value))
    refuse(fmt::format("{} is {}", name, value));
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

void requireBetween(double value, double minimum, double maximum, const char *name) {
  if (!(value >= minimum && value <= maximum))
    refuse(fmt::format("{} is {}; it lies in [{}, {}]", name, value, minimum, maximum));
}

void validateTraining(const abi::Training &training) {
  if (training.steps() < 0 || training.global_batch() < 1 || training.sequence_length() < 1)
    refuse(fmt::format("training of {} steps of {} samples of {} tokens", training.steps(), training.global_batch(),
                       training.sequence_length()));
  if (training.accumulation() < 1 || training.accumulation() > ManifestLimits::Accumulation ||
      training.global_batch() % training.accumulation() != 0)
    refuse(fmt::format("{} samples in {} micro-batches", training.global_batch(), training.accumulation()));
  if (training.optimizer() != "adamw" && training.optimizer() != "sgd")
    refuse(fmt::format("the optimizer is '{}'", training.optimizer()));
  if (training.schedule() != "constant" && training.schedule() != "linear" && training.schedule() != "cosine")
    refuse(fmt::format("the schedule is '{}'", training.schedule()));
  constexpr double most = std::numeric_limits<double>::max();
  requireBetween(training.learning_rate(), 0, most, "learning_rate");
  requireBetween(training.minimum_learning_rate(), 0, most, "minimum_learning_rate");
  requireBetween(training.epsilon(), 0, most, "epsilon");
  requireBetween(training.weight_decay(), 0, most, "weight_decay");
  requireBetween(training.clip_norm(), 0, most, "clip_norm");
  requireBetween(training.beta1(), 0, 1, "beta1");
  requireBetween(training.beta2(), 0, 1, "beta2");
  requireBetween(training.momentum(), 0, 1, "momentum");
  requireFinite(training.dropout(), "dropout");
  if (training.dropout() >= 1)
    refuse(fmt::format("dropout is {}; it lies below 1", training.dropout()));
  if (!(training.validation_fraction() >= 0 && training.validation_fraction() < 1))
    refuse(fmt::format("validation_fraction is {}; it lies in [0, 1)", training.validation_fraction()));
  for (int64_t count :
       {training.warmup_steps(), training.eval_every(), training.eval_batches(), training.checkpoint_every()})
    if (count < 0)
      refuse(fmt::format("a setting that counts steps or batches is {}", count));
}

void validateSymbols(const abi::Manifest &manifest) {
  bool vocabulary = false;
  for (const abi::Symbol &symbol : manifest.symbols()) {
    if (symbol.size() < 1 || symbol.size() > ManifestLimits::TensorElements)
      refuse(fmt::format("the size '{}' is {}", symbol.name(), symbol.size()));
    vocabulary |= symbol.name() == "vocab";
  }
  if (!vocabulary)
    refuse("it does not tell the size of its vocabulary ('vocab')");
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void validateParameter(const abi::Parameter &parameter) {
  std::string what = fmt::format("parameter '{}'", parameter.name());
  int64_t elements = elementsOf(parameter.file_shape(), what);
  if (elementsOf(parameter.factored_shape(), what) != elements ||
      elementsOf(parameter.logical_shape(), what) != elements)
    refuse(fmt::format("{} has the shapes {} in the file, {} factored and {} in the model, which differ in size", what,
                       text(parameter.file_shape()), text(parameter.factored_shape()),
                       text(parameter.logical_shape())));
  int dims = parameter.logical_shape_size();
  bool bijection = parameter.factored_shape_size() == dims && parameter.permutation_size() == dims;
  std::vector<bool> used(dims);
  for (int dim = 0; bijection && dim < dims; ++dim) {
    int64_t from = parameter.permutation(dim);
    bijection =
        from >= 0 && from < dims && !used[from] && parameter.factored_shape(from) == parameter.logical_shape(dim);
    if (bijection)
      used[from] = true;
  }
  if (!bijection)
    refuse(fmt::format("{}: {} is no permutation from {} to {}", what, text(parameter.permutation()),
                       text(parameter.factored_shape()), text(parameter.logical_shape())));
  if (parameter.dim_names_size() != 0 && parameter.dim_names_size() != dims)
    refuse(fmt::format("{} has {} names for {} dimensions", what, parameter.dim_names_size(), dims));
  if (!abi::Init::Kind_IsValid(parameter.init().kind()))
    refuse(fmt::format("{} begins in an unknown way ({})", what, static_cast<int>(parameter.init().kind())));
  if (!std::isfinite(parameter.init().stddev()) || parameter.init().stddev() < 0)
    refuse(fmt::format("{} begins with a deviation of {}", what, parameter.init().stddev()));
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

bool isState(const abi::Tensor &tensor) {
  return tensor.role() == abi::Tensor::PARAMETER || tensor.role() == abi::Tensor::SLOT;
}

bool isCopy(const abi::Tensor &tensor) { return tensor.role() == abi::Tensor::COPY; }

/// The ranks' pieces cover the tensor: what no rank stores would be lost.
void validateSharding(const abi::Tensor &tensor, const Mesh &mesh, const std::string &what) {
  int dims = tensor.global_shape_size();
  if (tensor.local_shape_size() != dims || tensor.sharding().dims_size() > dims)
    refuse(fmt::format("{} has {} global and {} local dimensions, {} of them placed", what, dims,
                       tensor.local_shape_size(), tensor.sharding().dims_size()));
  Mesh::AxisRefs used = tensor.sharding().partial();
  for (const abi::DimSharding &dim : tensor.sharding().dims())
    used.MergeFrom(dim.axes());
  try {
    mesh.indexOf(0, used);
  } catch (const Error &error) {
    refuse(fmt::format("{}: {}", what, error.what()));
  }
  if (!abi::Reduction_IsValid(tensor.sharding().reduction()))
    refuse(fmt::format("{} is combined in an unknown way", what));
  for (int dim = 0; dim < dims; ++dim) {
    int64_t pieces = 1, stored;
    if (dim < tensor.sharding().dims_size())
      for (const abi::AxisRef &axis : tensor.sharding().dims(dim).axes())
        pieces *= axis.size(); // disjoint parts of the mesh: at most 2^20
    if (__builtin_mul_overflow(pieces, tensor.local_shape(dim), &stored) || stored < tensor.global_shape(dim))
      refuse(fmt::format("{}: {} pieces of {} do not make up dimension {} of size {}", what, pieces,
                         tensor.local_shape(dim), dim, tensor.global_shape(dim)));
  }
}

/// Slots have names, which become parts of names in files; nothing else has.
void validateSlotName(const abi::Tensor &tensor, const std::string &what) {
  constexpr size_t longest = 64;
  bool isName =
      !tensor.slot().empty() && tensor.slot().size() <= longest && std::ranges::all_of(tensor.slot(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  if (tensor.role() == abi::Tensor::SLOT ? !isName : !tensor.slot().empty())
    refuse(fmt::format("{} has the slot '{}'; slots, and nothing else, have names of a-z, 0-9 and _, at most {}", what,
                       tensor.slot(), longest));
}

void validateTensor(const abi::Tensor &tensor, const abi::Manifest &manifest, const Mesh &mesh) {
  std::string what = fmt::format("tensor '{}'", tensor.name());
  if (!abi::Tensor::Role_IsValid(tensor.role()) || !abi::findElementType(tensor.type()))
    refuse(fmt::format("{} has the unknown role {} or type {}", what, static_cast<int>(tensor.role()),
                       static_cast<int>(tensor.type())));
  elementsOf(tensor.global_shape(), what);
  elementsOf(tensor.local_shape(), what);
  validateSharding(tensor, mesh, what);
  for (const abi::Role &role : manifest.roles())
    validatePlace(tensor, role);
  validateSlotName(tensor, what);
  if (tensor.role() == abi::Tensor::INPUT || tensor.role() == abi::Tensor::OUTPUT)
    return;
  if (tensor.parameter() < 0 || tensor.parameter() >= manifest.parameters_size())
    refuse(fmt::format("{} belongs to parameter {} of {}", what, tensor.parameter(), manifest.parameters_size()));
  const abi::Parameter &parameter = manifest.parameters(tensor.parameter());
  if (isCopy(tensor) && ((tensor.type() != abi::BF16 && tensor.type() != abi::F16) ||
                         !std::ranges::equal(parameter.logical_shape(), tensor.global_shape())))
    refuse(fmt::format("the copy of parameter '{}' does not hold 16 bits in its shape", tensor.name()));
  if (isState(tensor) && (tensor.type() != abi::F32 || // which optimizers compute in and checkpoints keep
                          !std::ranges::equal(parameter.logical_shape(), tensor.global_shape())))
    refuse(fmt::format("{} does not hold f32 in the shape of its parameter", what));
}

/// No two of what is trained, copies included, share memory, and every parameter has a place.
void validateState(const abi::Manifest &manifest) {
  std::vector<const abi::Tensor *> state;
  std::set<std::tuple<int, std::string_view, bool>> places; // parameter, slot, whether it is a copy
  for (const abi::Tensor &tensor : manifest.tensors()) {
    if (!isState(tensor) && !isCopy(tensor))
      continue;
    state.push_back(&tensor);
    if (!places.emplace(tensor.parameter(), tensor.slot(), isCopy(tensor)).second)
      refuse(fmt::format("tensor '{}' has two places of one kind", tensor.name()));
  }
  for (int parameter = 0; parameter < manifest.parameters_size(); ++parameter)
    if (!places.contains({parameter, "", false}))
      refuse(fmt::format("parameter '{}' has no place", manifest.parameters(parameter).name()));
  std::ranges::sort(state, {}, [](const abi::Tensor *tensor) { return tensor->offset(); });
  uint64_t end = 0;
  for (const abi::Tensor *tensor : state) {
    if (tensor->offset() < end)
      refuse(fmt::format("tensor '{}' shares memory with the one before it", tensor->name()));
    end = tensor->offset() + abi::bytesOf(tensor->type(), elementsOf(tensor->local_shape(), tensor->name()));
  }
}

//===----------------------------------------------------------------------===//
// What the host fills and reads
//===----------------------------------------------------------------------===//

using ByName = std::map<std::string_view, const abi::Tensor *>;

ByName tensorsOf(const abi::Manifest &manifest, abi::Tensor::Role role) {
  ByName all;
  for (const abi::Tensor &tensor : manifest.tensors())
    if (tensor.role() == role && !all.emplace(tensor.name(), &tensor).second)
      refuse(fmt::format("the program has two tensors named '{}'", tensor.name()));
  return all;
}

/// `elements`: how many the host reads or writes.
void requirePort(const ByName &ports, const char *name, abi::DataType type, int64_t elements, bool optional) {
  auto found = ports.find(name);
  if (found == ports.end() && !optional)
    refuse(fmt::format("it has no tensor '{}'", name));
  if (found == ports.end())
    return;
  int64_t has = elementsOf(found->second->local_shape(), name);
  if (found->second->type() != type || has != elements)
    refuse(fmt::format("tensor '{}' has {} elements of {} instead of {} of {}", name, has,
                       abi::nameOf(found->second->type()), elements, abi::nameOf(type)));
}

void validatePorts(const abi::Manifest &manifest) {
  ByName inputs = tensorsOf(manifest, abi::Tensor::INPUT), outputs = tensorsOf(manifest, abi::Tensor::OUTPUT);
  const abi::Training &training = manifest.training();
  for (const char *name : {"tokens", "targets"}) {
    auto found = inputs.find(name);
    if (found == inputs.end())
      refuse(fmt::format("it has no input '{}'", name));
    const abi::Tensor &rows = *found->second;
    if (rows.type() != abi::I32 || rows.global_shape_size() != 2 ||
        rows.global_shape(0) != training.global_batch() / training.accumulation() ||
        rows.global_shape(1) != training.sequence_length())
      refuse(fmt::format("the input '{}' of shape {} does not hold micro-batches of {} rows of {} tokens", name,
                         text(rows.global_shape()), training.global_batch() / training.accumulation(),
                         training.sequence_length()));
  }
  requirePort(inputs, "key", abi::I32, 4, /*optional=*/true);
  for (const char *name : {"learning_rate", "bias_correction1", "bias_correction2", "loss_scale"})
    requirePort(inputs, name, abi::F32, 1, /*optional=*/true);
  for (const char *name : {"loss_sum", "token_count", "update_applied", "eval_loss_sum", "eval_token_count"})
    requirePort(outputs, name, abi::F32, 1, /*optional=*/false);
  for (const char *name : {"grad_norm", "local_loss_sum"})
    requirePort(outputs, name, abi::F32, 1, /*optional=*/true);
  requirePort(outputs, "grad_square_sums", abi::F32, manifest.parameters_size(), /*optional=*/true);
}

using Timetable = google::protobuf::RepeatedPtrField<abi::TimetableEntry>;

/// Every list that is run exists, and takes a micro-batch always or never; each of the micro-batches has an entry, one
/// only. `what`: "its step".
void validateTimetable(const Timetable &entries, const char *what, int64_t microBatches, uint32_t slots,
                       std::map<std::string_view, std::optional<bool>> &takesMicroBatch) {
  std::set<int64_t> entered;
  for (const abi::TimetableEntry &entry : entries) {
    auto list = takesMicroBatch.find(entry.list());
    if (list == takesMicroBatch.end())
      refuse(fmt::format("{} runs a list '{}', which does not exist", what, entry.list()));
    if (list->second.value_or(entry.has_micro_batch()) != entry.has_micro_batch())
      refuse(fmt::format("{} runs list '{}' both with and without a micro-batch", what, entry.list()));
    list->second = entry.has_micro_batch();
    if (entry.slot() >= slots || entry.stage() != 0)
      refuse(fmt::format("{} runs list '{}' in slot {} of stage {}; there are {} slots and one stage", what,
                         entry.list(), entry.slot(), entry.stage(), slots));
    if (!entry.has_micro_batch())
      continue;
    if (entry.micro_batch() < 0 || entry.micro_batch() >= microBatches || !entered.insert(entry.micro_batch()).second)
      refuse(fmt::format("{} runs list '{}' on micro-batch {} of {}, or twice on one", what, entry.list(),
                         entry.micro_batch(), microBatches));
  }
  if (static_cast<int64_t>(entered.size()) != microBatches)
    refuse(fmt::format("{} runs {} micro-batches of {}", what, entered.size(), microBatches));
}

void validateTimetables(const abi::Role &role, int64_t accumulation) {
  std::map<std::string_view, std::optional<bool>> takesMicroBatch; // of each list, once an entry tells
  for (const abi::CommandList &list : role.lists())
    takesMicroBatch[list.name()] = std::nullopt;
  uint32_t slots = role.slot_classes().empty() ? 1 : std::numeric_limits<uint32_t>::max(); // that all classes have
  for (const abi::SlotClass &each : role.slot_classes())
    slots = std::min(slots, each.slots());
  validateTimetable(role.step(), "its step", accumulation, slots, takesMicroBatch);
  int64_t evaluated = std::ranges::count_if(role.evaluation(), &abi::TimetableEntry::has_micro_batch);
  if (evaluated == 0)
    refuse(fmt::format("role '{}' evaluates nothing", role.name()));
  validateTimetable(role.evaluation(), "its evaluation", evaluated, slots, takesMicroBatch);
  validateTimetable(role.refresh(), "its making of copies", 0, slots, takesMicroBatch);
}

/// Each group is over axes of the mesh, on a channel that transports have.
void validateGroups(const abi::Manifest &manifest, const Mesh &mesh) {
  for (int index = 0; index < manifest.groups_size(); ++index) {
    const abi::Group &group = manifest.groups(index);
    if (group.channel() >= abi::MaximumChannels)
      refuse(fmt::format("group {} is on channel {} of {}", index, group.channel(), abi::MaximumChannels));
    try {
      mesh.indexOf(0, group.axes());
    } catch (const Error &error) {
      refuse(fmt::format("group {}: {}", index, error.what()));
    }
  }
}

void validateRole(const abi::Role &role) {
  if (role.arena_bytes() > ManifestLimits::ArenaBytes || role.shared_begin() > role.arena_bytes())
    refuse(fmt::format("role '{}' has an arena of {} bytes (at most 2^46), shared from byte {}", role.name(),
                       role.arena_bytes(), role.shared_begin()));
}

/// Slot classes lie in the arena, apart, all in its private or all in its shared part; no tensor lies in one.
void validateSlotClasses(const abi::Manifest &manifest, const abi::Role &role) {
  if (role.slot_classes_size() > ManifestLimits::SlotClasses)
    refuse(fmt::format("role '{}' has {} slot classes; at most {} are accepted", role.name(), role.slot_classes_size(),
                       ManifestLimits::SlotClasses));
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (const abi::SlotClass &each : role.slot_classes()) {
    uint64_t end;
    bool fits = each.stride() > 0 && each.slots() > 0 &&
                each.stride() % 64 == 0 && // as the widest type needs, and a line
                !__builtin_mul_overflow(each.stride(), uint64_t(each.slots()), &end) &&
                !__builtin_add_overflow(each.base(), end, &end) && end <= role.arena_bytes() &&
                (each.base() >= role.shared_begin() || end <= role.shared_begin());
    if (!fits)
      refuse(fmt::format(
          "slot class '{}' of {} places of {} bytes (multiples of 64) from byte {} does not lie in one part "
          "of the arena",
          each.name(), each.slots(), each.stride(), each.base()));
    taken.emplace_back(each.base(), end);
  }
  size_t classes = taken.size();
  if (classes == 0)
    return;
  for (const abi::Tensor &tensor : manifest.tensors())
    taken.emplace_back(tensor.offset(),
                       tensor.offset() + abi::bytesOf(tensor.type(), elementsOf(tensor.local_shape(), tensor.name())));
  for (size_t i = 0; i < classes; ++i)
    for (size_t j = i + 1; j < taken.size(); ++j)
      if (taken[i].first < taken[j].second && taken[j].first < taken[i].second)
        refuse(fmt::format("slot class '{}' shares memory with another, or with a tensor",
                           role.slot_classes(static_cast<int>(i)).name()));
}

/// Each rank plays one role.
void validateRanks(const abi::Manifest &manifest, int ranks) {
  if (manifest.roles_size() == 1 && manifest.roles(0).ranks().empty())
    return;
  std::vector<bool> plays(ranks);
  int64_t players = 0;
  for (const abi::Role &role : manifest.roles())
    for (uint32_t rank : role.ranks()) {
      if (rank >= uint32_t(ranks) || plays[rank])
        refuse(fmt::format("role '{}' is played by rank {} of {}, which {}", role.name(), rank, ranks,
                           rank >= uint32_t(ranks) ? "does not exist" : "has a role already"));
      plays[rank] = true;
      ++players;
    }
  if (players != ranks)
    refuse(fmt::format("its {} roles are played by {} of {} ranks", manifest.roles_size(), players, ranks));
}

} // namespace

void validatePlace(const abi::Tensor &tensor, const abi::Role &role) {
  const abi::ElementType *type = abi::findElementType(tensor.type());
  uint64_t arena = role.arena_bytes(), width = type ? type->bytes : 1;
  uint64_t room = tensor.offset() <= arena ? (arena - tensor.offset()) / width : 0;
  bool fits = type && tensor.offset() % width == 0;
  for (int64_t size : tensor.local_shape()) {
    fits = fits && size >= 0;
    room = size > 0 ? room / size : room;
  }
  if (!fits || room < 1)
    throw Error(ExitCode::BadInput,
                "the program's tensor '" + tensor.name() + "' does not lie in its arena; compile it again");
}

void validateManifest(const abi::Manifest &manifest) {
  if (manifest.version() != ManifestVersion)
    throw Error(ExitCode::BadInput, fmt::format("it was compiled by another version of dtc (its manifest has version {}"
                                                ", this one reads {}); compile it again",
                                                manifest.version(), ManifestVersion));
  Mesh mesh(manifest.mesh());
  validateGroups(manifest, mesh);
  validateTraining(manifest.training());
  validateSymbols(manifest);
  requireFinite(manifest.flops_per_token(), "the work of a token");
  for (const abi::Layer &layer : manifest.layers())
    if (layer.list().empty() || layer.number() < 0)
      refuse(fmt::format("layer '{}' has no list or a negative number", abi::nameOf(layer)));
  for (const abi::Parameter &parameter : manifest.parameters()) {
    validateParameter(parameter);
    if (parameter.has_layer() && parameter.layer() >= uint32_t(manifest.layers_size()))
      refuse(fmt::format("parameter '{}' is in layer {} of {}", parameter.name(), parameter.layer(),
                         manifest.layers_size()));
  }
  for (const abi::Role &role : manifest.roles())
    validateRole(role);
  validateRanks(manifest, mesh.ranks());
  for (const abi::Tensor &tensor : manifest.tensors())
    validateTensor(tensor, manifest, mesh);
  validateState(manifest);
  validatePorts(manifest);
  for (const abi::Role &role : manifest.roles()) {
    validateSlotClasses(manifest, role);
    validateTimetables(role, manifest.training().accumulation());
    validateCommands(manifest, role);
    validateCopies(manifest, role);
  }
  validateTransfers(manifest);
}

abi::Manifest parseManifest(std::string_view bytes, const std::string &path) {
  if (bytes.size() > ManifestLimits::Bytes)
    throw Error(ExitCode::BadInput, fmt::format("{}: the program's manifest has {} bytes; at most {} are accepted",
                                                path, bytes.size(), ManifestLimits::Bytes));
  abi::Manifest manifest;
  google::protobuf::LogSilencer silent; // what is wrong is told below
  if (!manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw Error(ExitCode::BadInput, path + ": the program's manifest cannot be read; compile it again");
  try {
    validateManifest(manifest);
  } catch (const Error &error) {
    throw Error(error.exitCode(), path + ": " + error.what());
  }
  return manifest;
}

} // namespace dtc
