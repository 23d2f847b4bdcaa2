// The state that a rank trains: its shards of the parameters and of the optimizer's moments, and how they come into
// being: from a seed, or from the files of a model. Where nothing is trained, parameters may have 16 bits; these can be
// written, not read.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/abi/mesh.h"
#include "runtime/checkpoint/file_layout.h"
#include "runtime/device/device.h"
#include "runtime/weights/safetensors.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// RankState::pack of what RankState::copy gave; `name` is for messages.
void pack(const StateTensor &state, const std::string &name, std::span<const float> local, std::span<float> packed);

class RankState {
public:
  /// All outlive the state; `memory` is of the device. Throws Error (BadInput) for a manifest that contradicts itself.
  RankState(const abi::Manifest &manifest, int rank, Device &device, Memory &memory);

  const abi::Manifest &manifest() const { return program; }
  int rank() const { return ownRank; }
  const std::vector<StateTensor> &parameters() const { return parameterTensors; }
  const std::vector<StateTensor> &moments() const { return momentTensors; }
  /// Those of all roles: on every rank the same, in the order of the parameters. Of what this rank's role does not have
  /// the shard is that which it would store.
  const std::vector<StateTensor> &allParameters() const { return parametersOfAll; }
  const std::vector<StateTensor> &allMoments() const { return momentsOfAll; }

  /// Calls visit(run, values) for all elements of this rank's shard of `state`, or of a part of it, in the order of
  /// memory, padding left out; long runs are cut.
  void read(const StateTensor &state, const std::function<void(const FileRun &, std::span<const float>)> &visit) const;
  /// Puts this rank's shard of `state`, or a part of it, into the order of its file, padding left out. Throws Error
  /// (NonFinite) naming the first element that is NaN or infinite.
  void pack(const StateTensor &state, std::span<float> packed) const;
  /// All that this rank stores of `state`, padding included, as it lies there. Where readsAside(), from any thread, as
  /// long as nothing changes the state.
  void copy(const StateTensor &state, std::span<float> out) const;
  /// Whether the state can be read beside what the device does; else only by the thread that gives it work.
  bool readsAside() const { return liesOpen; }
  /// Calls fill(run, values) in the same way and stores what it leaves in `values`, which hold nothing before.
  void write(const StateTensor &state, const std::function<void(const FileRun &, std::span<float>)> &fill) const;

  /// The name under which a parameter or a slot of it is stored: the parameter's, for slots followed by their own,
  /// which are PyTorch's words: ".exp_avg" and ".exp_avg_sq" (AdamW), ".momentum_buffer" (SGD).
  std::string fileName(const StateTensor &state) const;

  /// Fills the parameters from the program's seed by their published schemes. An element's value depends on the seed,
  /// the parameter's number and the element's logical index alone: every layout starts from the same weights.
  /// Element i of parameter n with stddev s: s * normal(stream(seed, 0, 1000000 + n), i) of runtime/abi/random.h.
  void initialize(uint64_t seed, int threads) const;

  /// Fills `tensors` (parameters() or moments()) from files that hold the whole tensors. Throws Error (BadInput) naming
  /// the first that is missing or has another shape. `where` names the files in messages.
  void load(const std::vector<StateTensor> &tensors, const SafetensorsModel &model, const std::string &where) const;

  /// Of this rank's shard of `state`, padding left out: ranks that store the same bits there have the same hash.
  uint64_t hash(const StateTensor &state) const;

  /// Throws Error (NonFinite) naming the first tensor that holds NaN or infinity in this rank's shards.
  void requireFinite() const;

private:
  std::byte *addressOf(const StateTensor &state, int64_t element) const;
  /// Values in the state's own type.
  void store(const StateTensor &state, std::byte *address, std::span<const float> values) const;
  std::vector<StateTensor> ofAllRoles(abi::Tensor::Kind kind, const std::vector<StateTensor> &own) const;

  const abi::Manifest &program;
  const abi::Role &ownRole;
  int ownRank;
  Device &device;
  Memory &memory;
  bool liesOpen; ///< the memory is the host's
  std::vector<StateTensor> parameterTensors, momentTensors, parametersOfAll, momentsOfAll;
};

} // namespace dtc
