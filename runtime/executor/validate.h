// Validates a program's manifest before anything in it is trusted. A checksum detects damage, not malice: a file with a
// correct checksum may still have been written by somebody else. So every number that is later used as an index, an
// offset, a size or a name is checked against its bounds here, once. Program start and the tools that inspect programs
// share this validator. Code that runs after it may rely on it.
//
// It cannot check that kernels compute the right thing: machine code is trusted.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dtc {

/// Bounds far above any real program; beyond them products of sizes could overflow or the validator could run for ever.
struct ManifestLimits {
  static constexpr uint64_t Bytes = uint64_t(1) << 28;        ///< of the serialized manifest
  static constexpr uint64_t ArenaBytes = uint64_t(1) << 46;   ///< of one rank
  static constexpr uint64_t HostBytes = uint64_t(1) << 46;    ///< of host memory
  static constexpr int64_t TensorElements = int64_t(1) << 50; ///< of one whole tensor
  static constexpr int Dimensions = 16;                       ///< of one tensor
  static constexpr int64_t Accumulation = int64_t(1) << 20;   ///< micro-batches of a step
  static constexpr int64_t TokenWork = int64_t(1) << 26;      ///< tokens in flight, summed over a timetable's entries
  static constexpr int64_t PlaceWork = int64_t(1) << 24;      ///< parts of places touched, summed likewise
  static constexpr int64_t Entries = int64_t(1) << 24;        ///< of a timetable, over all steps that are checked
  static constexpr int Spaces = 64;                           ///< of one role
  static constexpr uint32_t Places = 1 << 20;                 ///< of one space
  static constexpr int StepsAhead = 128;                      ///< how far ahead a timetable entry may start
  static constexpr int64_t Turns = 1 << 12;                   ///< steps until an entry is in its first places again
  static constexpr uint64_t Tokens = uint64_t(1) << 31;       ///< of one role, in all places
  static constexpr int64_t Transfers = int64_t(1) << 22;      ///< sends and receives of one role in one step
  static constexpr int64_t Scale = int64_t(1) << 40;          ///< of a scalar that depends on the rank
};

/// The manifest in `bytes`, validated. Throws Error (BadInput) naming `path` and the first error.
abi::Manifest parseManifest(std::string_view bytes, const std::string &path);

/// Throws Error (BadInput) that says what is out of bounds, where, and its value.
void validateManifest(const abi::Manifest &manifest);

/// Validates a role's memory: its spaces do not overlap, and each is in the part of the arena for its kind or in the
/// host's memory.
void validateSpaces(const abi::Role &role);

/// Validates tensors: each is in its role's memory, the ranks' pieces make up the whole, every parameter has a place,
/// and what the host fills and reads has the shape that it expects.
void validateTensors(const abi::Manifest &manifest);

/// Validates a tensor's place.
void validatePlace(const abi::Tensor &tensor, const abi::Role &role);

/// Validates timetables: entries name existing lists, stages and places, and each micro-batch passes forward and
/// backward through each stage once, in this order, and backward in the order of the micro-batches, unless the timetable
/// says that sums depend on it.
void validateTimetables(const abi::Manifest &manifest, const abi::Role &role);

/// Validates "redo", which undoes what a step has done too early: it restores all state that the step's update has
/// written, from memory to which the step has copied it before; it updates from gradients that nothing has written
/// since; and the host can read whether it is needed. All roles have it, or none has.
void validateRedo(const abi::Manifest &manifest, const abi::Role &role);

using ListsByName = std::map<std::string_view, const abi::CommandList *>;
/// A program's lists. Throws Error (BadInput) where two have one name.
ListsByName listsOf(const abi::Manifest &manifest);

/// Validates a role's command lists: kernels, buffers, scalars, collectives, tokens. `lists`: the program's.
void validateCommands(const abi::Manifest &manifest, const abi::Role &role, const ListsByName &lists);

/// Validates places: what an entry reads from a place was written for its own micro-batch; no entry touches memory that
/// commands in flight still use; and entries that overlap do not touch each other's memory.
void validatePlacesInTime(const abi::Manifest &manifest, const abi::Role &role);

/// Validates copies of parameters: some list makes each copy from what the host has written, and each list that writes
/// a parameter also writes its copy.
void validateCopies(const abi::Manifest &manifest, const abi::Role &role);

/// Validates sends and receives: between any two ranks they match in order, type and size.
void validateTransfers(const abi::Manifest &manifest);

} // namespace dtc
