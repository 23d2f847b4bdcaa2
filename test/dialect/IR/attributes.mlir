// The text of meshes and shardings survives a round trip.

// RUN: dtc-opt %s | dtc-opt | FileCheck %s

// CHECK: dt.mesh = #dt.mesh<"dp" = 2, "tp" = 4>
module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 4>} {
  // A dimension split over a part of an axis, the rest of the axis holding partial sums.
  // CHECK: dt.sharding = #dt.sharding<[{"dp"}, {"tp":(1)2}], partial = sum {"tp":(2)2}>
  func.func private @sub_axes(tensor<4x8xf32> {dt.sharding = #dt.sharding<[{"dp"}, {"tp":(1)2}], partial = sum {"tp":(2)2}>})
}
