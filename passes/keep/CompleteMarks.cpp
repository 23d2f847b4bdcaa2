// Gives operations that passes have made the marks of what they were made for; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Marks.h"

namespace dtc {
#define GEN_PASS_DEF_COMPLETEMARKS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

namespace {

struct CompleteMarks : dtc::impl::CompleteMarksBase<CompleteMarks> {
  void runOnOperation() override { mlir::dt::completeMarks(getOperation().front()); }
};

} // namespace
