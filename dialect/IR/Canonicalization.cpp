// Rewrites that need new operations: sums as differentiation leaves them.
#include "dialect/IR/Ops.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::dt;

namespace {

/// x + scatter_add(init, i, u) becomes scatter_add(x + init, i, u), which adds to x's rows instead of a whole table:
/// the gradient of a tied embedding, and every accumulated gradient of a table.
struct AddIntoScatter : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    for (auto [value, other] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
      auto scatter = value.getDefiningOp<ScatterAddOp>();
      if (!scatter || !scatter->hasOneUse())
        continue;
      auto init = AddOp::create(rewriter, add.getLoc(), other, scatter.getInit());
      init->setDiscardableAttrs(add->getDiscardableAttrDictionary());
      Operation *moved = rewriter.clone(*scatter);
      moved->setOperand(0, init);
      rewriter.replaceOp(add, moved->getResults());
      return success();
    }
    return failure();
  }
};

/// The dimension along which a pad extends its operand, when there is just one.
std::optional<int64_t> getPaddedDim(PadOp pad) {
  ArrayRef<int64_t> from = pad.getOperand().getType().getShape(), to = pad.getType().getShape();
  std::optional<int64_t> padded;
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip(from, to)))
    if (std::get<0>(sizes) != std::get<1>(sizes)) {
      if (padded)
        return std::nullopt;
      padded = dim;
    }
  return padded;
}

/// A sum of pads that tile their shape along one dimension becomes a concatenation: the gradient of a tensor that is
/// only used in slices, such as a fused query-key-value projection.
struct ConcatOfPads : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    SmallVector<PadOp> pads;
    if (!collect(add, pads))
      return failure();
    std::optional<int64_t> dim = getPaddedDim(pads.front());
    if (!dim || !llvm::all_of(pads, [&](PadOp pad) { return getPaddedDim(pad) == dim; }))
      return failure();
    llvm::sort(pads, [&](PadOp a, PadOp b) { return a.getOffsets()[*dim] < b.getOffsets()[*dim]; });
    int64_t end = 0;
    for (PadOp pad : pads) {
      if (pad.getOffsets()[*dim] != end)
        return failure();
      end += pad.getOperand().getType().getDimSize(*dim);
    }
    if (end != cast<RankedTensorType>(add.getType()).getDimSize(*dim))
      return failure();
    SmallVector<Value> pieces = llvm::map_to_vector(pads, [](PadOp pad) -> Value { return pad.getOperand(); });
    auto concat = rewriter.replaceOpWithNewOp<ConcatOp>(add, add.getType(), pieces, static_cast<uint64_t>(*dim));
    concat->setDiscardableAttrs(pads.front()->getDiscardableAttrDictionary());
    return success();
  }

  /// The pads at the leaves of a tree of additions, if all leaves are pads.
  static bool collect(AddOp add, SmallVectorImpl<PadOp> &pads) {
    for (Value operand : {add.getLhs(), add.getRhs()}) {
      if (auto pad = operand.getDefiningOp<PadOp>())
        pads.push_back(pad);
      else if (auto inner = operand.getDefiningOp<AddOp>(); !inner || !inner->hasOneUse() || !collect(inner, pads))
        return false;
    }
    return true;
  }
};

} // namespace

void AddOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<AddIntoScatter, ConcatOfPads>(context);
}
