// Turns the functions that a frontend has left into functions that generate; see Passes.td.
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_BUILDGENERATION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct BuildGeneration : dtc::impl::BuildGenerationBase<BuildGeneration> {
  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> functions = requireModel(getOperation());
    if (failed(functions))
      return signalPassFailure();
    for (func::FuncOp function : *functions) {
      takeEvaluationForm(function);
      markAll(function, dt::Direction::Forward);
      function->setLoc(NameLoc::get(function.getSymNameAttr()));
    }
  }
};

} // namespace
