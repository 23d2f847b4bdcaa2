// What operations say about themselves, in the manifest's terms.
#pragma once

#include "dialect/IR/Ops.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

abi::Direction directionOf(mlir::dt::Direction direction);
abi::Work workFor(const mlir::dt::Work &work);

/// A place as the manifest gives it for an operation in a layer: from the layer on, "." for the layer itself.
std::string withinLayer(mlir::Operation *op, const std::string &place);

/// What a collective moves: its kind, type and rows.
void describeMoved(mlir::dt::CollectiveOpInterface op, abi::Collective &out);

} // namespace dtc
