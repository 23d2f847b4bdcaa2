// Passes of *when*: in which order?
#ifndef DTC_SCHEDULE_PASSES_TD
#define DTC_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitCollectives : Pass<"dt-split-collectives", "mlir::func::FuncOp"> {
  let summary = "Splits each collective into a start and a wait before the first use of its value.";
  let description = [{
    Before: `%y = dt.all_reduce sum %x over [...] : tensor<8xf32> -> tensor<8xf32>`
    After:
    ```mlir
    %f = dt.all_reduce sum %x over [...] : tensor<8xf32> -> !dt.future<tensor<8xf32>>
    %y = dt.wait %f : !dt.future<tensor<8xf32>> -> tensor<8xf32>
    ```
    The order of operations is kept. What a collective reads must stay until its wait; so before the sources of those
    under way would be larger than the largest of all, the oldest is waited for. Ensures: every collective's result is a future.
  }];
  let dependentDialects = ["mlir::dt::DTDialect"];
}

#endif // DTC_SCHEDULE_PASSES_TD
