// RUN: dtc-opt %s --dt-emit-gpu-kernels | FileCheck %s

// Sums over rows: each block adds up some of them in f32 and leaves the sums in f64, ...
// CHECK-LABEL: gpu.func @columns(
// CHECK-SAME: %[[X:.+]]: !llvm.ptr {llvm.align = 16 : i64}, %[[Y:.+]]: !llvm.ptr {llvm.align = 16 : i64}, %[[SCRATCH:.+]]: !llvm.ptr {llvm.align = 16 : i64}) workgroup(%[[MEMORY:.+]] : memref<1024xf32, #gpu.address_space<workgroup>>)
// CHECK: scf.for {{.*}} iter_args
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr -> vector<4xf32>
// CHECK: memref.store %{{.+}}, %[[MEMORY]]
// CHECK: gpu.barrier
// CHECK: memref.load %[[MEMORY]]
// CHECK: arith.extf {{.*}} : f32 to f64
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[SCRATCH]]
// CHECK: llvm.store %{{.+}}, %[[SLOT]] {{.*}} : f64, !llvm.ptr
// ... which a second function adds in order. No atomic operation decides it.
// CHECK-LABEL: gpu.func @columns$1(
// CHECK-SAME: %{{.+}}: !llvm.ptr {{{.*}}}, %[[Y:.+]]: !llvm.ptr {{{.*}}}, %[[SCRATCH:.+]]: !llvm.ptr {{{.*}}})
// CHECK: scf.for
// CHECK:   llvm.load {{.*}} -> f64
// CHECK: gpu.barrier
// CHECK: arith.truncf {{.*}} : f64 to f32
// CHECK: llvm.store {{.*}} : vector<1xf32>, !llvm.ptr
dt.kernel @columns(%x: tensor<4096x768xf32>) -> tensor<768xf32> {
  %sum = dt.reduce sum %x over [0] : tensor<4096x768xf32> -> tensor<768xf32>
  dt.yield %sum : tensor<768xf32>
}

// Few rows need no second function.
// CHECK-LABEL: gpu.func @few_rows(
// CHECK-SAME: %arg0: !llvm.ptr {{{[^%]*}}}, %arg1: !llvm.ptr {{{[^%]*}}}) workgroup
// CHECK-NOT: @few_rows$1
dt.kernel @few_rows(%x: tensor<32x768xf32>) -> tensor<768xf32> {
  %sum = dt.reduce sum %x over [0] : tensor<32x768xf32> -> tensor<768xf32>
  dt.yield %sum : tensor<768xf32>
}

// The sum of a whole tensor: its blocks' partial sums go to scratch, the last function's one block combines them.
// CHECK-LABEL: gpu.func @whole_tensor(
// CHECK-SAME: %[[SCRATCH:[^ ]+]]: !llvm.ptr {llvm.align = 16 : i64}, %[[COUNT:[^ ]+]]: i64)
// CHECK: scf.for {{.*}} iter_args
// CHECK: gpu.shuffle xor {{.*}} : f64
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} : f64, !llvm.ptr
// CHECK-LABEL: gpu.func @whole_tensor$1(
// CHECK: scf.for
// CHECK:   llvm.load {{.*}} -> f64
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr
dt.kernel @whole_tensor(%x: tensor<300x1000xf32>) -> tensor<f32> {
  %sum = dt.reduce sum %x over [0, 1] : tensor<300x1000xf32> -> tensor<f32>
  dt.yield %sum : tensor<f32>
}

// A result that goes back into the elements: the second function's blocks each combine what the first have left.
// CHECK-LABEL: gpu.func @normalised(
// CHECK: llvm.store {{.*}} : f64, !llvm.ptr
// CHECK-LABEL: gpu.func @normalised$1(
// CHECK: llvm.load {{.*}} -> f64
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr
dt.kernel @normalised(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %square = dt.mul %x, %x : tensor<100000xf32>
  %sum = dt.reduce sum %square over [0] : tensor<100000xf32> -> tensor<f32>
  %all = dt.broadcast %sum dims [] : tensor<f32> -> tensor<100000xf32>
  %y = dt.div %x, %all : tensor<100000xf32>
  dt.yield %y : tensor<100000xf32>
}

// Sums over the columns and more, of what differs along rows and columns.
// CHECK-LABEL: gpu.func @total(
// CHECK: arith.divui
// CHECK: llvm.store {{.*}} : f64, !llvm.ptr
// CHECK-LABEL: gpu.func @total$1(
dt.kernel @total(%x: tensor<3x4000x32xf32>, %weight: tensor<3xf32>) -> tensor<f32> {
  %all = dt.broadcast %weight dims [0] : tensor<3xf32> -> tensor<3x4000x32xf32>
  %product = dt.mul %x, %all : tensor<3x4000x32xf32>
  %sum = dt.reduce sum %product over [0, 1, 2] : tensor<3x4000x32xf32> -> tensor<f32>
  dt.yield %sum : tensor<f32>
}
