// Where every tensor of a module in Form 5 is in a rank's arena, according to the module's attributes: dt-plan-memory
// writes them, dt-verify-when proves that they fit together, emission reads them.
//
//   module     dt.arena = {bytes, shared}   the arena's size, and where the part that peers see begins; for a pipeline a
//                                           list with one for each stage. `spaces`: those of several places
//                                           (Spaces.h), as [number, base, stride, places]. `host`: bytes of the host's
//                                           memory outside the arena, if there are any
//   function   dt.offsets = {arguments, results, values}   of tensors that functions hand to each other, the same in
//                                           all of them; and of each operation's results, one after the other: views
//                                           and waits have none, they are where their operand is. (One list per
//                                           function: attributes of operations would be as many as tensors.)
//
// All in bytes from the arena's beginning. What is in the host's memory is numbered after the arena.
#pragma once

#include "dialect/IR/ElementTypes.h"
#include "passes/analysis/StageSet.h"
#include "passes/lower/kernels/Layouts.h"
#include "passes/schedule/Spaces.h"
#include "passes/schedule/memory/MemoryUse.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {

/// Attributes of Form 5.
inline constexpr llvm::StringLiteral arenaAttr = "dt.arena", offsetsAttr = "dt.offsets";

/// What a function's `dt.offsets` says.
struct FunctionOffsets {
  llvm::ArrayRef<int64_t> arguments, results;
  llvm::ArrayRef<int64_t> values; ///< of values with buffers (Layouts::ownsBuffer), in the order in which they are made

  /// Emits an error if the function lacks one for an argument or a result.
  static mlir::FailureOr<FunctionOffsets> of(mlir::func::FuncOp function);
  void writeTo(mlir::func::FuncOp function) const;
};

/// What a tensor that functions hand to each other holds.
Holds holdsOf(mlir::dt::PortAttr port);

/// How many places each space has, as the role's timetables say.
llvm::SmallVector<uint32_t> placesOf(mlir::ModuleOp module, int64_t role);

/// A tensor that functions hand to each other.
struct PlacedTensor {
  mlir::dt::PortAttr port;
  mlir::RankedTensorType localType;
  uint64_t offset;
  StageSet stages = {}; ///< whose micro-batches it belongs to
  uint64_t bytes() const { return mlir::dt::bytesOf(localType); }
};

class ArenaLayout {
public:
  /// Reads the layout of one role (Stages.h). Emits an error if the module lacks one of the attributes.
  static mlir::FailureOr<ArenaLayout> read(mlir::ModuleOp module, int64_t role = 0);
  /// The same where the role's functions are known.
  static mlir::FailureOr<ArenaLayout> read(mlir::ModuleOp module, int64_t role,
                                           llvm::ArrayRef<mlir::func::FuncOp> functions);

  uint64_t bytes() const { return extent.bytes; }
  uint64_t sharedBegin() const { return extent.shared; }
  /// The size of the part in the host's memory.
  uint64_t hostBytes() const { return extent.host; }
  /// Whether what begins at an offset is in the host's memory.
  bool isOfHost(uint64_t offset) const { return extent.host > 0 && offset >= extent.bytes; }
  /// Places begin at multiples of this, as the module's target requires.
  uint64_t alignment() const { return unit; }
  /// Spaces of several places, in the order of their numbers.
  llvm::ArrayRef<PlacedSpace> spaces() const { return extent.spaces; }
  /// Where the private and the registered memory of one place end.
  uint64_t privateSpaceEnd() const { return extent.privateSpaceEnd(); }
  uint64_t registeredSpaceEnd() const { return extent.registeredSpaceEnd(); }
  /// In the order in which the functions first mention them.
  llvm::ArrayRef<PlacedTensor> tensors() const { return named; }
  Layouts &layoutsOf(mlir::func::FuncOp function) { return *layouts.find(function)->second; }
  /// The offset of a value that is not a view: an argument or a result of an operation.
  uint64_t offsetOf(mlir::Value root) const { return offsets.lookup(root); }
  bool hasOffset(mlir::Value root) const { return offsets.contains(root); }
  /// The address of a value's first element, in bytes from the arena's beginning.
  uint64_t addressOf(mlir::func::FuncOp function, mlir::Value value);
  /// The offset as the manifest gives it: within the space of the part of the arena where it is.
  uint64_t spaceAddress(uint64_t offset) const;
  /// Bytes by category, in a fixed order; they add up to the arena.
  std::vector<std::pair<std::string, uint64_t>> memoryUse() const;

private:
  mlir::LogicalResult readModule(mlir::ModuleOp module, int64_t role);
  mlir::LogicalResult readSpaces(mlir::ModuleOp module, mlir::DictionaryAttr arena);
  mlir::LogicalResult readFunction(mlir::func::FuncOp function);
  mlir::LogicalResult readValues(mlir::func::FuncOp function, llvm::ArrayRef<int64_t> left);
  mlir::LogicalResult readPort(mlir::func::FuncOp function, mlir::dt::PortAttr port, mlir::Type type, uint64_t at);

  uint64_t endOf(const PlacedTensor &tensor) const { return alignTo(tensor.offset + tensor.bytes(), unit); }

  ArenaExtent extent;
  uint64_t unit = 1;
  llvm::SmallVector<PlacedTensor, 0> named;
  llvm::DenseMap<mlir::dt::PortIdentity, unsigned> indexOf;
  llvm::MapVector<mlir::Operation *, std::unique_ptr<Layouts>> layouts;
  llvm::DenseMap<mlir::Value, uint64_t> offsets;
};

} // namespace dtc
