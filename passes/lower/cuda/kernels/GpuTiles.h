// A function of a library kernel that multiplies tiles of matrices, under construction, and what its blocks can do.
//
// Tiles have 64 rows and 64 columns, or fewer. A block computes the products of one tile of rows with others, one after
// the other. Each thread has some elements of a product (a patch), in rows and columns that depend on the kind of
// tiles. Sums are rows of a result, as many as the tile has and as wide as the matrices, divided among threads in the
// same way. Everything is f32; elements in buffers are converted where they are read and written.
#pragma once

#include "passes/lower/kernels/KernelValues.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <array>
#include <functional>
#include <memory>

namespace dtc {

/// Rows of a matrix in a buffer: element (i, j) at data + i * stride + j, i < count.
struct GpuRows {
  mlir::Value data, stride, count;
  mlir::Value aligned; ///< whether all rows can be accessed as the tiles do, by several aligned elements at once
};

/// What a thread has of a product: elements [row][column].
using GpuPatch = llvm::SmallVector<llvm::SmallVector<mlir::Value, 16>, 4>;

/// A tile of rows whose products with others are wanted.
struct GpuHeld {
  GpuRows rows;
  mlir::Value first;
  llvm::SmallVector<mlir::Value> fragments; ///< what a thread has of it, if that is kept
};

/// A tile of rows that products are taken with.
struct GpuTile {
  GpuRows rows;
  mlir::Value first;
  mlir::Value memory = {}; ///< where it is stored meanwhile, if this kind of tiles stores it
};
/// Tiles of the same rows of two matrices.
using GpuTilePair = std::array<GpuTile, 2>;

/// Pairs of tiles, one after the other.
struct GpuWalk {
  mlir::Value count;
  std::function<GpuTilePair(mlir::Value number)> tiles;
  std::function<mlir::Value(mlir::Value number)> isHidden = {}; ///< whether a step is left out; null: none is
};

class GpuTiles : public CodeBuilder {
public:
  static constexpr int64_t size = 64; ///< rows

  virtual ~GpuTiles() = default;

  mlir::Value argument(unsigned number) { return function.getArgument(number); }

  mlir::Value thread, block;    ///< i64
  const int64_t width, columns; ///< of matrices, and of tiles
  const mlir::Type element;

