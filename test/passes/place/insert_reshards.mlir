// Storage and compute placement are joined where state is read and written.

// RUN: dtc-opt %s --pass-pipeline="builtin.module(func.func(dt-insert-reshards))" | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {
  // A parameter that is read twice is gathered twice; one that is stored as it is used, never.
  // CHECK-LABEL: @each_read_of_a_parameter_moves_it_anew
  func.func @each_read_of_a_parameter_moves_it_anew(
      %w: tensor<8xf32> {dt.port = #dt.port<parameter "w", computed = <[{}]>, stored = <[{"dp"}]>>},
      %v: tensor<8xf32> {dt.port = #dt.port<parameter "v", placed = <[{}]>>})
      -> (tensor<8xf32> {dt.port = #dt.port<share "y", partial>}) {
    // CHECK-NEXT: %[[FIRST:.*]] = dt.reshard %arg0 to <[{}]>
    // CHECK-NEXT: %[[A:.*]] = dt.add %[[FIRST]], %arg1
    // CHECK-NEXT: %[[SECOND:.*]] = dt.reshard %arg0 to <[{}]>
    // CHECK-NEXT: dt.mul %[[SECOND]], %[[A]]
    %0 = dt.add %w, %v : tensor<8xf32>
    %1 = dt.mul %w, %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // A gradient goes to its shard where it appears; what lies there already is not moved.
  // CHECK-LABEL: @a_gradient_is_moved_before_it_is_added
  func.func @a_gradient_is_moved_before_it_is_added(
      %x: tensor<8xf32> {dt.port = #dt.port<input "x", placed = <[{}]>>},
      %g: tensor<8xf32> {dt.port = #dt.port<gradient "w", computed = <[{}]>, stored = <[{"dp"}]>>})
      -> (tensor<8xf32> {dt.port = #dt.port<gradient "w", computed = <[{}]>, stored = <[{"dp"}]>>}) {
    // CHECK-NEXT: %[[G:.*]] = dt.exp
    // CHECK-NEXT: %[[MOVED:.*]] = dt.reshard %[[G]] to <[{"dp"}]>
    // CHECK-NEXT: %[[SUM:.*]] = dt.add %arg1, %[[MOVED]]
    // CHECK-NEXT: return %[[SUM]]
    %0 = dt.exp %x : tensor<8xf32>
    %1 = dt.add %g, %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // A gradient that is added up as it appears is reduced to where the update wants it, once for all its readers.
  // CHECK-LABEL: @a_reduced_gradient_is_moved_once
  func.func @a_reduced_gradient_is_moved_once(%g: tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>})
      -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "w", placed = <[{"dp"}]>>},
          tensor<8xf32> {dt.port = #dt.port<share "squares", partial>}) {
    // CHECK-NEXT: %[[MOVED:.*]] = dt.reshard %arg0 to <[{"dp"}]>
    // CHECK-NEXT: %[[SQUARES:.*]] = dt.mul %[[MOVED]], %[[MOVED]]
    // CHECK-NEXT: return %[[MOVED]], %[[SQUARES]]
    %0 = dt.mul %g, %g : tensor<8xf32>
    return %g, %0 : tensor<8xf32>, tensor<8xf32>
  }

  // The type is converted before the data moves: 16 bits are gathered, anew for each reader of the conversion.
  // CHECK-LABEL: @what_is_converted_moves_narrow
  func.func @what_is_converted_moves_narrow(
      %w: tensor<8xf32> {dt.port = #dt.port<parameter "w", computed = <[{}]>, stored = <[{"dp"}]>>},
      %x: tensor<8xbf16> {dt.port = #dt.port<input "x", placed = <[{}]>>})
      -> (tensor<8xf32> {dt.port = #dt.port<gradient "w", computed = <[{}]>, stored = <[{"dp"}]>>}) {
    // CHECK-NEXT: %[[NARROW:.*]] = dt.convert %arg0 : tensor<8xf32> -> tensor<8xbf16>
    // CHECK-NEXT: %[[FIRST:.*]] = dt.reshard %[[NARROW]] to <[{}]> : tensor<8xbf16>
    // CHECK-NEXT: %[[A:.*]] = dt.add %[[FIRST]], %arg1
    // CHECK-NEXT: %[[SECOND:.*]] = dt.reshard %[[NARROW]] to <[{}]> : tensor<8xbf16>
    // CHECK-NEXT: %[[B:.*]] = dt.mul %[[SECOND]], %[[A]]
    // CHECK-NEXT: %[[MOVED:.*]] = dt.reshard %[[B]] to <[{"dp"}]> : tensor<8xbf16>
    // CHECK-NEXT: %[[G:.*]] = dt.convert %[[MOVED]] : tensor<8xbf16> -> tensor<8xf32>
    // CHECK-NEXT: return %[[G]]
    %0 = dt.convert %w : tensor<8xf32> -> tensor<8xbf16>
    %1 = dt.add %0, %x : tensor<8xbf16>
    %2 = dt.mul %0, %1 : tensor<8xbf16>
    %3 = dt.convert %2 : tensor<8xbf16> -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }

  // A gradient that is rounded for the journey travels rounded.
  // CHECK-LABEL: @a_rounded_gradient_travels_narrow
  func.func @a_rounded_gradient_travels_narrow(%g: tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>})
      -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "w", placed = <[{"dp"}]>>}) {
    // CHECK-NEXT: %[[NARROW:.*]] = dt.convert %arg0
    // CHECK-NEXT: %[[MOVED:.*]] = dt.reshard %[[NARROW]] to <[{"dp"}]> : tensor<8xbf16>
    // CHECK-NEXT: %[[WIDE:.*]] = dt.convert %[[MOVED]]
    // CHECK-NEXT: return %[[WIDE]]
    %0 = dt.convert %g : tensor<8xf32> -> tensor<8xbf16>
    %1 = dt.convert %0 : tensor<8xbf16> -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // A parameter that is stored whole and updated in pieces is cut before and gathered after.
  // CHECK-LABEL: @an_update_in_pieces
  func.func @an_update_in_pieces(
      %w: tensor<8xf32> {dt.port = #dt.port<parameter "w", computed = <[{"dp"}]>, stored = <[{}]>>})
      -> (tensor<8xf32> {dt.port = #dt.port<parameter "w", computed = <[{"dp"}]>, stored = <[{}]>>}) {
    // CHECK-NEXT: %[[PIECE:.*]] = dt.reshard %arg0 to <[{"dp"}]>
    // CHECK-NEXT: %[[NEW:.*]] = dt.mul %[[PIECE]], %[[PIECE]]
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.reshard %[[NEW]] to <[{}]>
    // CHECK-NEXT: return %[[WHOLE]]
    %0 = dt.mul %w, %w : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
