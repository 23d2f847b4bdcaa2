// The text of meshes, shardings, ports and parameters survives a round trip.

// RUN: dtc-opt %s | dtc-opt | FileCheck %s

// CHECK: dt.mesh = #dt.mesh<"dp" = 2, "tp" = 4>
// CHECK-SAME: dt.parameters = [#dt.param<"w", file = [2], factored = [2], permutation = [0], dims = ["d"], init = "zeros", stddev = 0.000000e+00 : f64, decays = true, tied = ["head", "tail"]>]
module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 4>, dt.parameters = [
    #dt.param<"w", file = [2], factored = [2], permutation = [0], dims = ["d"], init = "zeros", stddev = 0.0 : f64, decays = true, tied = ["head", "tail"]>]} {
  // CHECK: dt.port = #dt.port<input "words" from next_tokens, placed = <[{}]>>
  // CHECK-SAME: dt.port = #dt.port<input "b" from bias_correction of "beta1">
  // CHECK-SAME: dt.port = #dt.port<input "x">
  // CHECK-SAME: dt.source = #dt.source<bias_correction of "beta2">
  func.func private @ports(tensor<4xf32> {dt.port = #dt.port<input "words" from next_tokens, placed = <[{}]>>},
      tensor<f32> {dt.port = #dt.port<input "b" from bias_correction of "beta1">}, tensor<f32> {dt.port = #dt.port<input "x">})
      attributes {dt.source = #dt.source<bias_correction of "beta2">}
  // A dimension split over a part of an axis, the rest of the axis holding partial sums.
  // CHECK: dt.sharding = #dt.sharding<[{"dp"}, {"tp":(1)2}], partial = sum {"tp":(2)2}>
  func.func private @sub_axes(tensor<4x8xf32> {dt.sharding = #dt.sharding<[{"dp"}, {"tp":(1)2}], partial = sum {"tp":(2)2}>})
  // Of several kinds, those that combine first come first, and axes of one kind are adjacent.
  // CHECK: dt.sharding = #dt.sharding<[{}], partial = sum {"tp":(1)2, "tp":(2)2}, max {"dp"}>
  func.func private @kinds(tensor<8xf32> {dt.sharding = #dt.sharding<[{}], partial = max {"dp"}, sum {"tp":(1)2}, sum {"tp":(2)2}>})
  // CHECK: #dt.port<gradient "w", partial>
  // CHECK-SAME: #dt.port<gradient "w", partial, placed = <[{}], partial = sum {"dp"}>, whole = tensor<8xf32>>
  func.func private @partial_ports(tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>},
                                   tensor<8xf32> {dt.port = #dt.port<gradient "w", placed = <[{}], partial = sum {"dp"}>, partial, whole = tensor<8xf32>>})
}
