// All ranks advance operation by operation, so a collective finds every member's operand ready.
#include "dialect/reference/Interpreter.h"
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/reference/Mesh.h"

using namespace mlir;
using namespace mlir::dt;

/// The tensor type of a value; a future counts as the tensor that it will be.
static RankedTensorType tensorType(Type type) {
  if (auto future = dyn_cast<FutureType>(type))
    return future.getValue();
  return dyn_cast<RankedTensorType>(type);
}

/// To the precision of the elements' type.
static void round(HostTensor &tensor, const dtc::abi::ElementType &type) {
  HostTensor rounded(tensor.shape);
  llvm::transform(*tensor.elements, rounded.elements->begin(), [&](double x) { return dtc::abi::roundTo(type, x); });
  tensor = rounded;
}

namespace {
class Interpreter {
public:
  /// Ranks that advance together; collectives need all ranks of a mesh.
  Interpreter(FunctionOpInterface function, ArrayRef<RankContext> ranks)
      : function(function), ranks(ranks), values(ranks.size()) {}

  FailureOr<SmallVector<HostTensors>> run(ArrayRef<HostTensors> arguments) {
    if (!llvm::hasSingleElement(function.getFunctionBody()))
      return function.emitOpError("the interpreter runs functions of one block");
    if (arguments.size() != ranks.size())
      return function.emitOpError("needs the arguments of ") << ranks.size() << " ranks, got " << arguments.size();
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (failed(bindArguments(rank, arguments[rank])))
        return failure();
    Block &body = function.getFunctionBody().front();
    for (Operation &op : body.without_terminator()) {
      if (failed(evaluate(&op)))
        return failure();
      forgetAfter(&op);
    }
    SmallVector<HostTensors> results;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      results.push_back(lookUp(rank, body.getTerminator()->getOperands()));
    return results;
  }

private:
  LogicalResult bindArguments(size_t rank, ArrayRef<HostTensor> arguments) {
    if (arguments.size() != function.getNumArguments())
      return function.emitOpError("has ") << function.getNumArguments() << " arguments, got " << arguments.size();
    for (auto [i, tensor] : llvm::enumerate(arguments)) {
      BlockArgument argument = function.getArgument(i);
      RankedTensorType type = tensorType(argument.getType());
      if (!type || type.getShape() != ArrayRef(tensor.shape))
        return function.emitOpError("argument ") << i << " has type " << argument.getType()
                                                 << ", got a tensor of shape [" << tensor.shape << "] on rank " << rank;
      bind(rank, argument, tensor);
    }
    return success();
  }

  void bind(size_t rank, Value value, HostTensor tensor) {
    if (const dtc::abi::ElementType &type = elementTypeOf(value.getType()); !ranks[rank].f64 && type.isFloating())
      round(tensor, type);
    values[rank][value] = std::move(tensor);
  }

  LogicalResult evaluate(Operation *op) {
    if (auto collective = dyn_cast<CollectiveOpInterface>(op))
      return evaluateCollective(collective);
    auto reference = dyn_cast<ReferenceOpInterface>(op);
    if (!reference)
      return op->emitOpError("has no reference semantics: it does not implement ReferenceOpInterface");
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      SmallVector<HostTensor> results;
      if (failed(reference.evaluate(lookUp(rank, op->getOperands()), ranks[rank], results)))
        return failure();
      for (auto [value, tensor] : llvm::zip_equal(op->getResults(), results))
        bind(rank, value, tensor);
    }
    return success();
  }

  LogicalResult evaluateCollective(CollectiveOpInterface op) {
    MeshAttr mesh = ranks[0].mesh;
    if (!mesh || mesh.getNumRanks() != int64_t(ranks.size()))
      return op.emitOpError("needs the other ranks: interpret the function on a mesh");
    Value operand = op->getOperand(0);
    SmallVector<AxisRefAttr> axes = op.getCollectiveAxes();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      HostTensors members = llvm::map_to_vector(getGroup(mesh, rank, axes),
                                                [&](int64_t member) { return values[member].lookup(operand); });
      bind(rank, op->getResult(0), op.evaluateGroup(members, getIndexIn(mesh, rank, axes)));
    }
    return success();
  }

  HostTensors lookUp(size_t rank, ValueRange wanted) {
    return llvm::map_to_vector(wanted, [&](Value value) { return values[rank].lookup(value); });
  }

  /// Drops operands that nobody reads after `op`.
  void forgetAfter(Operation *op) {
    for (Value operand : op->getOperands())
      if (llvm::all_of(operand.getUsers(), [&](Operation *user) { return user == op || user->isBeforeInBlock(op); }))
        for (auto &valuesOfRank : values)
          valuesOfRank.erase(operand);
  }

  FunctionOpInterface function;
  ArrayRef<RankContext> ranks;
  SmallVector<llvm::DenseMap<Value, HostTensor>> values; ///< of each rank
};
} // namespace

FailureOr<HostTensors> dt::interpret(FunctionOpInterface function, const RankContext &rank,
                                     ArrayRef<HostTensor> arguments) {
  FailureOr<SmallVector<HostTensors>> results = Interpreter(function, rank).run(HostTensors(arguments));
  if (failed(results))
    return failure();
  return results->front();
}

FailureOr<HostTensors> dt::interpret(FunctionOpInterface function, ArrayRef<HostTensor> arguments,
                                     InterpreterOptions options) {
  return interpret(function, RankContext{nullptr, 0, options.f64}, arguments);
}

FailureOr<SmallVector<HostTensors>> dt::interpret(FunctionOpInterface function, MeshAttr mesh,
                                                  ArrayRef<HostTensors> arguments, InterpreterOptions options) {
  SmallVector<RankContext> ranks;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    ranks.push_back({mesh, rank, options.f64});
  return Interpreter(function, ranks).run(arguments);
}

LogicalResult LaunchOp::evaluate(ArrayRef<HostTensor> operands, const RankContext &rank,
                                 SmallVectorImpl<HostTensor> &results) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  RankContext inside = rank;
  inside.sites = getSites();
  FailureOr<HostTensors> outputs = interpret(kernel, inside, operands);
  if (failed(outputs))
    return failure();
  results.append(*outputs);
  return success();
}
