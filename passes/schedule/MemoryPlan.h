// Where every tensor of a program lies in a rank's arena.
//
// One arena serves all command lists. Its first part is private to the rank, its second part is visible to the peers on
// the same host and holds the operands and results of collectives. Each part begins with the named tensors (state,
// inputs, outputs), which live for the whole run, parameters, gradients and each slot side by side in one order;
// temporaries of the command lists follow, and share memory where their lifetimes, from the operation that writes them
// to the last one that reads them, do not meet. An operation writes in place of an operand that is read for the last
// time.
#pragma once

#include "passes/schedule/ArenaLayout.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {

/// A tensor that functions hand to each other.
struct NamedTensor {
  mlir::dt::PortAttr port;
  mlir::RankedTensorType localType;
  bool shared = false;               ///< in the arena's visible part
  int owner = -1;                    ///< the tensor in whose memory this one lies, or -1: it has its own
  llvm::SmallVector<int, 1> tenants; ///< of an owner: who lies in its memory
  uint64_t offset = 0;               ///< bytes from the arena's begin
  uint64_t bytes() const { return mlir::dt::bytesOf(localType); }
};

/// A temporary of one function.
struct Temporary {
  uint64_t bytes;
  int first, last; ///< positions of the operations that write it first and read it last
  bool shared;
  mlir::Value value; ///< one of the values it holds
  uint64_t offset = 0;
};

class MemoryPlan {
public:
  /// Plans the functions of one stage of a module in Form 5, whose operations are launches, library calls, views,
  /// collectives, transfers and waits.
  static mlir::FailureOr<MemoryPlan> compute(mlir::ModuleOp module, int64_t stage = 0);

  uint64_t arenaBytes() const { return end; }
  uint64_t sharedBegin() const { return sharedStart; }
  /// Those of several places; others have none.
  llvm::ArrayRef<PlacedSpace> spaces() const { return several; }
  Layouts &layoutsOf(mlir::func::FuncOp function) { return *layouts.find(function)->second; }
  /// Bytes from the arena's begin to a tensor that functions hand to each other, and to a value with memory of its own.
  uint64_t offsetOf(mlir::dt::PortAttr port) const { return named[indexOf.lookup(port.identity())].offset; }
  uint64_t offsetOf(mlir::func::FuncOp function, mlir::Value root);
  /// The largest temporaries alive where most bytes are alive, the largest first.
  llvm::SmallVector<const Temporary *> atThePeak() const;

private:
  friend class FunctionPlanner;
  /// Where a root value lies: a named tensor (index >= 0) or temporary -1 - index of its function.
  using Home = int;

  int nameTensor(mlir::dt::PortAttr port, mlir::Type type);
  void layOut();
  uint64_t placeNamed(bool shared, uint64_t begin);
  uint64_t placeSpaces(bool shared, uint64_t begin);
  NamedTensor &ownerOf(int tensor) { return named[ownerIndexOf(tensor)]; }
  int ownerIndexOf(int tensor) const { return named[tensor].owner < 0 ? tensor : named[tensor].owner; }
  /// `tensor`, and who lies in its memory, moves into the memory of `other`.
  void moveInto(int tensor, int other);

  llvm::SmallVector<NamedTensor, 0> named;
  llvm::DenseMap<mlir::dt::PortIdentity, int> indexOf;
  llvm::MapVector<mlir::Operation *, std::unique_ptr<Layouts>> layouts;
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<Temporary, 0>> temporaries;
  llvm::DenseMap<mlir::Value, Home> homes;
  llvm::DenseSet<mlir::StringAttr> withoutDecay; ///< parameters
  uint64_t unit = 1;                             ///< places begin at multiples of it
  llvm::SmallVector<uint32_t> numPlaces;         ///< of each space, as the timetables say
  llvm::SmallVector<PlacedSpace> several;
  uint64_t localTemporaries = 0, localEnd = 0, sharedStart = 0, sharedTemporaries = 0,
           end = 0; ///< byte positions in the arena
};

} // namespace dtc
