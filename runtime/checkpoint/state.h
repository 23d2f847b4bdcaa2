// The state that a rank trains: its shards of the parameters and of the optimizer's moments. They are initialized from
// a seed or from the files of a model. In programs that do not train, parameters may have 16 bits; these can be
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

/// Like RankState::pack, on data from RankState::copy; `name` is for messages.
void pack(const StateTensor &state, const std::string &name, std::span<const float> local, std::span<float> packed);

class RankState {
public:
  /// All arguments outlive the state; `memory` is the device's. Throws Error (BadInput) for an inconsistent manifest.
  RankState(const abi::Manifest &manifest, int rank, Device &device, Memory &memory);

  const abi::Manifest &manifest() const { return program; }
  int rank() const { return ownRank; }
  const std::vector<StateTensor> &parameters() const { return parameterTensors; }
  const std::vector<StateTensor> &moments() const { return momentTensors; }
  /// The parameters of all roles: the same on every rank, in the order of the parameters. For a parameter that this
  /// rank's role does not have, the shard is the one that it would store.
  const std::vector<StateTensor> &allParameters() const { return parametersOfAll; }
  const std::vector<StateTensor> &allMoments() const { return momentsOfAll; }

  /// Calls visit(run, values) for all elements of this rank's shard of `state`, or of a part of it, in memory order,
  /// without padding; long runs are split.
  void read(const StateTensor &state, const std::function<void(const FileRun &, std::span<const float>)> &visit) const;
  /// Puts this rank's shard of `state`, or a part of it, into the order of its file, without padding. Throws Error
  /// (NonFinite) naming the first element that is NaN or infinite.
  void pack(const StateTensor &state, std::span<float> packed) const;
  /// Copies everything that this rank stores of `state`, including padding, in memory order. If readsAside(), it may be
  /// called from any thread while nothing changes the state.
  void copy(const StateTensor &state, std::span<float> out) const;
  /// Whether the state can be read while the device works; otherwise only the thread that gives the device work may
  /// read it.
  bool readsAside() const { return liesOpen; }
  /// Calls fill(run, values) for the same runs and stores `values`, which are uninitialized before the call.
  void write(const StateTensor &state, const std::function<void(const FileRun &, std::span<float>)> &fill) const;

  /// The name under which a parameter or a slot of it is stored. For slots it is the parameter's name followed by
  /// PyTorch's name of the slot: ".exp_avg" and ".exp_avg_sq" (AdamW), ".momentum_buffer" (SGD).
  std::string fileName(const StateTensor &state) const;

  /// Fills the parameters from the program's seed by their published schemes. An element's value depends only on the
  /// seed, the parameter's number and the element's logical index, so every layout starts from the same weights.
  /// Element i of parameter n with stddev s: s * normal(stream(seed, 0, 1000000 + n), i) of runtime/abi/random.h.
  void initialize(uint64_t seed, int threads) const;

  /// Fills `tensors` (parameters() or moments()) from files that hold the whole tensors. Throws Error (BadInput) naming
  /// the first that is missing or has a different shape. `where` names the files in messages.
  void load(const std::vector<StateTensor> &tensors, const SafetensorsModel &model, const std::string &where) const;

  /// The hash of this rank's shard of `state`, without padding: ranks that store the same bits have the same hash.
  uint64_t hash(const StateTensor &state) const;

  /// Throws Error (NonFinite) naming the first tensor that holds NaN or infinity in this rank's shards.
  void requireFinite() const;

private:
  std::byte *addressOf(const StateTensor &state, int64_t element) const;
  /// Stores values in the state's own type.
  void store(const StateTensor &state, std::byte *address, std::span<const float> values) const;
  std::vector<StateTensor> ofAllRoles(abi::Tensor::Kind kind, const std::vector<StateTensor> &own) const;

  const abi::Manifest &program;
  const abi::Role &ownRole;
  int ownRank;
  Device &device;
  Memory &memory;
  bool liesOpen; ///< whether the memory is the host's
  std::vector<StateTensor> parameterTensors, momentTensors, parametersOfAll, momentsOfAll;
};

} // namespace dtc
