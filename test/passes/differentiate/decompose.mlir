// RUN: dtc-opt %s --dt-decompose | FileCheck %s

// The variance is that of the differences to the mean, which does not cancel in f32.
// CHECK-LABEL: func.func @layer_norm_takes_two_passes
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK:         %[[SUM:.+]] = dt.reduce sum %[[X]] over [1] {dt.layer = #dt.layer<"h"[0]>}
// CHECK:         %[[MEAN:.+]] = dt.mul %[[SUM]],
// CHECK:         %[[ROWS:.+]] = dt.broadcast %[[MEAN]] dims [0]
// CHECK:         %[[CENTERED:.+]] = dt.sub %[[X]], %[[ROWS]]
// CHECK:         %[[SQUARE:.+]] = dt.mul %[[CENTERED]], %[[CENTERED]]
// CHECK:         dt.reduce sum %[[SQUARE]] over [1]
// CHECK-NOT:     dt.layer_norm
func.func @layer_norm_takes_two_passes(%x: tensor<2x4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %y, %mean, %rstd = dt.layer_norm %x, %s, %b epsilon 1.0e-5 {dt.layer = #dt.layer<"h"[0]>} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return %y : tensor<2x4xf32>
}

// No exponential of a logit overflows; the target is found by its column number, which holds on a vocabulary shard.
// CHECK-LABEL: func.func @cross_entropy_subtracts_the_maximum
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x4xf32>, %[[T:[a-z0-9]+]]: tensor<2xi32>
// CHECK:         %[[MAX:.+]] = dt.reduce max %[[X]] over [1]
// CHECK:         %[[ROWS:.+]] = dt.broadcast %[[MAX]]
// CHECK:         %[[BELOW:.+]] = dt.sub %[[X]], %[[ROWS]]
// CHECK:         dt.exp %[[BELOW]]
// CHECK:         %[[COLUMN:.+]] = dt.iota 1
// CHECK:         dt.compare eq %[[COLUMN]],
// CHECK:         dt.constant dense<-100>
// CHECK:         dt.compare ne %[[T]],
func.func @cross_entropy_subtracts_the_maximum(%x: tensor<2x4xf32>, %t: tensor<2xi32>) -> tensor<2xf32> {
  %nll, %lse = dt.softmax_cross_entropy %x, %t ignore -100 : (tensor<2x4xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %nll : tensor<2xf32>
}

// CHECK-LABEL: func.func @dropout_draws_from_its_site
// CHECK:         %[[U:.+]] = dt.random %{{.+}} site 7 of [2, 4]
// CHECK:         dt.compare ge %[[U]],
// CHECK:         dt.select
func.func @dropout_draws_from_its_site(%x: tensor<2x4xf32>, %key: tensor<4xi32>) -> tensor<2x4xf32> {
  %y = dt.dropout %x, %key rate 0.25 site 7 : tensor<2x4xf32>, tensor<4xi32>
  return %y : tensor<2x4xf32>
}
