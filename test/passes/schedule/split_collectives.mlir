// RUN: dtc-opt %s --dt-split-collectives | FileCheck %s
// What is split already stays as it is.
// RUN: dtc-opt %s --dt-split-collectives --dt-split-collectives | FileCheck %s
// A wait stands at the collective's place in the model.
// RUN: dtc-opt %s --dt-split-collectives --mlir-print-debuginfo --mlir-use-nameloc-as-prefix=false | FileCheck %s --check-prefix=PLACE

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// A collective runs beside what does not need its value.
// CHECK-LABEL: @waits_before_first_use
func.func @waits_before_first_use(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[F:.*]] = dt.all_reduce sum %{{.*}} : tensor<8xf32> -> !dt.future<tensor<8xf32>>
  // CHECK-NEXT: %[[E:.*]] = dt.exp
  // CHECK-NEXT: %[[V:.*]] = dt.wait %[[F]]
  // CHECK-NEXT: dt.add %[[V]], %[[E]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %e = dt.exp %y : tensor<8xf32>
  %r = dt.add %sum, %e : tensor<8xf32>
  return %r, %e : tensor<8xf32>, tensor<8xf32>
}

// The reason and the remedy go with the collective; the wait comes before the first of several users.
// CHECK-LABEL: @keeps_what_explains_it
// PLACE-LABEL: @keeps_what_explains_it
func.func @keeps_what_explains_it(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dt.all_reduce max %{{.*}} {dt.layer = "h.0", reason = "partial", remedy = "none"}
  // CHECK-NEXT: dt.exp %arg0
  // CHECK-NEXT: %[[V:.*]] = dt.wait
  // CHECK-NEXT: dt.exp %[[V]]
  // CHECK-NEXT: dt.add %[[V]]
  // PLACE: dt.wait {{.*}} loc([[LOC:#loc[0-9]*]])
  // PLACE: [[LOC]] = loc("h.0.attn")
  %max = dt.all_reduce max %x over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = "h.0", reason = "partial", remedy = "none"} : tensor<8xf32> -> tensor<8xf32> loc("h.0.attn")
  %e = dt.exp %x : tensor<8xf32>
  %f = dt.exp %max : tensor<8xf32>
  %r = dt.add %max, %e : tensor<8xf32>
  return %r, %f : tensor<8xf32>, tensor<8xf32>
}

// A value that is only returned is waited for at the end.
// CHECK-LABEL: @waits_before_return
func.func @waits_before_return(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: dt.all_reduce
  // CHECK-NEXT: %[[V:.*]] = dt.wait
  // CHECK-NEXT: return %[[V]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  return %sum : tensor<8xf32>
}

}
