// Functions whose arguments and results are known by role and name.
#pragma once

#include "dialect/IR/Ops.h"
#include "dialect/IR/Roles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// An argument or result: the same role and name mean the same tensor in every function.
struct Port {
  mlir::Type type;
  mlir::StringRef role;
  mlir::StringRef name;
  mlir::Location loc;
};

/// The attributes {dt.role, dt.name}.
mlir::DictionaryAttr portAttributes(mlir::MLIRContext *context, mlir::StringRef role, mlir::StringRef name);

/// Role and name of an argument or result; empty where they are missing.
mlir::StringRef argumentRole(mlir::func::FuncOp function, unsigned index);
mlir::StringRef argumentName(mlir::func::FuncOp function, unsigned index);
mlir::StringRef resultRole(mlir::func::FuncOp function, unsigned index);
mlir::StringRef resultName(mlir::func::FuncOp function, unsigned index);

/// The index of the result of that name, or nothing.
std::optional<unsigned> findResult(mlir::func::FuncOp function, mlir::StringRef name);

/// The function of that name; an error on the module where there is none.
mlir::func::FuncOp requireFunction(mlir::ModuleOp module, mlir::StringRef name);

/// Appends an empty function with one block and these arguments to the module.
mlir::func::FuncOp createFunction(mlir::ModuleOp module, mlir::StringRef name, mlir::ArrayRef<Port> arguments);

/// The arguments of a function by role and name.
class Arguments {
public:
  explicit Arguments(mlir::func::FuncOp function);
  mlir::Value get(mlir::StringRef role, mlir::StringRef name) const { return values.lookup({role, name}); }

private:
  llvm::DenseMap<std::pair<mlir::StringRef, mlir::StringRef>, mlir::Value> values;
};

/// Collects a function's results and ends it with their return.
class Results {
public:
  void add(mlir::Value value, mlir::StringRef role, mlir::StringRef name);
  /// Writes the return, the function's result types and their roles and names.
  void finish(mlir::func::FuncOp function);

private:
  mlir::SmallVector<mlir::Value> values;
  mlir::SmallVector<mlir::DictionaryAttr> attributes;
};

/// Gives every operation built while it listens a layer and a purpose (dialect/IR/Locations.h), unless it has them or
/// is a constant, which may be shared.
class LayerListener : public mlir::OpBuilder::Listener {
public:
  void setLayer(mlir::Attribute newLayer) { layer = newLayer; }
  void setPurpose(mlir::StringRef newPurpose) { purpose = newPurpose.str(); }
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint previous) override;

private:
  mlir::Attribute layer;
  std::string purpose;
};

} // namespace dtc
