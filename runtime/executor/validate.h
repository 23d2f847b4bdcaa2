// What a program's manifest must fulfil before anything of it is believed. A checksum tells damage, not intent: a file
// whose checksum is right may still have been written by somebody else. So every number that is later used as an index,
// an offset, a size or a name of something is held against its bounds here, once, by the one validator that a program's
// start and the tools that look into a program share. What runs after it may rely on it.
//
// It cannot tell whether kernels compute the right thing: machine code is believed.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

/// Bounds that no real program comes near; beyond them products of sizes could overflow or work would never end.
struct ManifestLimits {
  static constexpr uint64_t Bytes = uint64_t(1) << 28;        ///< of the serialized manifest
  static constexpr uint64_t ArenaBytes = uint64_t(1) << 46;   ///< of one rank
  static constexpr uint64_t HostBytes = uint64_t(1) << 46;    ///< of the host's memory beside it
  static constexpr int64_t TensorElements = int64_t(1) << 50; ///< of one whole tensor
  static constexpr int Dimensions = 16;                       ///< of one tensor
  static constexpr int64_t Accumulation = int64_t(1) << 20;   ///< micro-batches of a step
  static constexpr int64_t TokenWork = int64_t(1) << 26;      ///< tokens under way, summed over a timetable's entries
  static constexpr int64_t PlaceWork = int64_t(1) << 24;      ///< parts of places touched, summed likewise
  static constexpr int64_t Entries = int64_t(1) << 24;        ///< of a timetable, in as many steps as are looked at
  static constexpr int Spaces = 64;                           ///< of one role
  static constexpr uint32_t Places = 1 << 20;                 ///< of one space
  static constexpr int StepsAhead = 16;                       ///< that an entry of a timetable may begin
  static constexpr uint64_t Tokens = uint64_t(1) << 31;       ///< of one role, in all places
  static constexpr int64_t Transfers = int64_t(1) << 22;      ///< sends and receives of one role in one step
  static constexpr int64_t Scale = int64_t(1) << 40;          ///< of a scalar that depends on the rank
};

/// The manifest in `bytes`, validated. Throws Error (BadInput) naming `path` and the first offence.
abi::Manifest parseManifest(std::string_view bytes, const std::string &path);

/// Throws Error (BadInput) that says what is out of bounds, where, and its value.
void validateManifest(const abi::Manifest &manifest);

/// The part of it that concerns a role's memory: its spaces lie apart, each in the part of the arena of its kind or in
/// the host's memory.
void validateSpaces(const abi::Role &role);

/// The part of it that concerns tensors: each lies in its role's memory, ranks' pieces make up the whole, every
/// parameter has a place, and what the host fills and reads has the shape that it expects.
void validateTensors(const abi::Manifest &manifest);

/// The part of it that concerns a tensor's place.
void validatePlace(const abi::Tensor &tensor, const abi::Role &role);

/// The part of it that concerns what runs when: entries name lists, stages and places that there are, and each
/// micro-batch passes forward and backward through each stage once, in this order, and backward in the order of the
/// micro-batches.
void validateTimetables(const abi::Manifest &manifest, const abi::Role &role);

/// The part of it that concerns a role's command lists: kernels, buffers, scalars, collectives, tokens.
void validateCommands(const abi::Manifest &manifest, const abi::Role &role);

/// The part of it that concerns places: what an entry reads of one was written for its own micro-batch, entries leave
/// alone what commands of entries before them are still at, and entries that run side by side each other's memory.
void validatePlacesInTime(const abi::Manifest &manifest, const abi::Role &role);

/// The part of it that concerns copies of parameters: some list makes each of what the host has written, and each list
/// that writes a parameter writes its copy.
void validateCopies(const abi::Manifest &manifest, const abi::Role &role);

/// The part of it that concerns sends and receives: between any two ranks they match, in order, type and size.
void validateTransfers(const abi::Manifest &manifest);

} // namespace dtc
