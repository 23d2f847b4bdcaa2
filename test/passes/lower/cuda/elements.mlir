// RUN: dtc-opt %s --dt-emit-gpu-kernels | FileCheck %s

// A thread does 16 bytes of each buffer; the count is an argument, and the rest after the last vector is done one by
// one.
// CHECK-LABEL: gpu.func @flat_in_vectors_of_four
// CHECK-SAME: (%arg0: !llvm.ptr {llvm.align = 16 : i64}, %arg1: !llvm.ptr {llvm.align = 16 : i64}, %[[COUNT:.+]]: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>}
// CHECK: %[[COLUMN:.+]] = arith.muli %{{.+}}, %c4_i64 : i64
// CHECK: %[[END:.+]] = arith.addi %[[COLUMN]], %c4_i64 : i64
// CHECK: %[[CUT:.+]] = arith.cmpi slt, %[[COUNT]], %[[END]] : i64
// CHECK: scf.if %[[CUT]] {
// CHECK:   scf.for %[[I:.+]] = %[[COLUMN]] to %[[COUNT]] step
// CHECK:     llvm.load {{.*}} : !llvm.ptr -> vector<1xf32>
// CHECK: } else {
// CHECK:   llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
dt.kernel @flat_in_vectors_of_four(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = dt.gelu %x : tensor<8x64xf32>
  dt.yield %y : tensor<8x64xf32>
}

// One function serves every shape.
// CHECK-NOT: @flat_of_another_shape
dt.kernel @flat_of_another_shape(%x: tensor<7x5xf32>) -> tensor<7x5xf32> {
  %y = dt.gelu %x : tensor<7x5xf32>
  dt.yield %y : tensor<7x5xf32>
}

// Eight elements of 16 bits; they are computed with in 32.
// CHECK-LABEL: gpu.func @narrow_in_vectors_of_eight
// CHECK: %[[STORED:.+]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xbf16>
// CHECK: arith.extf %[[STORED]] : vector<8xbf16> to vector<8xf32>
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
dt.kernel @narrow_in_vectors_of_eight(%x: tensor<8x64xbf16>, %b: tensor<64xbf16>) -> tensor<8x64xbf16> {
  %all = dt.broadcast %b dims [1] : tensor<64xbf16> -> tensor<8x64xbf16>
  %y = dt.add %x, %all : tensor<8x64xbf16>
  dt.yield %y : tensor<8x64xbf16>
}

// Rows that begin at odd elements cannot be read in vectors.
// CHECK-LABEL: gpu.func @odd_rows_one_by_one
// CHECK: %[[EXISTS:.+]] = arith.cmpi slt, %{{.+}}, %c56_i64
// CHECK: scf.if %[[EXISTS]] {
// CHECK-NOT: vector<{{[2-9]}}
// CHECK: gpu.return
dt.kernel @odd_rows_one_by_one(%x: tensor<8x7xf32>, %b: tensor<7xf32>) -> tensor<8x7xf32> {
  %all = dt.broadcast %b dims [1] : tensor<7xf32> -> tensor<8x7xf32>
  %y = dt.add %x, %all : tensor<8x7xf32>
  dt.yield %y : tensor<8x7xf32>
}

// CHECK-LABEL: gpu.func @one_thread_does_scalars
// CHECK-SAME: known_block_size = array<i32: 32, 1, 1>
// CHECK: %[[IS_FIRST:.+]] = arith.cmpi eq
// CHECK: scf.if %[[IS_FIRST]] {
// CHECK-NEXT: llvm.store {{.*}} : f32, !llvm.ptr
dt.kernel @one_thread_does_scalars(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %z = dt.mul %x, %y : tensor<f32>
  dt.yield %z : tensor<f32>
}
