// Placements follow factors in both directions; parameters decide before inputs, inputs before tags.

// RUN: dtc-opt %s --dt-propagate 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {
  // A column-parallel product followed by a row-parallel one: the hidden dimension is split, the result is not.
  // CHECK-LABEL: @feed_forward
  func.func @feed_forward(
      %x: tensor<4x8x16xf32> {dt.port = #dt.port<input "x", placed = <[{"dp"}, {}, {}]>>},
      %w1: tensor<16x32xf32> {dt.port = #dt.port<parameter "w1", placed = <[{}, {"tp"}]>>},
      %w2: tensor<32x16xf32> {dt.port = #dt.port<parameter "w2", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x8x16xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.contract "bsd,df->bsf"
    // CHECK-SAME: dt.iteration = #dt.sharding<[{"dp"}, {}, {}, {"tp"}]>
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{"dp"}, {}, {"tp"}]>]
    %0 = dt.contract "bsd,df->bsf" %x, %w1 : tensor<4x8x16xf32>, tensor<16x32xf32> -> tensor<4x8x32xf32>
    // CHECK: dt.contract "bsf,fd->bsd"
    // CHECK-SAME: dt.iteration = #dt.sharding<[{"dp"}, {}, {"tp"}, {}]>
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{"dp"}, {}, {}]>]
    %1 = dt.contract "bsf,fd->bsd" %0, %w2 : tensor<4x8x32xf32>, tensor<32x16xf32> -> tensor<4x8x16xf32>
    return %1 : tensor<4x8x16xf32>
  }

  // The input is cut along the summed dimension, the weight along its own: the weight has its way.
  // CHECK-LABEL: @parameters_decide_before_inputs
  func.func @parameters_decide_before_inputs(
      %x: tensor<8x16xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<16x32xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>})
      -> (tensor<8x32xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.contract
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}]>]
    %0 = dt.contract "sd,df->sf" %x, %w : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }

  // Nothing that the product reads is split: its result is, as the parameter is that it is the gradient of.
  // CHECK-LABEL: @gradients_lie_where_parameters_do
  func.func @gradients_lie_where_parameters_do(
      %x: tensor<8x16xf32> {dt.port = #dt.port<input "x">},
      %y: tensor<8x32xf32> {dt.port = #dt.port<input "y">},
      %w: tensor<16x32xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>})
      -> (tensor<16x32xf32> {dt.port = #dt.port<gradient "w", partial>}) {
    // CHECK: dt.contract
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}]>]
    %0 = dt.contract "sd,sf->df" %x, %y : tensor<8x16xf32>, tensor<8x32xf32> -> tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }

  // Two heads for each of dp and none left over for tp: six do not divide over four.
  // CHECK-LABEL: @all_axes_together_divide
  func.func @all_axes_together_divide(
      %x: tensor<4x48xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"dp", "tp"}]>>})
      -> (tensor<4x6x8xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.reshape
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"dp"}, {}]>]
    %0 = dt.reshape %x : tensor<4x48xf32> -> tensor<4x6x8xf32>
    return %0 : tensor<4x6x8xf32>
  }

  // A result that is to lie somewhere places what it is made of.
  // CHECK-LABEL: @results_place_their_values
  func.func @results_place_their_values(%x: tensor<4x8xf32> {dt.port = #dt.port<input "x">})
      -> (tensor<4x8xf32> {dt.port = #dt.port<output "y", placed = <[{"dp"}, {"tp"}]>>}) {
    // CHECK: dt.exp
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{"dp"}, {"tp"}]>]
    %0 = dt.exp %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }

  // A concatenation's operand that lacks the joined dimension has the others.
  // CHECK-LABEL: @concatenated_rows_keep_their_columns
  func.func @concatenated_rows_keep_their_columns(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>}, %row: tensor<8xf32>)
      -> (tensor<5x8xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.exp
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{"tp"}]>]
    %0 = dt.exp %row : tensor<8xf32>
    // CHECK: dt.concat
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}]>]
    %1 = dt.concat %0, %x along 0 : tensor<8xf32>, tensor<4x8xf32> -> tensor<5x8xf32>
    return %1 : tensor<5x8xf32>
  }

  // A tag places the dimensions that it names; others may still be split.
  // CHECK-LABEL: @tags_leave_other_dimensions_open
  func.func @tags_leave_other_dimensions_open(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x">},
      %w: tensor<8x8xf32> {dt.port = #dt.port<input "w">})
      -> (tensor<4x8xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.contract
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{"dp"}, {"tp"}]>]
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %1 = dt.tag %0 "one" ["batch", "embed"] sharded <[{"dp"}, {}]> : tensor<4x8xf32>
    %2 = dt.tag %1 "other" ["batch", "embed"] sharded <[{}, {"tp"}]> : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }

  // The tag splits the sequence over tp, but the weight has tp for its own dimension: the product keeps that.
  // CHECK-LABEL: @parameters_decide_before_tags
  func.func @parameters_decide_before_tags(
      %x: tensor<4x8x16xf32> {dt.port = #dt.port<input "x">},
      %w: tensor<16x32xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>})
      -> (tensor<4x8x32xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.tag
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}, {}]>]
    %0 = dt.tag %x "residual" ["batch", "sequence", "embed"] sharded <[{}, {"tp"}, {}]> : tensor<4x8x16xf32>
    // CHECK: dt.contract
    // CHECK-SAME: dt.iteration = #dt.sharding<[{}, {}, {}, {"tp"}]>
    %1 = dt.contract "bsd,df->bsf" %0, %w : tensor<4x8x16xf32>, tensor<16x32xf32> -> tensor<4x8x32xf32>
    return %1 : tensor<4x8x32xf32>
  }

  // Six heads of eight: a fused dimension is split along its major part, if that divides.
  // CHECK-LABEL: @fused_dimensions_split_along_their_major_part
  func.func @fused_dimensions_split_along_their_major_part(
      %x: tensor<4x48xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>})
      -> (tensor<4x6x8xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.reshape
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}, {}]>]
    %0 = dt.reshape %x : tensor<4x48xf32> -> tensor<4x6x8xf32>
    return %0 : tensor<4x6x8xf32>
  }

  // Both users share one zero; one is split and the other is not.
  // CHECK-LABEL: @constants_pass_nothing_on
  func.func @constants_pass_nothing_on(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %y: tensor<4x8xf32> {dt.port = #dt.port<input "y">})
      -> (tensor<4x8xf32> {dt.port = #dt.port<output "u">}, tensor<4x8xf32> {dt.port = #dt.port<output "v">}) {
    %zero = dt.constant dense<0.0> : tensor<4x8xf32>
    // CHECK: dt.max %arg0
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {"tp"}]>]
    %0 = dt.max %x, %zero : tensor<4x8xf32>
    // CHECK: dt.max %arg1
    // CHECK-SAME: dt.shardings = [#dt.sharding<[{}, {}]>]
    %1 = dt.max %y, %zero : tensor<4x8xf32>
    return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
  }

  // No strategy names a cache: it lies as the rows that are written into it, in every function.
  // CHECK-LABEL: @caches_lie_as_what_is_written
  // CHECK-SAME: #dt.port<cache "c", placed = <[{"dp"}, {}, {"tp"}]>, whole = tensor<4x8x6xf32>>
  // CHECK-SAME: -> (tensor<4x8x6xf32> {dt.port = #dt.port<cache "c", placed = <[{"dp"}, {}, {"tp"}]>
  func.func @caches_lie_as_what_is_written(
      %x: tensor<4x1x5xf32> {dt.port = #dt.port<input "x", placed = <[{"dp"}, {}, {}]>>},
      %w: tensor<5x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>},
      %p: tensor<1xi32> {dt.port = #dt.port<input "p", placed = <[{}]>>},
      %c: tensor<4x8x6xf32> {dt.port = #dt.port<cache "c">}) -> (tensor<4x8x6xf32> {dt.port = #dt.port<cache "c">}) {
    %0 = dt.contract "bsd,dh->bsh" %x, %w : tensor<4x1x5xf32>, tensor<5x6xf32> -> tensor<4x1x6xf32>
    %1 = dt.write_rows %0 into %c at %p : tensor<4x1x6xf32>, tensor<1xi32> -> tensor<4x8x6xf32>
    return %1 : tensor<4x8x6xf32>
  }

  // CHECK-LABEL: @and_so_in_other_functions
  // CHECK-SAME: #dt.port<cache "c", placed = <[{"dp"}, {}, {"tp"}]>, whole = tensor<4x8x6xf32>>
  func.func @and_so_in_other_functions(%c: tensor<4x8x6xf32> {dt.port = #dt.port<cache "c">})
      -> (tensor<4x8x6xf32> {dt.port = #dt.port<output "y">}) {
    %0 = dt.exp %c : tensor<4x8x6xf32>
    return %0 : tensor<4x8x6xf32>
  }
}
