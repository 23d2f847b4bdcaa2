// Reads a step out of a module.
#pragma once

#include "passes/lower/kernels/Kernels.h"
#include "passes/schedule/FlatStep.h"
#include "passes/schedule/memory/ArenaLayout.h"

namespace dtc {

/// A role, and what its numbers stand for in the module.
struct ReadRole {
  FlatRole role;
  int64_t number = 0; ///< of the role (Stages.h)
  llvm::SmallVector<mlir::dt::PortAttr> ports;
  struct Function {
    mlir::func::FuncOp function;
    std::unique_ptr<Layouts> layouts;
    llvm::DenseMap<mlir::Value, int> values; ///< those with memory of their own
    std::vector<mlir::Value> roots;          ///< by number
    std::vector<mlir::Operation *> commands; ///< by number
  };
  std::vector<Function> functions;
};

/// One role of a module in Form 5, whose operations are launches, library calls, views, collectives, transfers and
/// waits: how they depend on each other, which is all that laying them out takes.
/// `functions`: the role's.
ReadRole readRole(mlir::ModuleOp module, Kernels &kernels, int64_t number,
                  llvm::ArrayRef<mlir::func::FuncOp> functions);

/// Adds what orders and costs need: names, marks, work, what is moved and which stages meet. Emits an error on an
/// operation whose work is unknown.
mlir::LogicalResult describeCommands(ReadRole &read, Kernels &kernels);

/// What a collective moves, and among whom.
FlatMove moveOf(mlir::dt::CollectiveOpInterface op, mlir::dt::MeshAttr mesh);
/// The narrowest floating-point type that an operation touches; f32 where it touches none.
abi::DataType narrowestType(mlir::Operation *op);

} // namespace dtc
