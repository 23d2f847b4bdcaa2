// RUN: dtc-opt %s --dt-merge-reduction=accumulation=2 | FileCheck %s

// A gradient is narrowed where the backward pass has it, and not behind all of that. What others read, too, or what would
// become larger, stays where the reduction has it.
// CHECK: func.func @micro_last(
// CHECK: %[[SUM:.*]] = dt.add
// CHECK-NEXT: %[[NARROW:.*]] = dt.convert %[[SUM]] : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: %[[OTHER:.*]] = dt.add
// CHECK-NEXT: %[[R:.*]] = dt.all_reduce sum %[[NARROW]]
// CHECK-NEXT: dt.convert %[[OTHER]]
// CHECK-NEXT: dt.neg %[[OTHER]]
// CHECK: dt.all_reduce
// CHECK: dt.convert %[[R]]

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

func.func @micro(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4xf32> {dt.port = #dt.port<parameter "v">})
    -> (tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<4xf32> {dt.port = #dt.port<gradient "v", partial>}) {
  %g = dt.exp %w : tensor<4xf32>
  %h = dt.exp %v : tensor<4xf32>
  return %g, %h : tensor<4xf32>, tensor<4xf32>
}

func.func @micro_next(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4xf32> {dt.port = #dt.port<parameter "v">},
                      %a: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, %b: tensor<4xf32> {dt.port = #dt.port<gradient "v", partial>})
    -> (tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<4xf32> {dt.port = #dt.port<gradient "v", partial>}) {
  %g = dt.exp %w : tensor<4xf32>
  %sum = dt.add %a, %g : tensor<4xf32>
  %h = dt.add %b, %v : tensor<4xf32>
  return %sum, %h : tensor<4xf32>, tensor<4xf32>
}

func.func @reduce(%g: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}, %h: tensor<4xf32> {dt.port = #dt.port<gradient "v", partial>})
    -> (tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">}, tensor<4xf32> {dt.port = #dt.port<reduced_gradient "v">},
        tensor<4xf32> {dt.port = #dt.port<output "loss_sum">}) {
  %n = dt.convert %g : tensor<4xf32> -> tensor<4xbf16>
  %r = dt.all_reduce sum %n over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xbf16> -> tensor<4xbf16>
  %m = dt.convert %h : tensor<4xf32> -> tensor<4xbf16>
  %o = dt.neg %h : tensor<4xf32>
  %s = dt.all_reduce sum %m over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xbf16> -> tensor<4xbf16>
  %rw = dt.convert %r : tensor<4xbf16> -> tensor<4xf32>
  %sw = dt.convert %s : tensor<4xbf16> -> tensor<4xf32>
  return %rw, %sw, %o : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

}
