// Rows of a product that begin at odd places are lengthened where all that reads them can be told.

// RUN: dtc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dt-pad-rows))' | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>, dt.target = "cuda:sm_90"} {

// 251 elements of two bytes become 256: new columns are minus infinity to a maximum, and zeros to products.
// CHECK-LABEL: func.func @rows_of_a_vocabulary
// CHECK-SAME: [[X:%[^:]*]]: tensor<8x64xbf16>, [[W:%[^:]*]]: tensor<251x64xbf16>
// CHECK: [[LONG:%.*]] = dt.concat [[W]], {{.*}} along 0 : {{.*}} -> tensor<256x64xbf16>
// CHECK: [[Y:%.*]] = dt.contract "sd,vd->sv" [[X]], [[LONG]]
// CHECK: [[LEAST:%.*]] = dt.constant dense<0xFF80>
// CHECK: [[MASKED:%.*]] = dt.select {{.*}}, [[Y]], [[LEAST]]
// CHECK: dt.reduce max [[MASKED]] over [1] : tensor<8x256xbf16> -> tensor<8xbf16>
// CHECK: [[Z:%.*]] = dt.sub [[Y]],
// CHECK: [[CLEARED:%.*]] = dt.select {{.*}}, [[Z]],
// CHECK: [[LONG2:%.*]] = dt.concat [[W]]
// CHECK: dt.contract "sv,vd->sd" [[CLEARED]], [[LONG2]] {{.*}} -> tensor<8x64xbf16>
// CHECK: [[G:%.*]] = dt.contract "sv,sd->vd" [[CLEARED]], [[X]] {{.*}} -> tensor<256x64xf32>
// CHECK: dt.slice [[G]] at [0, 0] : tensor<256x64xf32> -> tensor<251x64xf32>
func.func @rows_of_a_vocabulary(%x: tensor<8x64xbf16>, %w: tensor<251x64xbf16>) -> (tensor<8xbf16>, tensor<8x64xbf16>, tensor<251x64xf32>) {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
  %m = dt.reduce max %y over [1] : tensor<8x251xbf16> -> tensor<8xbf16>
  %b = dt.broadcast %m dims [0] : tensor<8xbf16> -> tensor<8x251xbf16>
  %z = dt.sub %y, %b : tensor<8x251xbf16>
  %d = dt.contract "sv,vd->sd" %z, %w : tensor<8x251xbf16>, tensor<251x64xbf16> -> tensor<8x64xbf16>
  %g = dt.contract "sv,sd->vd" %z, %x : tensor<8x251xbf16>, tensor<8x64xbf16> -> tensor<251x64xf32>
  return %m, %d, %g : tensor<8xbf16>, tensor<8x64xbf16>, tensor<251x64xf32>
}

// A target's class is found by a comparison of numbers, which has as many columns as the row.
// CHECK-LABEL: func.func @what_is_compared_grows_too
// CHECK: dt.iota 1 : tensor<8x256xi32>
// CHECK: dt.broadcast {{.*}} dims [0] : tensor<8xi32> -> tensor<8x256xi32>
// CHECK: dt.compare eq {{.*}} : tensor<8x256xi32> -> tensor<8x256xi1>
// CHECK: dt.reduce sum {{.*}} over [1] : tensor<8x256xf32> -> tensor<8xf32>
func.func @what_is_compared_grows_too(%x: tensor<8x64xbf16>, %w: tensor<251x64xbf16>, %t: tensor<8xi32>) -> tensor<8xf32> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
  %f = dt.convert %y : tensor<8x251xbf16> -> tensor<8x251xf32>
  %i = dt.iota 1 : tensor<8x251xi32>
  %b = dt.broadcast %t dims [0] : tensor<8xi32> -> tensor<8x251xi32>
  %c = dt.compare eq %i, %b : tensor<8x251xi32> -> tensor<8x251xi1>
  %z = dt.constant dense<0.0> : tensor<8x251xf32>
  %s = dt.select %c, %f, %z : tensor<8x251xi1>, tensor<8x251xf32>
  %r = dt.reduce sum %s over [1] : tensor<8x251xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @even_rows_stay
// CHECK: dt.contract {{.*}} -> tensor<8x248xbf16>
func.func @even_rows_stay(%x: tensor<8x64xbf16>, %w: tensor<248x64xbf16>) -> tensor<8xbf16> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<248x64xbf16> -> tensor<8x248xbf16>
  %m = dt.reduce max %y over [1] : tensor<8x248xbf16> -> tensor<8xbf16>
  return %m : tensor<8xbf16>
}

// CHECK-LABEL: func.func @what_is_returned_stays
// CHECK: dt.contract {{.*}} -> tensor<8x251xbf16>
func.func @what_is_returned_stays(%x: tensor<8x64xbf16>, %w: tensor<251x64xbf16>) -> tensor<8x251xbf16> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
  %n = dt.neg %y : tensor<8x251xbf16>
  return %n : tensor<8x251xbf16>
}

// What is added has 251 columns of its own.
// CHECK-LABEL: func.func @other_rows_of_that_length_stay
// CHECK: dt.contract {{.*}} -> tensor<8x251xbf16>
func.func @other_rows_of_that_length_stay(%x: tensor<8x64xbf16>, %w: tensor<251x64xbf16>, %bias: tensor<251xbf16>) -> tensor<8xbf16> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
  %b = dt.broadcast %bias dims [1] : tensor<251xbf16> -> tensor<8x251xbf16>
  %a = dt.add %y, %b : tensor<8x251xbf16>
  %m = dt.reduce max %a over [1] : tensor<8x251xbf16> -> tensor<8xbf16>
  return %m : tensor<8xbf16>
}

// A rank's part of a vocabulary: its columns have other numbers.
// CHECK-LABEL: func.func @parts_stay
// CHECK: dt.contract {{.*}} -> tensor<8x251xf32>
func.func @parts_stay(%x: tensor<8x64xf32>, %w: tensor<251x64xf32>, %t: tensor<8xi32>) -> tensor<8xf32> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xf32>, tensor<251x64xf32> -> tensor<8x251xf32>
  %i = dt.iota 1 sharded <[{}, {"tp"}]> : tensor<8x251xi32>
  %b = dt.broadcast %t dims [0] : tensor<8xi32> -> tensor<8x251xi32>
  %c = dt.compare eq %i, %b : tensor<8x251xi32> -> tensor<8x251xi1>
  %z = dt.constant dense<0.0> : tensor<8x251xf32>
  %s = dt.select %c, %y, %z : tensor<8x251xi1>, tensor<8x251xf32>
  %r = dt.reduce sum %s over [1] : tensor<8x251xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}
}

// -----

module attributes {dt.target = "x86-64-v3"} {
// CHECK-LABEL: func.func @processors_read_rows_anywhere
// CHECK: dt.contract {{.*}} -> tensor<8x251xbf16>
func.func @processors_read_rows_anywhere(%x: tensor<8x64xbf16>, %w: tensor<251x64xbf16>) -> tensor<8xbf16> {
  %y = dt.contract "sd,vd->sv" %x, %w : tensor<8x64xbf16>, tensor<251x64xbf16> -> tensor<8x251xbf16>
  %m = dt.reduce max %y over [1] : tensor<8x251xbf16> -> tensor<8xbf16>
  return %m : tensor<8xbf16>
}
}
