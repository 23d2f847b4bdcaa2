// dt-verify-how: what the phase after this one relies on; the numbers are those of the pass's description.
#include "passes/lower/Passes.h"
#include "passes/lower/kernels/Layouts.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"

namespace dtc {
#define GEN_PASS_DEF_VERIFYHOW
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct VerifyHow : dtc::impl::VerifyHowBase<VerifyHow> {
  void runOnOperation() override {
    auto mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    if (failed(failableParallelForEachN(&getContext(), 0, 2 * functions.size(), [&](size_t task) {
          func::FuncOp function = functions[task / 2];
          return task % 2 == 0 ? checkOperations(function) : checkCalls(function, mesh);
        })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static LogicalResult checkOperations(func::FuncOp function) {
    bool hasMarks = llvm::any_of(function.front(), [](Operation &op) { return bool(marksOf(&op).direction); });
    for (Operation &op : function.front().without_terminator()) {
      if (!isa<LaunchOp, LibraryOpInterface, CollectiveOpInterface, HostCopyOpInterface, ViewOpInterface>(op))
        return op.emitOpError("H1: is neither a launch, nor a library's, nor a collective, nor a copy to the host or "
                              "back, nor a view");
      if (hasMarks && !isa<ViewOpInterface>(op) && !op.hasTrait<OpTrait::ConstantLike>() && !marksOf(&op).direction)
        return op.emitOpError("H2: belongs to no part of the step; run dt-complete-marks");
    }
    return success();
  }

  static LogicalResult checkCalls(func::FuncOp function, MeshAttr mesh) {
    dtc::Layouts layouts(function);
    for (Operation &op : function.front().without_terminator())
      if (auto library = dyn_cast<LibraryOpInterface>(op);
          library && failed(library.getLibraryCall(layouts.layoutsOf(&op), mesh)))
        return op.emitOpError("H3: cannot be called on tensors with these layouts; run dt-explicit-copies");
    return success();
  }
};

} // namespace