  // Numbers: i32, i64 or f32, like their operands.
  mlir::Value real(double value) { return constant(getF32FloatAttr(static_cast<float>(value))); }
  mlir::Value word(int64_t value) { return constant(getI32IntegerAttr(static_cast<int32_t>(value))); }
  mlir::Value plus(mlir::Value a, mlir::Value b);
  mlir::Value minus(mlir::Value a, mlir::Value b);
  mlir::Value times(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value powerOfTwo(mlir::Value a);          ///< relative error 2^-22
  mlir::Value less(mlir::Value a, mlir::Value b); ///< of signed numbers or reals
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value smaller(mlir::Value a, mlir::Value b) { return choose(less(a, b), a, b); }
  mlir::Value larger(mlir::Value a, mlir::Value b) { return choose(less(a, b), b, a); }
  /// a / b rounded up or down, of numbers that are not negative.
  mlir::Value quotient(mlir::Value a, mlir::Value b);
  mlir::Value rest(mlir::Value a, mlir::Value b);
  /// The number of tiles that rows make, and columns.
  mlir::Value rowTiles(mlir::Value rows) { return quotient(add(rows, integer(size - 1)), integer(size)); }
  mlir::Value columnTiles(mlir::Value count) { return quotient(add(count, integer(columns - 1)), integer(columns)); }

  // Vectors of four.
  mlir::Value lane(mlir::Value vector, int64_t number);
  mlir::Value join(llvm::ArrayRef<mlir::Value> lanes);
  mlir::Value splat4(mlir::Value scalar) { return splat(scalar, 4); }

  /// Combines what `count` neighbouring threads hold, a power of two up to 32; all of them get the result.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  mlir::Value acrossThreads(mlir::Value value, int64_t count, Combine combine);
  void barrier();

  // Control. Bodies add code here: the builder inserts into them while they are made.
  using Values = llvm::SmallVector<mlir::Value>;
  Values loop(mlir::Value from, mlir::Value to, mlir::ValueRange initial,
              llvm::function_ref<Values(mlir::Value number, mlir::ValueRange)> body);
  void when(mlir::Value condition, llvm::function_ref<void()> body);
  Values whenElse(mlir::Value condition, llvm::function_ref<Values()> then, llvm::function_ref<Values()> otherwise);

  GpuRows rows(mlir::Value data, mlir::Value stride, mlir::Value count);

  /// A thread's patch: where its rows and columns are within the tile, and over which neighbours a row is spread.
  virtual int64_t patchRows() const = 0;
  virtual int64_t patchColumns() const = 0;
  virtual mlir::Value rowOf(int64_t number) = 0;
  virtual mlir::Value columnOf(int64_t number) = 0;
  virtual mlir::Value acrossRow(mlir::Value value, Combine combine) = 0;

  /// Rows [first, first + 64). `keep`: in registers, where there is room and the kind of tiles does so.
  virtual GpuHeld hold(const GpuRows &rows, mlir::Value first, bool keep) { return {rows, first, {}}; }
  /// Makes the steps of a walk. `body` gets a step's number, its tiles and the result of the step before.
  using Step = llvm::function_ref<Values(mlir::Value number, const GpuTilePair &tiles, mlir::ValueRange before)>;
  virtual Values walk(const GpuWalk &walk, mlir::ValueRange initial, Step body);
  /// Within a step: the products of rows with those of b, over all columns. Beyond their ends the numbers mean nothing.
  virtual GpuPatch products(const GpuHeld &a, const GpuTile &b) = 0;
  virtual Values noSums() = 0;
  /// sums += weights times the tile's rows. Weights of rows beyond the end must be zero.
  virtual void addProduct(llvm::MutableArrayRef<mlir::Value> sums, const GpuPatch &weights, const GpuTile &tile) = 0;
  /// Multiplies a row, by its number in the patch.
  virtual void scaleRow(llvm::MutableArrayRef<mlir::Value> sums, int64_t row, mlir::Value factor) = 0;
  /// Writes sums as rows [first, first + 64) of a matrix, as far as it has these.
  virtual void storeSums(llvm::ArrayRef<mlir::Value> sums, const GpuRows &matrix, mlir::Value first) = 0;

  /// An element of a buffer as f32.
  mlir::Value loadElement(mlir::Value data, mlir::Value index);

protected:
  /// `atOnce`: how many elements it accesses at once where they are aligned.
  GpuTiles(mlir::gpu::GPUFuncOp function, const struct GpuTilesFunction &stated, int64_t atOnce);

  mlir::Value workgroupMemory(mlir::Type element, int64_t count);
  mlir::Value fromMemory(mlir::Value memory, mlir::Value index);
  void toMemory(mlir::Value value, mlir::Value memory, mlir::Value index);
  /// The address of an element, for what takes addresses of workgroup memory.
  mlir::Value addressOf(mlir::Value memory, mlir::Value index);
  void storeElement(mlir::Value value, mlir::Value data, mlir::Value index);
  mlir::Value narrowed(mlir::Value value);
  mlir::Value widened(mlir::Value value);
  unsigned bytes() const { return element.getIntOrFloatBitWidth() / 8; }

  mlir::gpu::GPUFuncOp function;

private:
  const int64_t atOnce;
};

/// Describes an empty function for tiles: its arguments, addresses and then 64-bit integers, and its matrices, whose
/// rows have `width` elements of `element`.
struct GpuTilesFunction {
  llvm::StringRef name;
  unsigned pointers, integers;
  int64_t width, columns; ///< columns of tiles: 64, and with matrix units also 32 and 16
  mlir::Type element;
  mlir::gpu::GPUModuleOp module;
};

mlir::gpu::GPUFuncOp makeGpuTilesFunction(const GpuTilesFunction &stated, int64_t threads);

/// Tiles by fused multiply-adds of f32, of any width and element: blocks of 256 threads.
constexpr int64_t gpuFmaThreads = 256;
std::unique_ptr<GpuTiles> makeGpuFmaTiles(const GpuTilesFunction &function);

/// Tiles by the matrix units for 16-bit elements, with sums in f32: blocks of 128 threads. Weights are rounded to the
/// elements' type.
constexpr int64_t gpuMmaThreads = 128;
constexpr bool gpuMmaTakes(int64_t width) { return width % 16 == 0 && width <= 128; }
std::unique_ptr<GpuTiles> makeGpuMmaTiles(const GpuTilesFunction &function);

} // namespace dtc
