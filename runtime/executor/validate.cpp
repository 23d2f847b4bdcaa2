#include "runtime/executor/validate.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/manifest_version.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/roles.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/shapes.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

namespace dtc {

namespace {

void requireFinite(double value, const char *name) {
  if (!std::isfinite(value))
    refuseProgram(fmt::format("{} is {}", name, value));
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

void requireBetween(double value, double minimum, double maximum, const char *name) {
  if (!(value >= minimum && value <= maximum))
    refuseProgram(fmt::format("{} is {}; it lies in [{}, {}]", name, value, minimum, maximum));
}

/// Every setting of the optimizer has a value, and all values are in range.
void validateOptimizer(const abi::Training &training) {
  const abi::Optimizer *optimizer = abi::findOptimizer(training.optimizer());
  if (!optimizer)
    refuseProgram(fmt::format("the optimizer is '{}'", training.optimizer()));
  std::set<std::string_view> seen;
  for (const abi::Setting &setting : training.optimizer_settings()) {
    const abi::OptimizerSetting *known = abi::findOptimizerSetting(setting.key());
    if (!known)
      refuseProgram(fmt::format("no optimizer has the setting '{}'", setting.key()));
    if (!known->interval.contains(setting.value()))
      refuseProgram(fmt::format("{} is {}; it lies in {}", setting.key(), setting.value(), known->interval.text));
    if (!seen.insert(setting.key()).second)
      refuseProgram(fmt::format("the optimizer's setting '{}' appears twice", setting.key()));
  }
  for (const abi::OptimizerSetting &setting : optimizer->settings)
    if (!seen.contains(setting.key))
      refuseProgram(fmt::format("the optimizer '{}' lacks its setting '{}'", optimizer->name, setting.key));
}

void validateTraining(const abi::Training &training) {
  if (training.steps() < 0 || training.global_batch() < 1 || training.sequence_length() < 1)
    refuseProgram(fmt::format("training of {} steps of {} samples of {} tokens", training.steps(),
                              training.global_batch(), training.sequence_length()));
  if (training.accumulation() < 1 || training.accumulation() > ManifestLimits::Accumulation ||
      training.global_batch() % training.accumulation() != 0)
    refuseProgram(fmt::format("{} samples in {} micro-batches", training.global_batch(), training.accumulation()));
  validateOptimizer(training);
  if (training.schedule() != "constant" && training.schedule() != "linear" && training.schedule() != "cosine")
    refuseProgram(fmt::format("the schedule is '{}'", training.schedule()));
  constexpr double most = std::numeric_limits<double>::max();
  requireBetween(training.learning_rate(), 0, most, "learning_rate");
  requireBetween(training.minimum_learning_rate(), 0, most, "minimum_learning_rate");
  requireBetween(training.clip_norm(), 0, most, "clip_norm");
  requireFinite(training.dropout(), "dropout");
  if (training.dropout() >= 1)
    refuseProgram(fmt::format("dropout is {}; it lies below 1", training.dropout()));
  if (!(training.validation_fraction() >= 0 && training.validation_fraction() < 1))
    refuseProgram(fmt::format("validation_fraction is {}; it lies in [0, 1)", training.validation_fraction()));
  for (int64_t count :
       {training.warmup_steps(), training.eval_every(), training.eval_batches(), training.checkpoint_every()})
    if (count < 0)
      refuseProgram(fmt::format("a setting that counts steps or batches is {}", count));
}

void validateGeneration(const abi::Generation &sizes) {
  constexpr int64_t most = ManifestLimits::TensorElements;
  if (sizes.rows() < 1 || sizes.capacity() < 1 || sizes.prompt() < 1 || sizes.prompt() > sizes.capacity() ||
      sizes.rows() > most || sizes.capacity() > most)
    refuseProgram(fmt::format("it generates {} rows of {} positions, of which it reads {} at a time", sizes.rows(),
                              sizes.capacity(), sizes.prompt()));
}

void validateSymbols(const abi::Manifest &manifest) {
  bool vocabulary = false;
  for (const abi::Symbol &symbol : manifest.symbols()) {
    if (symbol.size() < 1 || symbol.size() > ManifestLimits::TensorElements)
      refuseProgram(fmt::format("the size '{}' is {}", symbol.name(), symbol.size()));
    vocabulary |= symbol.name() == "vocab";
  }
  if (!vocabulary)
    refuseProgram("it does not give the size of its vocabulary ('vocab')");
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void validateParameter(const abi::Parameter &parameter) {
  std::string what = fmt::format("parameter '{}'", parameter.name());
  int64_t elements = checkedElements(parameter.file_shape(), what);
  if (checkedElements(parameter.factored_shape(), what) != elements ||
      checkedElements(parameter.logical_shape(), what) != elements)
    refuseProgram(fmt::format("{} has the shapes {} in the file, {} factored and {} in the model, which differ in size",
                              what, text(parameter.file_shape()), text(parameter.factored_shape()),
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
    refuseProgram(fmt::format("{}: {} is no permutation from {} to {}", what, text(parameter.permutation()),
                              text(parameter.factored_shape()), text(parameter.logical_shape())));
  if (parameter.dim_names_size() != 0 && parameter.dim_names_size() != dims)
    refuseProgram(fmt::format("{} has {} names for {} dimensions", what, parameter.dim_names_size(), dims));
  if (!abi::Init::Kind_IsValid(parameter.init().kind()))
    refuseProgram(fmt::format("{} begins in an unknown way ({})", what, static_cast<int>(parameter.init().kind())));
  if (!std::isfinite(parameter.init().stddev()) || parameter.init().stddev() < 0)
    refuseProgram(fmt::format("{} begins with a deviation of {}", what, parameter.init().stddev()));
}

/// Each tensor in a file belongs to one parameter.
void validateTiedNames(const abi::Manifest &manifest) {
  std::set<std::string_view> names;
  for (const abi::Parameter &parameter : manifest.parameters())
    names.insert(parameter.name());
  for (const abi::Parameter &parameter : manifest.parameters())
    for (const std::string &tied : parameter.tied_names())
      if (tied.empty() || !names.insert(tied).second)
        refuseProgram(
            fmt::format("parameter '{}' is tied to the name '{}', which is empty or taken", parameter.name(), tied));
}

//===----------------------------------------------------------------------===//
// Groups, stages, roles
//===----------------------------------------------------------------------===//

/// Each group is over axes of the mesh, on a channel that exists.
void validateGroups(const abi::Manifest &manifest, const Mesh &mesh) {
  for (int index = 0; index < manifest.groups_size(); ++index) {
    const abi::Group &group = manifest.groups(index);
    if (group.channel() >= abi::MaximumChannels)
      refuseProgram(fmt::format("group {} is on channel {} of {}", index, group.channel(), abi::MaximumChannels));
    try {
      mesh.indexOf(0, group.axes());
    } catch (const Error &error) {
      refuseProgram(fmt::format("group {}: {}", index, error.what()));
    }
    int64_t size = 1, least = 0;
    for (const abi::AxisRef &axis : group.axes())
      size *= axis.size(); // disjoint parts of the mesh: no more than its ranks
    for (uint32_t member : group.members()) {
      if (member < least || member >= size)
        refuseProgram(fmt::format("group {} has member {} of {}; members ascend", index, member, size));
      least = member + 1;
    }
  }
}

void validateStages(const abi::Manifest &manifest) {
  for (const abi::Layer &layer : manifest.layers())
    if (layer.list().empty() || layer.number() < 0)
      refuseProgram(fmt::format("layer '{}' has no list or a negative number", abi::nameOf(layer)));
  if (manifest.stages().empty())
    refuseProgram("its model has no stage");
  for (int stage = 0; stage < manifest.stages_size(); ++stage)
    for (uint32_t layer : manifest.stages(stage).layers())
      if (layer >= uint32_t(manifest.layers_size()))
        refuseProgram(fmt::format("stage {} has layer {} of {}", stage, layer, manifest.layers_size()));
}

/// Each rank has exactly one role.
void validateRanks(const abi::Manifest &manifest, int ranks) {
  if (manifest.roles_size() == 1 && manifest.roles(0).ranks().empty())
    return;
  std::vector<bool> plays(ranks);
  int64_t players = 0;
  for (const abi::Role &role : manifest.roles())
    for (const abi::RankRange &range : role.ranks())
      abi::forEachRank(range, [&](uint64_t rank) {
        if (rank >= uint64_t(ranks) || plays[rank])
          refuseProgram(fmt::format("role '{}' is played by rank {} of {}, which {}", role.name(), rank, ranks,
                                    rank >= uint64_t(ranks) ? "does not exist" : "has a role already"));
        plays[rank] = true;
        ++players;
        return true;
      });
  if (players != ranks)
    refuseProgram(fmt::format("its {} roles are played by {} of {} ranks", manifest.roles_size(), players, ranks));
}

/// The part of memory for spaces of one kind.
struct MemoryPart {
  uint64_t begin, end;
  const char *name;
};

MemoryPart partOf(const abi::Role &role, abi::Space::Kind kind) {
  switch (kind) {
  case abi::Space::REGISTERED:
    return {role.shared_begin(), role.arena_bytes(), "shared part of the arena"};
  case abi::Space::HOST:
    return {0, role.host_bytes(), "host's memory"};
  default:
    return {0, role.shared_begin(), "private part of the arena"};
  }
}

} // namespace

void validateSpaces(const abi::Role &role) {
  if (role.arena_bytes() > ManifestLimits::ArenaBytes || role.shared_begin() > role.arena_bytes())
    refuseProgram(fmt::format("role '{}' has an arena of {} bytes (at most 2^46), shared from byte {}", role.name(),
                              role.arena_bytes(), role.shared_begin()));
  if (role.spaces_size() > ManifestLimits::Spaces)
    refuseProgram(fmt::format("role '{}' has {} spaces; at most {} are accepted", role.name(), role.spaces_size(),
                              ManifestLimits::Spaces));
  auto isOfHost = [](const abi::Space &space) { return space.kind() == abi::Space::HOST; };
  bool usesHost = std::ranges::any_of(role.spaces(), isOfHost);
  if (role.host_bytes() > ManifestLimits::HostBytes || (role.host_bytes() > 0) != usesHost)
    refuseProgram(fmt::format("role '{}' has {} bytes of the host's memory (at most 2^46) and {} space there",
                              role.name(), role.host_bytes(), usesHost ? "a" : "no"));
  std::vector<std::pair<uint64_t, uint64_t>> taken; // of resolved addresses
  for (const abi::Space &space : role.spaces()) {
    auto [begin, most, part] = partOf(role, space.kind());
    uint64_t end;
    bool fits = abi::Space::Kind_IsValid(space.kind()) && space.places() > 0 &&
                space.places() <= ManifestLimits::Places &&
                // Aligned for the widest type, and to a cache line.
                (space.places() == 1 || (space.stride() > 0 && space.stride() % 64 == 0)) &&
                !__builtin_mul_overflow(space.stride(), uint64_t(space.places()), &end) &&
                !__builtin_add_overflow(space.base(), end, &end) && space.base() >= begin && end <= most;
    if (!fits)
      refuseProgram(fmt::format("space '{}' of {} places of {} bytes (of several: multiples of 64) from byte {} does "
                                "not lie in the {}, bytes {} to {}",
                                space.name(), space.places(), space.stride(), space.base(), part, begin, most));
    uint64_t memory = space.kind() == abi::Space::HOST ? abi::HostBegin : 0;
    for (auto [otherBegin, otherEnd] : taken)
      if (memory + space.base() < otherEnd && otherBegin < memory + end)
        refuseProgram(fmt::format("space '{}' shares memory with another", space.name()));
    taken.emplace_back(memory + space.base(), memory + end);
  }
}

void validateManifest(const abi::Manifest &manifest) {
  if (manifest.version() != ManifestVersion)
    throw Error(ExitCode::BadInput, fmt::format("it was compiled by another version of dtc (its manifest has version {}"
                                                ", this one reads {}); compile it again",
                                                manifest.version(), ManifestVersion));
  Mesh mesh(manifest.mesh());
  validateGroups(manifest, mesh);
  validateTraining(manifest.training());
  if (manifest.has_generation())
    validateGeneration(manifest.generation());
  validateSymbols(manifest);
  requireFinite(manifest.flops_per_token(), "the work of a token");
  validateStages(manifest);
  for (const abi::Parameter &parameter : manifest.parameters()) {
    validateParameter(parameter);
    if (parameter.has_layer() && parameter.layer() >= uint32_t(manifest.layers_size()))
      refuseProgram(fmt::format("parameter '{}' is in layer {} of {}", parameter.name(), parameter.layer(),
                                manifest.layers_size()));
  }
  validateTiedNames(manifest);
  validateRanks(manifest, mesh.ranks());
  for (const abi::Role &role : manifest.roles())
    validateSpaces(role);
  validateTensors(manifest);
  ListsByName lists = listsOf(manifest);
  for (const abi::Role &role : manifest.roles()) {
    validateTimetables(manifest, role);
    validateCommands(manifest, role, lists);
    validatePlacesInTime(manifest, role);
    validateCopies(manifest, role);
    validateRedo(manifest, role);
  }
  validateTransfers(manifest);
}

abi::Manifest parseManifest(std::string_view bytes, const std::string &path) {
  if (bytes.size() > ManifestLimits::Bytes)
    throw Error(ExitCode::BadInput, fmt::format("{}: the program's manifest has {} bytes; at most {} are accepted",
                                                path, bytes.size(), ManifestLimits::Bytes));
  abi::Manifest manifest;
  google::protobuf::LogSilencer silent; // the error is reported below
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
