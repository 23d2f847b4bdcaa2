// Library kernels for GPUs that only move elements, in the dialects of generated ones. What each does, its buffers and
// scalars are told in runtime/abi/library. Behind the scalars stand two more: the launch's grid, and how many
// threads it has altogether, in blocks of 256. Threads take elements in turn, so results do not depend on their number.

gpu.module @library {

gpu.func @dtc_cuda_fill(%out: !llvm.ptr, %bits: i64, %bytes: i64, %grid: i64, %threads: i64)
    kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
  %thread = gpu.thread_id x
  %block = gpu.block_id x
  %size = arith.constant 256 : index
  %before = arith.muli %block, %size : index
  %own = arith.addi %before, %thread : index
  %first = arith.index_castui %own : index to i64
  %width = arith.index_castui %bytes : i64 to index
  %word = arith.trunci %bits : i64 to i32
  scf.for %i = %first to %grid step %threads : i64 {
    scf.index_switch %width
    case 4 {
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      llvm.store %word, %to {alignment = 4 : i64} : i32, !llvm.ptr
      scf.yield
    }
    case 2 {
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      %half = arith.trunci %word : i32 to i16
      llvm.store %half, %to {alignment = 2 : i64} : i16, !llvm.ptr
      scf.yield
    }
    default {
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %byte = arith.trunci %word : i32 to i8
      llvm.store %byte, %to {alignment = 1 : i64} : i8, !llvm.ptr
    }
  }
  gpu.return
}

