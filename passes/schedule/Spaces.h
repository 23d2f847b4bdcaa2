// The spaces of a rank's arena: the first part of a tensor's address.
//
// Most memory is private or registered with the transport. What belongs to a micro-batch under way in a pipeline has
// several places of its kind, one after the other; an entry of a timetable says in which place it works. What passes of
// a stage keep for later ones is in three spaces, by how long it stays (passes/keep/cut/StashKinds.h).
#pragma once

#include "dialect/IR/Attributes.h"

#include <array>

namespace dtc {

enum Space : uint32_t {
  privateSpace,
  registeredSpace,
  stashSpace,
  registeredStashSpace, ///< of what collectives read or write; likewise those below
  sentSpace,
  receivedSpace,
  sentGradientSpace,
  receivedGradientSpace,
  weightStashSpace,
  registeredWeightStashSpace,
  gradientStashSpace,
  registeredGradientStashSpace,
  hostSpace, ///< outside the arena: what waits for its backward pass
  numSpaces
};

/// A part of a rank's memory, in which temporaries of its lists have places.
enum class Part : uint8_t { Private, Shared, Host };

/// The names in the manifest and in `dtc inspect`.
inline constexpr std::array<llvm::StringLiteral, numSpaces> spaceNames = {"private",
                                                                          "registered",
                                                                          "stash",
                                                                          "stash of collectives",
                                                                          "sent",
                                                                          "received",
                                                                          "sent gradients",
                                                                          "received gradients",
                                                                          "weight stash",
                                                                          "weight stash of collectives",
                                                                          "gradient stash",
                                                                          "gradient stash of collectives",
                                                                          "host"};

/// The categories for bytes in spaces that belong to no tensor of the whole run.
inline constexpr llvm::StringLiteral activations = "activations and workspace", communication = "communication buffers",
                                     stash = "stash of micro-batches under way", receiveBuffers = "receive buffers",
                                     sendBuffers = "send buffers", offloaded = "offloaded to the host",
                                     keptState = "state before an early update";
inline constexpr std::array<llvm::StringLiteral, numSpaces> spaceCategories = {
    activations,    communication, stash, stash, sendBuffers, receiveBuffers, sendBuffers,
    receiveBuffers, stash,         stash, stash, stash,       offloaded};

/// Of what a pass keeps for a later one of its stage and peers do not see. What they see is in the space after it.
inline bool isStash(Space space) {
  return space == stashSpace || space == weightStashSpace || space == gradientStashSpace;
}
inline bool isShared(Space space) { return space != privateSpace && space != hostSpace && !isStash(space); }

/// `shared`: the space of what peers see.
inline Space spaceOf(mlir::dt::PortAttr port, bool shared) {
  using mlir::dt::PortKind;
  switch (port.getKind()) {
  case PortKind::Stash:
    return shared ? registeredStashSpace : stashSpace;
  case PortKind::WeightStash:
    return shared ? registeredWeightStashSpace : weightStashSpace;
  case PortKind::GradientStash:
    return shared ? registeredGradientStashSpace : gradientStashSpace;
  case PortKind::Sent:
    return sentSpace;
  case PortKind::Received:
    return receivedSpace;
  case PortKind::SentGradient:
    return sentGradientSpace;
  case PortKind::ReceivedGradient:
    return receivedGradientSpace;
  default:
    return shared ? registeredSpace : privateSpace;
  }
}

} // namespace dtc
