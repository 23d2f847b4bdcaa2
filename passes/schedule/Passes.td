// Passes of *when*: in which order?
#ifndef DTC_SCHEDULE_PASSES_TD
#define DTC_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitCollectives : Pass<"dt-split-collectives", "mlir::func::FuncOp"> {
  let summary = "Splits each collective into a start as early and a wait as late as can be.";
  let description = [{
    Before: `%y = dt.all_reduce sum %x over [...] : tensor<8xf32> -> tensor<8xf32>`
    After:
    ```mlir
    %f = dt.all_reduce sum %x over [...] : tensor<8xf32> -> !dt.future<tensor<8xf32>>
    %y = dt.wait %f : !dt.future<tensor<8xf32>> -> tensor<8xf32>
    ```
    A collective of a computed value starts right behind what computes it; one of a parameter stays where it is, and the
    order of all other operations is kept, but that views stand where they are read. What a collective reads must stay
    until its wait; so before the sources of those under way would be larger than the largest of all, the oldest is waited
    for. What is reduced where it is returned, and parameters, stay anyway and do not count. Ensures: every collective's result is a future.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

#endif // DTC_SCHEDULE_PASSES_TD
