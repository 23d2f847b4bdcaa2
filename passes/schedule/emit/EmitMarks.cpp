// What operations say about themselves, in the manifest's terms.
#include "passes/schedule/emit/EmitMarks.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Reductions.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

abi::Direction directionOf(Direction direction) {
  switch (direction) {
  case Direction::Forward:
    return abi::FORWARD;
  case Direction::InputGradient:
    return abi::INPUT_GRADIENT;
  case Direction::WeightGradient:
    return abi::WEIGHT_GRADIENT;
  case Direction::Update:
    return abi::UPDATE;
  }
  llvm_unreachable("all directions are covered");
}

static abi::Work::Class classOf(WorkClass kind) {
  switch (kind) {
  case WorkClass::Elementwise:
    return abi::Work::ELEMENTWISE;
  case WorkClass::Reduction:
    return abi::Work::REDUCTION;
  case WorkClass::Movement:
    return abi::Work::MOVEMENT;
  case WorkClass::Indexed:
    return abi::Work::INDEXED;
  case WorkClass::Product:
    return abi::Work::PRODUCT;
  case WorkClass::Attention:
    return abi::Work::ATTENTION;
  case WorkClass::Communication:
    return abi::Work::COMMUNICATION;
  }
  llvm_unreachable("all classes are covered");
}

abi::Work workFor(const Work &work) {
  abi::Work out;
  out.set_kind(classOf(work.kind));
  out.set_flops(work.flops);
  out.set_bytes_read(static_cast<uint64_t>(work.bytesRead));
  out.set_bytes_written(static_cast<uint64_t>(work.bytesWritten));
  return out;
}

std::string withinLayer(Operation *op, const std::string &place) {
  LayerAttr layer = marksOf(op).layer;
  std::string name = layer ? layer.fullName() : "";
  bool isWithin =
      layer && StringRef(place).starts_with(name) && (place.size() == name.size() || place[name.size()] == '.');
  return !isWithin ? place : place.size() == name.size() ? "." : place.substr(name.size());
}

void describeMoved(CollectiveOpInterface op, abi::Collective &out) {
  CollectiveShape shape = op.getCollectiveShape();
  out.set_kind(static_cast<abi::Collective::Kind>(shape.kind));
  out.set_reduction(reductionOf(shape.reduction).collective);
  out.set_outer(shape.outer);
  out.set_middle(shape.middle);
  out.set_chunk(shape.chunk);
  out.set_split_first(shape.splitFirst);
  out.set_type(elementTypeOf(op.getValueType()).type);
}

} // namespace dtc
