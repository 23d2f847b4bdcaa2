// RUN: dtc-opt %s --canonicalize | FileCheck %s

// The gradient of a tied embedding adds to rows instead of a table of zeros.
// CHECK-LABEL: func.func @scatter_adds_into_the_other_summand
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK-NEXT:    %[[R:.+]] = dt.scatter_add %[[X]], %{{.+}}, %{{.+}} {dt.layer = #dt.layer<"wte"[0]>}
// CHECK-NEXT:    return %[[R]]
func.func @scatter_adds_into_the_other_summand(%x: tensor<8x4xf32>, %i: tensor<2xi32>, %u: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %zero = dt.constant dense<0.0> : tensor<8x4xf32>
  %s = dt.scatter_add %zero, %i, %u {dt.layer = #dt.layer<"wte"[0]>} : tensor<8x4xf32>, tensor<2xi32>, tensor<2x4xf32>
  %r = dt.add %x, %s : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// The gradient of a fused projection is concatenated, not summed from padded pieces.
// CHECK-LABEL: func.func @pads_that_tile_are_a_concatenation
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x1xf32>, %[[K:[a-z0-9]+]]: tensor<2x1xf32>, %[[V:[a-z0-9]+]]: tensor<2x1xf32>
// CHECK-NEXT:    %[[R:.+]] = dt.concat %[[Q]], %[[K]], %[[V]] along 1
// CHECK-NEXT:    return %[[R]]
func.func @pads_that_tile_are_a_concatenation(%q: tensor<2x1xf32>, %k: tensor<2x1xf32>, %v: tensor<2x1xf32>) -> tensor<2x3xf32> {
  %0 = dt.pad %v at [0, 2] : tensor<2x1xf32> -> tensor<2x3xf32>
  %1 = dt.pad %k at [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
  %2 = dt.pad %q at [0, 0] : tensor<2x1xf32> -> tensor<2x3xf32>
  %3 = dt.add %0, %1 : tensor<2x3xf32>
  %4 = dt.add %3, %2 : tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @pads_that_leave_a_gap_stay
// CHECK:         dt.add
func.func @pads_that_leave_a_gap_stay(%q: tensor<2x1xf32>, %v: tensor<2x1xf32>) -> tensor<2x3xf32> {
  %0 = dt.pad %q at [0, 0] : tensor<2x1xf32> -> tensor<2x3xf32>
  %1 = dt.pad %v at [0, 2] : tensor<2x1xf32> -> tensor<2x3xf32>
  %2 = dt.add %0, %1 : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// A product with zero stays: it propagates NaN.
// CHECK-LABEL: func.func @neutral_elements_vanish
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2xf32>
// CHECK:         %[[M:.+]] = dt.mul %[[X]],
// CHECK-NEXT:    return %[[X]], %[[X]], %[[X]], %[[X]], %[[M]]
func.func @neutral_elements_vanish(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = dt.constant dense<0.0> : tensor<2xf32>
  %one = dt.constant dense<1.0> : tensor<2xf32>
  %0 = dt.add %zero, %x : tensor<2xf32>
  %1 = dt.sub %x, %zero : tensor<2xf32>
  %2 = dt.mul %one, %x : tensor<2xf32>
  %3 = dt.div %x, %one : tensor<2xf32>
  %4 = dt.mul %x, %zero : tensor<2xf32>
  return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @transposes_compose
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x3x4xf32>
// CHECK-NEXT:    %[[R:.+]] = dt.transpose %[[X]] by [2, 0, 1]
// CHECK-NEXT:    return %[[R]]
func.func @transposes_compose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = dt.transpose %x by [1, 0, 2] : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %1 = dt.transpose %0 by [2, 1, 0] : tensor<3x2x4xf32> -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// A round trip over a wider type changes nothing; one over a narrower type rounds, also between bf16 and f16, of which
// neither holds the other.
// CHECK-LABEL: func.func @conversions_there_and_back
// CHECK-SAME:    %[[H:[a-z0-9]+]]: tensor<2xbf16>, %[[X:[a-z0-9]+]]: tensor<2xf32>
// CHECK-DAG:     %[[NARROW:.+]] = dt.convert %[[X]] : tensor<2xf32> -> tensor<2xbf16>
// CHECK-DAG:     %[[ROUNDED:.+]] = dt.convert %[[NARROW]]
// CHECK-DAG:     %[[F:.+]] = dt.convert %[[H]] : tensor<2xbf16> -> tensor<2xf16>
// CHECK-DAG:     %[[OTHER:.+]] = dt.convert %[[F]]
// CHECK:         return %[[H]], %[[ROUNDED]], %[[OTHER]], %[[X]]
func.func @conversions_there_and_back(%h: tensor<2xbf16>, %x: tensor<2xf32>) -> (tensor<2xbf16>, tensor<2xf32>, tensor<2xbf16>, tensor<2xf32>) {
  %0 = dt.convert %h : tensor<2xbf16> -> tensor<2xf32>
  %1 = dt.convert %0 : tensor<2xf32> -> tensor<2xbf16>
  %2 = dt.convert %x : tensor<2xf32> -> tensor<2xbf16>
  %3 = dt.convert %2 : tensor<2xbf16> -> tensor<2xf32>
  %4 = dt.convert %h : tensor<2xbf16> -> tensor<2xf16>
  %5 = dt.convert %4 : tensor<2xf16> -> tensor<2xbf16>
  %6 = dt.convert %x : tensor<2xf32> -> tensor<2xf32>
  return %1, %3, %5, %6 : tensor<2xbf16>, tensor<2xf32>, tensor<2xbf16>, tensor<2xf32>
}
