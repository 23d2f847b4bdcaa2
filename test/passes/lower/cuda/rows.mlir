// RUN: dtc-opt %s --dt-emit-gpu-kernels | FileCheck %s

// A row that a warp holds is read once, whatever the number of sweeps, and summed by shuffles alone.
// CHECK-LABEL: gpu.func @warp_a_row
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 128, 1, 1>}
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr -> vector<4xf32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: arith.subf
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: gpu.barrier
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr
// CHECK: gpu.return
dt.kernel @warp_a_row(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %max = dt.reduce max %x over [1] : tensor<8x256xf32> -> tensor<8xf32>
  %maxAll = dt.broadcast %max dims [0] : tensor<8xf32> -> tensor<8x256xf32>
  %shifted = dt.sub %x, %maxAll : tensor<8x256xf32>
  %e = dt.exp %shifted : tensor<8x256xf32>
  %sum = dt.reduce sum %e over [1] : tensor<8x256xf32> -> tensor<8xf32>
  %sumAll = dt.broadcast %sum dims [0] : tensor<8xf32> -> tensor<8x256xf32>
  %y = dt.div %e, %sumAll : tensor<8x256xf32>
  dt.yield %y : tensor<8x256xf32>
}

// Four threads a row of 16 elements, 32 rows a block. The last block has rows that do not exist: their threads take part
// in the shuffles and store nothing.
// CHECK-LABEL: gpu.func @part_of_a_warp_a_row
// CHECK: %[[EXISTS:.+]] = arith.cmpi slt, %[[ROW:.+]], %c33_i64
// CHECK: arith.select %[[EXISTS]], %[[ROW]], %c32_i64
// CHECK-COUNT-2: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: %[[STORES:.+]] = arith.andi %[[EXISTS]]
// CHECK: scf.if %[[STORES]]
dt.kernel @part_of_a_warp_a_row(%x: tensor<33x16xf32>) -> tensor<33xf32> {
  %sum = dt.reduce sum %x over [1] : tensor<33x16xf32> -> tensor<33xf32>
  dt.yield %sum : tensor<33xf32>
}

// Warps meet in workgroup memory. The sum's 125 vectors of threads beyond the row's end count as zero.
// CHECK-LABEL: gpu.func @block_a_row
// CHECK-SAME: workgroup(%[[MEMORY:.+]] : memref<8xf32, #gpu.address_space<workgroup>>)
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
// CHECK: %[[EXISTS:.+]] = arith.cmpi slt, %{{.+}}, %c2500_i64
// CHECK: arith.select %[[EXISTS]], %{{.+}}, %{{.+}} : vector<4xf32>
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: scf.if
// CHECK: memref.store %{{.+}}, %[[MEMORY]]
// CHECK: gpu.barrier
// CHECK: memref.load %[[MEMORY]]
// CHECK-COUNT-3: gpu.shuffle xor
dt.kernel @block_a_row(%x: tensor<4x10000xf32>) -> tensor<4xf32> {
  %sum = dt.reduce sum %x over [1] : tensor<4x10000xf32> -> tensor<4xf32>
  dt.yield %sum : tensor<4xf32>
}

// Too long for registers: each sweep reads the row, eight elements of each of 1024 threads at a time.
// CHECK-LABEL: gpu.func @long_row_read_again
// CHECK-SAME: known_block_size = array<i32: 512, 1, 1>
// CHECK: scf.for {{.*}} iter_args
// CHECK-COUNT-8: llvm.load
// CHECK: gpu.barrier
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load
// CHECK: gpu.return
dt.kernel @long_row_read_again(%x: tensor<4x50257xf32>) -> tensor<4x50257xf32> {
  %max = dt.reduce max %x over [1] : tensor<4x50257xf32> -> tensor<4xf32>
  %maxAll = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x50257xf32>
  %y = dt.sub %x, %maxAll : tensor<4x50257xf32>
  dt.yield %y : tensor<4x50257xf32>
}

// The maximum and the sum of exponentials relative to it take one sweep, the result the second: two loops, not three. A
// thread has one maximum and a sum for each of four lanes, and a round's sum is scaled when the maximum has grown.
// CHECK-LABEL: gpu.func @softmax_in_two_sweeps
// CHECK: scf.for {{.*}} iter_args(%[[LARGEST:.+]] = %{{.+}}, %[[SUM:.+]] = %{{.+}}) -> (f32, vector<4xf32>)
// CHECK-COUNT-2: llvm.load {{.*}} -> vector<4xbf16>
// CHECK-NOT: llvm.load
// CHECK: %[[BASE:.+]] = arith.select
// CHECK: arith.subf %[[LARGEST]], %[[BASE]]
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-COUNT-2: llvm.load
// CHECK-NOT: scf.for
// CHECK: gpu.return
dt.kernel @softmax_in_two_sweeps(%x: tensor<4x50264xbf16>) -> tensor<4x50264xbf16> {
  %wide = dt.convert %x : tensor<4x50264xbf16> -> tensor<4x50264xf32>
  %max = dt.reduce max %wide over [1] : tensor<4x50264xf32> -> tensor<4xf32>
  %maxAll = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x50264xf32>
  %shifted = dt.sub %wide, %maxAll : tensor<4x50264xf32>
  %e = dt.exp %shifted : tensor<4x50264xf32>
  %sum = dt.reduce sum %e over [1] : tensor<4x50264xf32> -> tensor<4xf32>
  %sumAll = dt.broadcast %sum dims [0] : tensor<4xf32> -> tensor<4x50264xf32>
  %p = dt.div %e, %sumAll : tensor<4x50264xf32>
  %y = dt.convert %p : tensor<4x50264xf32> -> tensor<4x50264xbf16>
  dt.yield %y : tensor<4x50264xbf16>
}

// A sum over elements that the maximum has left out cannot be relative to it before all have been seen.
// CHECK-LABEL: gpu.func @sum_over_more_than_the_maximum
// CHECK-COUNT-2: scf.for {{.*}} iter_args
// CHECK: gpu.return
dt.kernel @sum_over_more_than_the_maximum(%x: tensor<4x50264xf32>) -> tensor<4xf32> {
  %column = dt.iota 1 : tensor<4x50264xi32>
  %end = dt.constant dense<50257> : tensor<4x50264xi32>
  %isWord = dt.compare lt %column, %end : tensor<4x50264xi32> -> tensor<4x50264xi1>
  %more = dt.constant dense<50258> : tensor<4x50264xi32>
  %isOne = dt.compare lt %column, %more : tensor<4x50264xi32> -> tensor<4x50264xi1>
  %never = dt.constant dense<0xFF800000> : tensor<4x50264xf32>
  %words = dt.select %isWord, %x, %never : tensor<4x50264xi1>, tensor<4x50264xf32>
  %max = dt.reduce max %words over [1] : tensor<4x50264xf32> -> tensor<4xf32>
  %maxAll = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x50264xf32>
  %shifted = dt.sub %x, %maxAll : tensor<4x50264xf32>
  %e = dt.exp %shifted : tensor<4x50264xf32>
  %zero = dt.constant dense<0.0> : tensor<4x50264xf32>
  %kept = dt.select %isOne, %e, %zero : tensor<4x50264xi1>, tensor<4x50264xf32>
  %sum = dt.reduce sum %kept over [1] : tensor<4x50264xf32> -> tensor<4xf32>
  dt.yield %sum : tensor<4xf32>
}
