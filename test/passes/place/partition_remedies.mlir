// What would make a collective unnecessary.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {
  // A sum over two dimensions that one parameter splits: the remedy names both.
  // CHECK-LABEL: @a_remedy_names_all_dimensions
  func.func @a_remedy_names_all_dimensions(
      %x: tensor<4x8x2xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}, {}]>>},
      %w: tensor<8x2x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"dp"}, {"tp"}, {}]>>, dt.dims = ["heads", "head_dim", "embed"]})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK: dt.all_reduce sum {{.*}}remedy = "[parameters] \22w\22 = { heads = [], head_dim = [] }"
    %0 = dt.contract "abc,bcd->ad" %x, %w : tensor<4x8x2xf32>, tensor<8x2x6xf32> -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
