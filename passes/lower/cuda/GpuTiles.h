// A function of a library kernel that multiplies tiles of matrices, under construction.
//
// A block has 16 x 16 threads, and a tile has 64 rows and 64 columns, in two pieces of workgroup memory. Thread (y, x)
// has 16 elements of a product of tiles: rows 4y to 4y + 3 and columns 4x to 4x + 3. Wide matrices are cut into chunks
// of 64 columns, one after the other, so that workgroup memory does not depend on their width. All is f32; elements in
// buffers are converted where they are read and written.
//
// Workgroup memory is accessed by four elements at a time. Its rows are an odd number of these apart, so that threads
// that read neighbouring rows meet different banks.
#pragma once

#include "passes/lower/KernelValues.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// Rows of a matrix in a buffer: element (i, j) at data + i * stride + j, i < count.
struct GpuRows {
  mlir::Value data, stride, count;
  mlir::Value aligned; ///< whether four elements of any row, from a multiple of four on, can be accessed at once
};

/// What a thread has of a product: elements [row][column].
using GpuPatch = std::array<std::array<mlir::Value, 4>, 4>;

class GpuTiles : public CodeBuilder {
public:
  static constexpr int64_t side = 16, each = 4, size = side * each, threads = side * side;

  /// An empty function of addresses and then 64-bit integers. Rows of matrices have `width` elements of `element`.
  GpuTiles(llvm::StringRef name, unsigned pointers, unsigned integers, int64_t width, mlir::Type element,
           mlir::gpu::GPUModuleOp module);

  mlir::Value argument(unsigned number) { return function.getArgument(number); }

  mlir::Value thread, block, x, y; ///< i64
  const int64_t width, chunks;
  const mlir::Type element;

  // Numbers: i32, i64 or f32 alike, as their operands are.
  mlir::Value real(double value) { return constant(getF32FloatAttr(static_cast<float>(value))); }
  mlir::Value word(int64_t value) { return constant(getI32IntegerAttr(static_cast<int32_t>(value))); }
  mlir::Value plus(mlir::Value a, mlir::Value b);
  mlir::Value minus(mlir::Value a, mlir::Value b);
  mlir::Value times(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value exponential(mlir::Value a);
  mlir::Value less(mlir::Value a, mlir::Value b); ///< of signed numbers or reals
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value smaller(mlir::Value a, mlir::Value b) { return choose(less(a, b), a, b); }
  mlir::Value larger(mlir::Value a, mlir::Value b) { return choose(less(a, b), b, a); }
  /// a / b rounded up or down, of numbers that are not negative.
  mlir::Value quotient(mlir::Value a, mlir::Value b);
  mlir::Value rest(mlir::Value a, mlir::Value b);
  mlir::Value tiles(mlir::Value rows) { return quotient(add(rows, integer(size - 1)), integer(size)); }

  // Vectors of four.
  mlir::Value lane(mlir::Value vector, int64_t number);
  mlir::Value join(llvm::ArrayRef<mlir::Value> lanes);
  mlir::Value splat4(mlir::Value scalar) { return splat(scalar, each); }

  /// `combine` of what `count` neighbouring threads hold, a power of two up to 32, for all of them.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  mlir::Value acrossThreads(mlir::Value value, int64_t count, Combine combine);
  void barrier();

  // Control. Bodies add code here: the builder stands in them while they are made.
  using Values = llvm::SmallVector<mlir::Value>;
  Values loop(mlir::Value from, mlir::Value to, mlir::ValueRange initial,
              llvm::function_ref<Values(mlir::Value number, mlir::ValueRange)> body);
  void when(mlir::Value condition, llvm::function_ref<void()> body);
  Values whenElse(mlir::Value condition, llvm::function_ref<Values()> then, llvm::function_ref<Values()> otherwise);

  GpuRows rows(mlir::Value data, mlir::Value stride, mlir::Value count);

  /// A product of rows [firstA, firstA + 64) of a with rows of b, all columns: zeros beyond their ends. Begins with a
  /// barrier.
  GpuPatch products(const GpuRows &a, mlir::Value firstA, const GpuRows &b, mlir::Value firstB);

  /// Writes this thread's part of a tile, by which rows of other matrices are multiplied. Begins with a barrier.
  void storeWeights(const GpuPatch &weights);
  /// sums[chunk * 4 + row] (columns 4x to 4x + 3 of a chunk) += weights times rows [first, first + 64) of `matrix`.
  void addProduct(llvm::MutableArrayRef<mlir::Value> sums, const GpuRows &matrix, mlir::Value first);
  /// As many sums as addProduct takes, zeros.
  Values noSums();
  /// Writes sums as rows [first, first + 64) of a matrix, those that it has.
  void storeSums(llvm::ArrayRef<mlir::Value> sums, const GpuRows &matrix, mlir::Value first);

  /// An element of a buffer as f32.
  mlir::Value loadElement(mlir::Value data, mlir::Value index);

private:
  GpuTiles(mlir::gpu::GPUFuncOp function, int64_t width, mlir::Type element);

  /// Rows of workgroup memory, in vectors of four.
  static constexpr int64_t stride = side + 1;

  void needTiles();
  int64_t columnsOf(int64_t chunk) const { return std::min(size, width - chunk * size); }
  mlir::Value loadFour(const GpuRows &rows, mlir::Value row, int64_t chunk, bool aligned);
  void loadTile(mlir::Value memory, const GpuRows &rows, mlir::Value first, int64_t chunk, bool spread);
  void addTile(GpuPatch &patch, int64_t chunk);
  mlir::Value fromTile(mlir::Value memory, mlir::Value row, mlir::Value column);
  void toTile(mlir::Value value, mlir::Value memory, mlir::Value row, mlir::Value column);
  void storeElement(mlir::Value value, mlir::Value data, mlir::Value index);
  mlir::Value narrowed(mlir::Value value);
  mlir::Value widened(mlir::Value value);
  unsigned bytes() const { return element.getIntOrFloatBitWidth() / 8; }

  mlir::gpu::GPUFuncOp function;
  mlir::Value left, right; ///< the two tiles
};

} // namespace dtc