gpu.func @dtc_cuda_gather(%table: !llvm.ptr, %indices: !llvm.ptr, %out: !llvm.ptr,
                          %rows: i64, %columns: i64, %offset: i64, %bytes: i64, %grid: i64, %threads: i64)
    kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
  %thread = gpu.thread_id x
  %block = gpu.block_id x
  %size = arith.constant 256 : index
  %before = arith.muli %block, %size : index
  %own = arith.addi %before, %thread : index
  %first = arith.index_castui %own : index to i64
  %width = arith.index_castui %bytes : i64 to index
  %zero = arith.constant 0 : i32
  %elements = arith.muli %grid, %columns : i64
  scf.for %i = %first to %elements step %threads : i64 {
    %at = arith.divui %i, %columns : i64
    %column = arith.remui %i, %columns : i64
    %which = llvm.getelementptr %indices[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i32
    %index = llvm.load %which {alignment = 4 : i64} : !llvm.ptr -> i32
    %wide = arith.extsi %index : i32 to i64
    %row = arith.subi %wide, %offset : i64
    // Unsigned, a row before the first is beyond the last.
    %exists = arith.cmpi ult, %row, %rows : i64
    %begin = arith.muli %row, %columns : i64
    %from = arith.addi %begin, %column : i64
    scf.index_switch %width
    case 4 {
      %value = scf.if %exists -> i32 {
        %source = llvm.getelementptr %table[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i32
        %read = llvm.load %source {alignment = 4 : i64} : !llvm.ptr -> i32
        scf.yield %read : i32
      } else {
        scf.yield %zero : i32
      }
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      llvm.store %value, %to {alignment = 4 : i64} : i32, !llvm.ptr
      scf.yield
    }
    case 2 {
      %none = arith.constant 0 : i16
      %value = scf.if %exists -> i16 {
        %source = llvm.getelementptr %table[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %read = llvm.load %source {alignment = 2 : i64} : !llvm.ptr -> i16
        scf.yield %read : i16
      } else {
        scf.yield %none : i16
      }
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      llvm.store %value, %to {alignment = 2 : i64} : i16, !llvm.ptr
      scf.yield
    }
    default {
      %none = arith.constant 0 : i8
      %value = scf.if %exists -> i8 {
        %source = llvm.getelementptr %table[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %read = llvm.load %source {alignment = 1 : i64} : !llvm.ptr -> i8
        scf.yield %read : i8
      } else {
        scf.yield %none : i8
      }
      %to = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      llvm.store %value, %to {alignment = 1 : i64} : i8, !llvm.ptr
    }
  }
  gpu.return
}

// Of any shape: for copies whose own code (GpuCopy.h) the program does not have.
gpu.func @dtc_cuda_copy(%in: !llvm.ptr, %out: !llvm.ptr,
                        %n0: i64, %n1: i64, %n2: i64, %n3: i64, %n4: i64, %n5: i64,
                        %r0: i64, %r1: i64, %r2: i64, %r3: i64, %r4: i64, %r5: i64,
                        %w0: i64, %w1: i64, %w2: i64, %w3: i64, %w4: i64, %w5: i64,
                        %readOffset: i64, %writtenOffset: i64, %available: i64, %limited: i64, %begin: i64,
                        %bytes: i64, %grid: i64, %threads: i64)
    kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
  %thread = gpu.thread_id x
  %block = gpu.block_id x
  %size = arith.constant 256 : index
  %before = arith.muli %block, %size : index
  %own = arith.addi %before, %thread : index
  %first = arith.index_castui %own : index to i64
  %width = arith.index_castui %bytes : i64 to index
  // The grid is the rows: sizes 0 and 1.
  %n23 = arith.muli %n2, %n3 : i64
  %n45 = arith.muli %n4, %n5 : i64
  %n2345 = arith.muli %n23, %n45 : i64
  %elements = arith.muli %grid, %n2345 : i64
  %left = arith.subi %available, %begin : i64
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %c4 = arith.constant 4 : i64
  %c5 = arith.constant 5 : i64
  scf.for %i = %first to %elements step %threads : i64 {
    %i5 = arith.remui %i, %n5 : i64
    %q5 = arith.divui %i, %n5 : i64
    %i4 = arith.remui %q5, %n4 : i64
    %q4 = arith.divui %q5, %n4 : i64
    %i3 = arith.remui %q4, %n3 : i64
    %q3 = arith.divui %q4, %n3 : i64
    %i2 = arith.remui %q3, %n2 : i64
    %q2 = arith.divui %q3, %n2 : i64
    %i1 = arith.remui %q2, %n1 : i64
    %i0 = arith.divui %q2, %n1 : i64
    %ra0 = arith.muli %i0, %r0 : i64
    %ra1 = arith.muli %i1, %r1 : i64
    %ra2 = arith.muli %i2, %r2 : i64
    %ra3 = arith.muli %i3, %r3 : i64
    %ra4 = arith.muli %i4, %r4 : i64
    %ra5 = arith.muli %i5, %r5 : i64
    %rb0 = arith.addi %readOffset, %ra0 : i64
    %rb1 = arith.addi %rb0, %ra1 : i64
    %rb2 = arith.addi %rb1, %ra2 : i64
    %rb3 = arith.addi %rb2, %ra3 : i64
    %rb4 = arith.addi %rb3, %ra4 : i64
    %from = arith.addi %rb4, %ra5 : i64
    %wa0 = arith.muli %i0, %w0 : i64
    %wa1 = arith.muli %i1, %w1 : i64
    %wa2 = arith.muli %i2, %w2 : i64
    %wa3 = arith.muli %i3, %w3 : i64
    %wa4 = arith.muli %i4, %w4 : i64
    %wa5 = arith.muli %i5, %w5 : i64
    %wb0 = arith.addi %writtenOffset, %wa0 : i64
    %wb1 = arith.addi %wb0, %wa1 : i64
    %wb2 = arith.addi %wb1, %wa2 : i64
    %wb3 = arith.addi %wb2, %wa3 : i64
    %wb4 = arith.addi %wb3, %wa4 : i64
    %to = arith.addi %wb4, %wa5 : i64
    // The index along the dimension in which the source may end early.
    %is1 = arith.cmpi eq, %limited, %c1 : i64
    %is2 = arith.cmpi eq, %limited, %c2 : i64
    %is3 = arith.cmpi eq, %limited, %c3 : i64
    %is4 = arith.cmpi eq, %limited, %c4 : i64
    %is5 = arith.cmpi eq, %limited, %c5 : i64
    %l1 = arith.select %is1, %i1, %i0 : i64
    %l2 = arith.select %is2, %i2, %l1 : i64
    %l3 = arith.select %is3, %i3, %l2 : i64
    %l4 = arith.select %is4, %i4, %l3 : i64
    %along = arith.select %is5, %i5, %l4 : i64
    %exists = arith.cmpi slt, %along, %left : i64
    scf.index_switch %width
    case 4 {
      %none = arith.constant 0 : i32
      %value = scf.if %exists -> i32 {
        %source = llvm.getelementptr %in[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i32
        %read = llvm.load %source {alignment = 4 : i64} : !llvm.ptr -> i32
        scf.yield %read : i32
      } else {
        scf.yield %none : i32
      }
      %target = llvm.getelementptr %out[%to] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      llvm.store %value, %target {alignment = 4 : i64} : i32, !llvm.ptr
      scf.yield
    }
    case 2 {
      %none = arith.constant 0 : i16
      %value = scf.if %exists -> i16 {
        %source = llvm.getelementptr %in[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %read = llvm.load %source {alignment = 2 : i64} : !llvm.ptr -> i16
        scf.yield %read : i16
      } else {
        scf.yield %none : i16
      }
      %target = llvm.getelementptr %out[%to] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      llvm.store %value, %target {alignment = 2 : i64} : i16, !llvm.ptr
      scf.yield
    }
    default {
      %none = arith.constant 0 : i8
      %value = scf.if %exists -> i8 {
        %source = llvm.getelementptr %in[%from] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %read = llvm.load %source {alignment = 1 : i64} : !llvm.ptr -> i8
        scf.yield %read : i8
      } else {
        scf.yield %none : i8
      }
      %target = llvm.getelementptr %out[%to] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      llvm.store %value, %target {alignment = 1 : i64} : i8, !llvm.ptr
    }
  }
  gpu.return
}

}
