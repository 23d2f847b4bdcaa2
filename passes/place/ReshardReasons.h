// Why a value is resharded, in words: what split it or left it partial, who needs it otherwise, and the remedy.
#pragma once

#include "passes/place/DimNames.h"
#include "passes/place/LocalValue.h"
#include "passes/place/Reshard.h"

namespace dtc {

class ReshardReasons {
public:
  ReshardReasons(mlir::func::FuncOp function, const AxisTable &axes, LoopTable &loops, const DimNames &names);

  /// Why `value` is resharded from a version of it to what its consumer wants.
  ReshardNote describe(mlir::Value value, const LocalValue &local, const Version &source, const Placement &wanted,
                       mlir::Operation *consumer);

  /// Why a value is partial.
  PartialOrigin originOf(const LocalValue &local);

private:
  std::string describePartial(const LocalValue &local, std::string &remedy);
  std::string findAnnotation(mlir::Operation *op, const mlir::dt::FactorRule &rule, int factor, mlir::StringAttr name);

  const AxisTable &axes;
  LoopTable &loops;
  const DimNames &names;
  /// The names of the inputs' dimensions that an annotation splits.
  llvm::DenseSet<mlir::Attribute> splitInputDims;
};

} // namespace dtc
