// The spaces of a rank's arena: what a tensor's address begins with.
//
// Most memory is private or registered with the transport. What belongs to a micro-batch under way in a pipeline has
// several places of its kind, one behind the other; an entry of a timetable says in which it works.
#pragma once

#include "dialect/IR/Attributes.h"

#include <array>

namespace dtc {

enum Space : uint32_t {
  privateSpace,
  registeredSpace,
  stashSpace,
  registeredStashSpace, ///< of what collectives read or write
  sentSpace,
  receivedSpace,
  sentGradientSpace,
  receivedGradientSpace,
  hostSpace, ///< beside the arena: what waits for its backward pass
  numSpaces
};

/// A part of what a rank needs, in which temporaries of its lists have places.
enum class Part : uint8_t { Private, Shared, Host };

/// As manifest and `dtc inspect` name them.
inline constexpr std::array<llvm::StringLiteral, numSpaces> spaceNames = {
    "private",        "registered",         "stash", "stash of collectives", "sent", "received",
    "sent gradients", "received gradients", "host"};

/// Under which the bytes in them count that belong to no tensor of the whole run.
inline constexpr llvm::StringLiteral activations = "activations and workspace", communication = "communication buffers",
                                     stash = "stash of micro-batches under way", receiveBuffers = "receive buffers",
                                     sendBuffers = "send buffers", offloaded = "offloaded to the host";
inline constexpr std::array<llvm::StringLiteral, numSpaces> spaceCategories = {
    activations, communication, stash, stash, sendBuffers, receiveBuffers, sendBuffers, receiveBuffers, offloaded};

inline bool isShared(Space space) { return space != privateSpace && space != stashSpace && space != hostSpace; }

/// `shared`: what peers see of it.
inline Space spaceOf(mlir::dt::PortAttr port, bool shared) {
  using mlir::dt::PortKind;
  switch (port.getKind()) {
  case PortKind::Stash:
    return shared ? registeredStashSpace : stashSpace;
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
