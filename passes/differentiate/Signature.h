// Functions whose arguments and results are known by their ports.
#pragma once

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// An argument of a function to be made.
struct Argument {
  mlir::Type type;
  mlir::dt::PortAttr port;
  mlir::Location loc;
};

/// A port that has not been placed yet.
inline mlir::dt::PortAttr unplacedPort(mlir::dt::PortKind kind, mlir::StringAttr name, mlir::StringAttr slot) {
  return mlir::dt::PortAttr::get(name.getContext(), kind, name, slot, /*source=*/{}, /*may_be_partial=*/false, {}, {},
                                 {});
}

using mlir::dt::stepLossSum, mlir::dt::stepTokenCount;

/// The index of the output of that name, or nothing.
std::optional<unsigned> findOutput(mlir::func::FuncOp function, mlir::StringRef name);

/// The function of that name; an error on the module where there is none.
mlir::func::FuncOp requireFunction(mlir::ModuleOp module, mlir::StringRef name);

/// The functions that frontends make from a model: @loss, or @prompt and, where there are caches, @generate; an error
/// on the module where there is none.
mlir::FailureOr<mlir::SmallVector<mlir::func::FuncOp>> requireModel(mlir::ModuleOp module);

/// Replaces operations that behave differently when a trained model is run than in training, as dropout does.
void takeEvaluationForm(mlir::func::FuncOp function);

/// The floating-point type that an option names, "f32", "bf16" or "f16"; an error on the module where it names none.
mlir::FailureOr<mlir::Type> parseFloatType(mlir::ModuleOp module, mlir::StringRef name);

/// The port of an input that a pass makes; it has the source's name.
mlir::dt::PortAttr inputPort(mlir::MLIRContext *context, mlir::dt::SourceKind kind);

/// Appends an empty function with one block and these arguments to the module.
mlir::func::FuncOp createFunction(mlir::ModuleOp module, mlir::StringRef name, mlir::ArrayRef<Argument> arguments);

/// The arguments of a function by their ports.
class Arguments {
public:
  explicit Arguments(mlir::func::FuncOp function);
  mlir::Value get(mlir::dt::PortKind kind, mlir::StringRef name, mlir::StringRef slot = "") const;
  /// The first input from there, or null.
  mlir::Value get(mlir::dt::SourceAttr source) const { return inputs.lookup(source); }
  mlir::Value get(mlir::dt::SourceKind kind) const { return get(mlir::dt::SourceAttr::get(context, kind, {})); }
  mlir::Value get(mlir::dt::PortAttr port) const { return values.lookup(port.identity()); }

private:
  mlir::MLIRContext *context;
  llvm::DenseMap<mlir::dt::PortIdentity, mlir::Value> values;
  llvm::DenseMap<mlir::dt::SourceAttr, mlir::Value> inputs;
};

/// Collects a function's results and ends it with their return.
class Results {
public:
  void add(mlir::Value value, mlir::dt::PortAttr port);
  void add(mlir::Value value, mlir::dt::PortKind kind, mlir::StringRef name, mlir::StringRef slot = "");
  /// Adds a result that may be handed on as a partial sum.
  void addPartial(mlir::Value value, mlir::dt::PortKind kind, mlir::StringRef name);
  /// Writes the return, the function's result types and their ports.
  void finish(mlir::func::FuncOp function);

private:
  mlir::SmallVector<mlir::Value> values;
  mlir::SmallVector<mlir::dt::PortAttr> ports;
};

/// Gives every operation built while it listens marks and a purpose (dialect/IR/Locations.h), unless it has them or is
/// a constant, which may be shared.
class PurposeListener : public mlir::dt::MarkListener {
public:
  void setPurpose(mlir::StringRef newPurpose);
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint previous) override;

private:
  std::string purpose;
  mlir::LocationAttr place, placeWithPurpose; ///< of the operation before, whose place most operations share
};

/// Marks what has no direction yet: all of a function that has only this one.
void markAll(mlir::func::FuncOp function, mlir::dt::Direction direction);

} // namespace dtc
