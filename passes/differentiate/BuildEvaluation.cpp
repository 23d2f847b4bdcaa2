// Turns @loss into @eval.
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_BUILDEVALUATION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct BuildEvaluation : dtc::impl::BuildEvaluationBase<BuildEvaluation> {
  void runOnOperation() override {
    func::FuncOp function = requireFunction(getOperation(), dt::function::loss);
    if (!function)
      return signalPassFailure();
    takeEvaluationForm(function);
    markAll(function, dt::Direction::Forward);
    rename(function);
  }

  void rename(func::FuncOp function) {
    Builder builder(&getContext());
    function.setName(dt::function::eval);
    function->setLoc(NameLoc::get(builder.getStringAttr(dt::function::eval)));
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      std::string name = ("eval_" + dt::resultPort(function, index).getName().getValue()).str();
      function.setResultAttr(index, dt::portAttr, dt::PortAttr::get(&getContext(), dt::PortKind::Output, name));
    }
  }
};

} // namespace
