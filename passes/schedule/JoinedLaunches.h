// Launches of one elementwise formula on tensors that continue each other in memory: one command does them all.
//
// An optimizer's formula is launched for every parameter. Parameters that decay lie side by side, as do those that do
// not, and what belongs to them in the same order (MemoryPlan.h): a few commands update a whole model.
#pragma once

#include "passes/lower/Kernels.h"
#include "passes/schedule/ArenaLayout.h"

#include <map>

namespace dtc {

class JoinedLaunches {
public:
  /// Of a function in Form 5. All references outlive this.
  JoinedLaunches(mlir::func::FuncOp function, ArenaLayout &arena, Kernels &kernels);

  /// The launches that are done where `launch` stands, in the order of memory: it alone, or it and later ones. None
  /// where an earlier one does it.
  llvm::ArrayRef<mlir::dt::LaunchOp> at(mlir::dt::LaunchOp launch) const;

private:
  using Range = std::pair<uint64_t, uint64_t>;
  using Group = llvm::SmallVector<mlir::dt::LaunchOp>;
  /// What a launch touches.
  struct Access {
    llvm::SmallVector<Range, 4> read, written;
  };
  /// Which group, as its place among those that are open, touched each byte: of several the last.
  class LastGroups {
  public:
    void mark(Range range, int group);
    /// The last that touched a part of the range, or -1.
    int in(Range range) const;
    void clear() { pieces.clear(); }

  private:
    void splitAt(uint64_t address);
    struct Piece {
      uint64_t end;
      int group;
    };
    std::map<uint64_t, Piece> pieces; ///< by begin
  };

  void visitAll(llvm::ArrayRef<mlir::dt::LaunchOp> launches);
  void visit(mlir::dt::LaunchOp launch, unsigned formula);
  Access accessOf(mlir::dt::LaunchOp launch) const;
  unsigned formulaOf(mlir::dt::LaunchOp launch);
  bool continues(const Group &group, mlir::dt::LaunchOp launch) const;
  bool isInTheWay(int group, const Access &launch) const;
  Range rangeOf(mlir::Value value) const;

  mlir::func::FuncOp function;
  ArenaLayout &arena;
  Kernels &kernels;
  llvm::DenseMap<mlir::Attribute, unsigned> formulaOfKernel;
  llvm::StringMap<unsigned> formulas;
  /// Of launches with nothing else between: groups, those that end at an address by their formula and it, and what all
  /// of them touch. Each launch of an update asks, so nothing here looks at all groups.
  std::vector<Group> open;
  std::map<std::pair<unsigned, uint64_t>, llvm::SmallVector<int, 1>> endingAt;
  LastGroups readBy, writtenBy;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::dt::LaunchOp>> groups; ///< by their first
};

} // namespace dtc
