// Builds @reduce: a step's reduced gradients, loss, count and norm.
#include "dialect/IR/Expression.h"
#include "passes/differentiate/Applies.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"
#include "runtime/abi/outputs.h"

namespace dtc {
#define GEN_PASS_DEF_BUILDREDUCTION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;
using dt::Expr;

namespace {

/// A gradient as @micro returns it.
struct Gradient {
  StringRef name;
  Value value;
  dt::LayerAttr layer;
};

struct BuildReduction : dtc::impl::BuildReductionBase<BuildReduction> {
  using BuildReductionBase::BuildReductionBase;

  void runOnOperation() override {
    func::FuncOp micro = requireFunction(getOperation(), dt::function::micro);
    if (!micro)
      return signalPassFailure();
    SmallVector<Argument> arguments;
    Operation *terminator = micro.getBody().front().getTerminator();
    for (auto [index, type] : llvm::enumerate(micro.getResultTypes()))
      arguments.push_back({type, dt::resultPort(micro, index), terminator->getOperand(index).getLoc()});
    for (auto [index, type] : llvm::enumerate(micro.getArgumentTypes()))
      if (dt::PortAttr port = dt::argumentPort(micro, index); port.isFrom(dt::SourceKind::LossScale))
        arguments.push_back({type, port, micro.getArgument(index).getLoc()});
    func::FuncOp reduce = createFunction(getOperation(), dt::function::reduce, arguments);
    SmallVector<Gradient> gradients;
    for (auto [index, argument] : llvm::enumerate(arguments))
      if (argument.port.getKind() == dt::PortKind::Gradient)
        gradients.push_back(
            {argument.port.getName(), reduce.getArgument(index), dt::marksOf(terminator->getOperand(index)).layer});
    asynchronous ? buildAsynchronous(reduce, gradients) : build(reduce, gradients);
  }

  /// What a stage knows that updates by itself, and what the host is told.
  void buildAsynchronous(func::FuncOp reduce, ArrayRef<Gradient> gradients) {
    PurposeListener listener;
    listener.setMarks({{}, dt::DirectionAttr::get(&getContext(), dt::Direction::Update)});
    listener.setPurpose("gate");
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&reduce.getBody().front());
    Arguments arguments(reduce);
    Results results;
    for (const Gradient &gradient : gradients)
      results.add(gradient.value, dt::PortKind::ReducedGradient, gradient.name);
    Expr lossSum(builder, reduce.getLoc(), arguments.get(dt::PortKind::Share, "micro_loss_sum"));
    Expr count = lossSum.with(arguments.get(dt::PortKind::Share, "micro_token_count"));
    results.add(lossSum, dt::PortKind::Output, abi::output::lossSum.name);
    results.add(count, dt::PortKind::Output, abi::output::tokenCount.name);
    results.add(asNumber(changesState(isFinite(lossSum), count), builder.getF32Type()), dt::PortKind::Output,
                abi::output::updateApplied.name);
    results.add(lossSum, dt::PortKind::Share, stepLossSum);
    results.add(count, dt::PortKind::Share, stepTokenCount);
    results.finish(reduce);
  }

  void build(func::FuncOp reduce, ArrayRef<Gradient> gradients) {
    auto direction = dt::DirectionAttr::get(&getContext(), dt::Direction::Update);
    PurposeListener listener;
    listener.setMarks({{}, direction});
    listener.setPurpose("gradient_norm");
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&reduce.getBody().front());
    Arguments arguments(reduce);
    Value lossSum = arguments.get(dt::PortKind::Share, "micro_loss_sum");
    Value count = arguments.get(dt::PortKind::Share, "micro_token_count");

    SmallVector<Value> squareSums;
    Results results;
    for (const Gradient &gradient : gradients) {
      listener.setMarks({gradient.layer, direction});
      squareSums.push_back(squareSum(Expr(builder, gradient.value.getLoc(), gradient.value)));
      results.add(gradient.value, dt::PortKind::ReducedGradient, gradient.name);
    }
    listener.setMarks({{}, direction});
    auto vector = RankedTensorType::get({static_cast<int64_t>(squareSums.size())}, builder.getF32Type());
    Expr squares(builder, reduce.getLoc(),
                 dt::ConcatOp::create(builder, reduce.getLoc(), vector, squareSums, uint64_t(0)));
    if (Value scale = arguments.get(dt::SourceKind::LossScale)) {
      Expr inverse = 1.0 / squares.with(scale);
      squares = squares * square(inverse).broadcast(squares.getShape(), {});
    }
    Expr root = sqrt(squares.sum({0})); // named: operands of one expression are built in the host compiler's order
    Expr norm = root / maximum(squares.with(count), 1);

    results.add(lossSum, dt::PortKind::Output, abi::output::lossSum.name);
    results.add(count, dt::PortKind::Output, abi::output::tokenCount.name);
    results.addPartial(lossSum, dt::PortKind::Share, abi::output::localLossSum.name);
    results.add(squares, dt::PortKind::Output, abi::output::gradientSquareSums.name);
    results.add(norm, dt::PortKind::Output, abi::output::gradientNorm.name);
    if (earlyUpdate)
      addForEarlyUpdate(results, squares.with(lossSum), squares.with(count), norm);
    results.finish(reduce);
  }

  /// What an early update needs to know, and whether what else it assumes is true: that it applies, and clips nothing.
  void addForEarlyUpdate(Results &results, Expr lossSum, Expr count, Expr norm) {
    Expr lossIsFinite = isFinite(lossSum), normIsFinite = isFinite(norm);
    Expr holds = changesState(norm.apply<dt::AndOp>(lossIsFinite, normIsFinite), count);
    if (clipNorm != 0) {
      Expr ratio = clippingRatio(norm, clipNorm);
      holds = norm.apply<dt::AndOp>(holds, ratio.compare(dt::CompareDirection::GE, ratio.splat(1)));
    }
    results.add(asNumber(holds, norm.getType().getElementType()), dt::PortKind::Output, abi::output::updateHolds.name);
    results.addPartial(count, dt::PortKind::Share, stepTokenCount);
  }
};

} // namespace
