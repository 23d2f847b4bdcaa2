// What operations say of themselves, as the manifest has it.
#pragma once

#include "dialect/IR/Ops.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

abi::Direction directionOf(mlir::dt::Direction direction);
abi::Work workFor(const mlir::dt::Work &work);

/// A place as the manifest says it of an operation in a layer: from the layer on, "." for the layer itself.
std::string withinLayer(mlir::Operation *op, const std::string &place);

/// What a collective moves: its kind, type and rows.
void describeMoved(mlir::dt::CollectiveOpInterface op, abi::Collective &out);

} // namespace dtc
