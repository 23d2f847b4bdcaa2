// One rank's pieces of a function's values, in every placement that was asked for.
#pragma once

#include "passes/place/Attributes.h"
#include "passes/place/LocalValue.h"
#include "passes/place/ReshardReasons.h"

#include <deque>

namespace dtc {

/// Keeps versions and makes new ones at the builder's insertion point, which only moves forward.
class LocalValues {
public:
  LocalValues(mlir::func::FuncOp function, mlir::OpBuilder &builder, const AxisTable &axes, LoopTable &loops,
              const DimNames &names);

  LoopTable &getLoops() { return loops; }

  void define(mlir::Value value, const Placement &home, Version produced, mlir::Operation *partialBy = nullptr);
  LocalValue &operator[](mlir::Value value) { return *values.find(value)->second; }

  /// Why the value is partial.
  PartialOrigin originOf(mlir::Value value) { return reasons.originOf((*this)[value]); }

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

  mlir::OpBuilder &builder;
  const AxisTable &axes;
  LoopTable &loops;
  ReshardReasons reasons;
  std::deque<LocalValue> storage; ///< whose elements stay where they are as it grows
  llvm::DenseMap<mlir::Value, LocalValue *> values;
};

/// Whether the value is a splat constant of this number.
bool isSplat(mlir::Value value, double number);

} // namespace dtc
