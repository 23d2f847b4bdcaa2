// One rank's pieces of a function's values, in every placement that was asked for.
#pragma once

#include "passes/place/Attributes.h"
#include "passes/place/DimNames.h"
#include "passes/place/Reshard.h"

#include <deque>

namespace dtc {

/// A piece of a value.
struct Version {
  const Placement *placement; ///< kept by the axis table, as all placements here: equal ones are one
  mlir::Value value;
  std::optional<double> padding; ///< what every padding element holds, when that is known
};

/// Why a value that came in as an argument is partial, as an earlier function tells it.
struct PartialOrigin {
  std::string cause, remedy;
};

/// A value of the function being partitioned.
struct LocalValue {
  mlir::RankedTensorType global;
  /// Where propagation wants it: partial values with several users are resolved to this.
  const Placement *home = nullptr;
  llvm::SmallVector<Version, 1> versions; ///< first the one that was produced
  mlir::Operation *partialBy = nullptr;   ///< the operation whose split reduction made it partial
  std::unique_ptr<PartialOrigin> origin;  ///< of an argument that is partial
};

/// Keeps versions and makes new ones at the builder's insertion point, which only moves forward.
class LocalValues {
public:
  LocalValues(mlir::func::FuncOp function, mlir::OpBuilder &builder, const AxisTable &axes, LoopTable &loops,
              const DimNames &names);

  LoopTable &getLoops() { return loops; }

  void define(mlir::Value value, const Placement &home, Version produced, mlir::Operation *partialBy = nullptr);
  LocalValue &operator[](mlir::Value value) { return *values.find(value)->second; }

  /// Why the value is partial.
  PartialOrigin originOf(mlir::Value value);

  /// The atoms over which the value is still a partial sum and nobody has resolved it yet.
  Partials pendingSum(mlir::Value value);

  /// The value's piece as `wanted`, which the axis table keeps, resharded if need be. `consumer` asks, for messages.
  Version &get(mlir::Value value, const Placement &wanted, mlir::Operation *consumer);

  /// The same, made for this consumer alone and not remembered.
  Version makeAnew(mlir::Value value, const Placement &wanted, mlir::Operation *consumer);

  /// The same with the identity of a reduction in every padding element. Zeros are remembered: later users share them.
  mlir::Value getFilled(mlir::Value value, const Placement &wanted, const mlir::dt::Reduction &reduction,
                        mlir::Operation *consumer);

  PlacementAttributes placements; ///< of the operations that are rebuilt

private:
  const Version &cheapest(LocalValue &local, const Placement &wanted);
  Version build(mlir::Value value, const Placement &wanted);
  Version reshard(mlir::Value value, LocalValue &local, const Version &source, const Placement &wanted,
                  mlir::Operation *consumer);
  ReshardNote describe(mlir::Value value, const LocalValue &local, const Version &source, const Placement &wanted,
                       mlir::Operation *consumer);
  std::string describePartial(const LocalValue &local, std::string &remedy);
  std::string findAnnotation(mlir::Operation *op, const mlir::dt::FactorRule &rule, int factor, mlir::StringAttr name);

  mlir::OpBuilder &builder;
  const AxisTable &axes;
  LoopTable &loops;
  const DimNames &names;
  /// The names of the inputs' dimensions that an annotation splits.
  llvm::DenseSet<mlir::Attribute> splitInputDims;
  std::deque<LocalValue> storage; ///< whose elements stay where they are as it grows
  llvm::DenseMap<mlir::Value, LocalValue *> values;
};

/// Whether the value is a splat constant of this number.
bool isSplat(mlir::Value value, double number);

} // namespace dtc
