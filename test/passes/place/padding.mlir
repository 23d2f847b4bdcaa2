// What padding holds after an operation: where that follows from the operands' and is what a reduction passes over,
// nothing is masked.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // State is padded with zeros, and 0 * 0 = 0.
  // CHECK-LABEL: @a_square_of_zero_is_zero
  func.func @a_square_of_zero_is_zero(%w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK-NEXT: %[[SQUARE:.*]] = dt.mul %arg0, %arg0
    // CHECK-NEXT: dt.reduce sum %[[SQUARE]]
    %0 = dt.mul %w, %w : tensor<7xf32>
    %1 = dt.reduce sum %0 over [0] : tensor<7xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }

  // exp(0) = 1.
  // CHECK-LABEL: @an_exponential_is_masked
  func.func @an_exponential_is_masked(%w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[EXP:.*]] = dt.exp %arg0
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %[[EXP]],
    // CHECK: dt.reduce sum %[[MASKED]]
    %0 = dt.exp %w : tensor<7xf32>
    %1 = dt.reduce sum %0 over [0] : tensor<7xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }

  // log(0) is minus infinity, which a maximum passes over.
  // CHECK-LABEL: @a_logarithm_of_zero_is_never_the_maximum
  func.func @a_logarithm_of_zero_is_never_the_maximum(
      %w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK-NEXT: %[[LOG:.*]] = dt.log %arg0
    // CHECK-NEXT: dt.reduce max %[[LOG]]
    %0 = dt.log %w : tensor<7xf32>
    %1 = dt.reduce max %0 over [0] : tensor<7xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }

  // Products are linear: rows of zeros give zeros, whatever they are multiplied with.
  // CHECK-LABEL: @products_of_zeros_are_zeros
  func.func @products_of_zeros_are_zeros(
      %w: tensor<7x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>},
      %v: tensor<4xf32> {dt.port = #dt.port<input "v", placed = <[{}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK-NEXT: %[[PRODUCT:.*]] = dt.contract "ab,b->a" %arg0, %arg1
    // CHECK-NEXT: dt.reduce sum %[[PRODUCT]]
    %0 = dt.contract "ab,b->a" %w, %v : tensor<7x4xf32>, tensor<4xf32> -> tensor<7xf32>
    %1 = dt.reduce sum %0 over [0] : tensor<7xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }

  // An input's padding is anything, and so is what is computed of it.
  // CHECK-LABEL: @products_of_anything_are_masked
  func.func @products_of_anything_are_masked(
      %x: tensor<7x4xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}, {}]>>},
      %v: tensor<4xf32> {dt.port = #dt.port<parameter "v", placed = <[{}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[PRODUCT:.*]] = dt.contract "ab,b->a" %arg0, %arg1
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %[[PRODUCT]],
    // CHECK: dt.reduce sum %[[MASKED]]
    %0 = dt.contract "ab,b->a" %x, %v : tensor<7x4xf32>, tensor<4xf32> -> tensor<7xf32>
    %1 = dt.reduce sum %0 over [0] : tensor<7xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }

  // A row that is repeated fills the padding too.
  // CHECK-LABEL: @repeated_rows_are_masked
  func.func @repeated_rows_are_masked(
      %w: tensor<4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}]>>},
      %v: tensor<7x4xf32> {dt.port = #dt.port<parameter "v", placed = <[{"tp"}, {}]>>})
      -> (tensor<4xf32> {dt.port = #dt.port<output "y", placed = <[{}]>>}) {
    // CHECK: %[[ROWS:.*]] = dt.broadcast %arg0
    // CHECK: %[[SUM:.*]] = dt.add %[[ROWS]], %arg1
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %[[SUM]],
    // CHECK: dt.reduce sum %[[MASKED]]
    %0 = dt.broadcast %w dims [1] : tensor<4xf32> -> tensor<7x4xf32>
    %1 = dt.add %0, %v : tensor<7x4xf32>
    %2 = dt.reduce sum %1 over [0] : tensor<7x4xf32> -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }

  // Whether the padding's mask is set is not known, but both choices are zero.
  // CHECK-LABEL: @either_choice_is_zero
  func.func @either_choice_is_zero(
      %w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>},
      %x: tensor<7xi32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[CHOSEN:.*]] = dt.select %{{.*}}, %arg0,
    // CHECK-NEXT: dt.reduce sum %[[CHOSEN]]
    %zero = dt.constant dense<0> : tensor<7xi32>
    %otherwise = dt.constant dense<0.0> : tensor<7xf32>
    %0 = dt.compare lt %x, %zero : tensor<7xi32> -> tensor<7xi1>
    %1 = dt.select %0, %w, %otherwise : tensor<7xi1>, tensor<7xf32>
    %2 = dt.reduce sum %1 over [0] : tensor<7xf32> -> tensor<f32>
    return %2 : tensor<f32>
  }

  // CHECK-LABEL: @either_choice_may_be_one
  func.func @either_choice_may_be_one(
      %w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>},
      %x: tensor<7xi32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[CHOSEN:.*]] = dt.select %{{.*}}, %{{.*}}, %arg0
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %[[CHOSEN]],
    // CHECK-NEXT: dt.reduce sum %[[MASKED]]
    %zero = dt.constant dense<0> : tensor<7xi32>
    %otherwise = dt.constant dense<1.0> : tensor<7xf32>
    %0 = dt.compare lt %x, %zero : tensor<7xi32> -> tensor<7xi1>
    %1 = dt.select %0, %otherwise, %w : tensor<7xi1>, tensor<7xf32>
    %2 = dt.reduce sum %1 over [0] : tensor<7xf32> -> tensor<f32>
    return %2 : tensor<f32>
  }
}
