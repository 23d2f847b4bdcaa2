// What libraries may do with a product before they store it.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

using Kind = EpilogueStep::Kind;

Operation *ContractOp::buildWithEpilogue(OpBuilder &builder, RankedTensorType type, dtc::abi::Epilogue epilogue,
                                         Value other) {
  const dtc::abi::EpilogueForm &form = *dtc::abi::findEpilogue(static_cast<int64_t>(epilogue));
  auto only = [&](bool has) { return has ? other : Value(); };
  auto product =
      ProductOp::create(builder, getLoc(), type, form.storesSum ? type : Type(), getSpec(), getLhs(), getRhs(),
                        only(form.accumulates), only(form.hasBias), only(form.readsOperand), form.hasGelu);
  product->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return product;
}

std::optional<EpilogueStep> ConvertOp::getEpilogueStep(Value) {
  bool widens = elementTypeOf(getType()).type == elementTypeOf(getOperand().getType()).accumulator;
  return widens ? std::optional(EpilogueStep{Kind::Widen}) : std::nullopt;
}

/// A tensor that is the same along its first dimensions is a bias.
std::optional<EpilogueStep> AddOp::getEpilogueStep(Value product) {
  Value other = getLhs() == product ? getRhs() : getLhs();
  auto broadcast = other.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return EpilogueStep{Kind::Accumulate, other};
  ArrayRef<int64_t> dims = broadcast.getDims();
  int64_t rank = getType().getRank(), first = rank - static_cast<int64_t>(dims.size());
  if (dims.empty() || dims != ArrayRef(llvm::to_vector(llvm::seq<int64_t>(first, rank))))
    return std::nullopt;
  return EpilogueStep{Kind::Bias, broadcast.getOperand()};
}

std::optional<EpilogueStep> GeluOp::getEpilogueStep(Value) {
  return getTanh() ? std::optional(EpilogueStep{Kind::Gelu}) : std::nullopt;
}

std::optional<EpilogueStep> GeluGradOp::getEpilogueStep(Value product) {
  if (!getTanh() || getGradient() != product)
    return std::nullopt;
  return EpilogueStep{Kind::GeluGradient, getOperand()};
}
