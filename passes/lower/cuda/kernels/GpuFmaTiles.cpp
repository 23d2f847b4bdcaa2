// Tiles by fused multiply-adds.
//
// A block has 16 x 16 threads: thread (y, x) has rows 4y to 4y + 3 and columns 4x to 4x + 3 of a tile. Wide matrices
// are cut into chunks of 64 columns, one after the other, so that workgroup memory does not depend on their width. It
// is accessed by four elements at a time; its rows are an odd number of these apart, so that threads that read
// neighbouring rows access different banks.
#include "passes/lower/cuda/kernels/GpuTiles.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dtc {
namespace {

class FmaTiles final : public GpuTiles {
public:
  explicit FmaTiles(const GpuTilesFunction &stated)
      : GpuTiles(makeGpuTilesFunction(stated, gpuFmaThreads), stated, each), chunks((width + size - 1) / size) {
    x = rest(thread, integer(side));
    y = quotient(thread, integer(side));
  }

  int64_t patchRows() const override { return each; }
  int64_t patchColumns() const override { return each; }
  Value rowOf(int64_t number) override { return add(mul(y, integer(each)), integer(number)); }
  Value columnOf(int64_t number) override { return add(mul(x, integer(each)), integer(number)); }
  Value acrossRow(Value value, Combine combine) override { return acrossThreads(value, side, combine); }

  GpuPatch products(const GpuHeld &a, const GpuTile &b) override;
  /// Four columns of a row of a chunk each: sums[chunk * 4 + row].
  Values noSums() override { return Values(chunks * each, splat4(real(0))); }
  void addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuTile &tile) override;
  void scaleRow(MutableArrayRef<Value> sums, int64_t row, Value factor) override;
  void storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) override;

private:
  static constexpr int64_t side = 16, each = 4;
  static_assert(side * each == size && side * side == gpuFmaThreads);
  /// Rows of workgroup memory, in vectors of four.
  static constexpr int64_t stride = side + 1;

  void needMemory();
  int64_t columnsOf(int64_t chunk) const { return std::min(size, width - chunk * size); }
  Value loadFour(const GpuRows &rows, Value row, int64_t chunk, bool aligned);
  void loadTile(Value memory, const GpuRows &rows, Value first, int64_t chunk, bool spread);
  void addTile(GpuPatch &patch, int64_t chunk);
  Value fromTile(Value memory, Value row, Value column);
  void toTile(Value value, Value memory, Value row, Value column);

  const int64_t chunks;
  Value x, y;        // i64
  Value left, right; // the two tiles
};

/// Functions without products need no workgroup memory.
void FmaTiles::needMemory() {
  if (left)
    return;
  Type four = VectorType::get({each}, getF32Type());
  left = workgroupMemory(four, size * stride);
  right = workgroupMemory(four, size * stride);
}

/// Four elements of a row that exists, from column 4x of a chunk on; zeros for columns that do not exist.
Value FmaTiles::loadFour(const GpuRows &rows, Value row, int64_t chunk, bool aligned) {
  Value column = add(mul(x, integer(each)), integer(chunk * size)), begin = mul(row, rows.stride);
  if (aligned) {
    // Beyond the end, the first ones are read instead.
    Value exists = less(column, integer(width));
    Value at = add(begin, choose(exists, column, integer(0)));
    auto type = VectorType::get({each}, element);
    Value four = widened(load(type, CodeBuilder::element(element, rows.data, at), each * bytes()));
    return columnsOf(chunk) == size ? four : choose(exists, four, splat4(real(0)));
  }
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < each; ++i) {
    Value at = add(column, integer(i)), exists = less(at, integer(width));
    Value one = loadElement(rows.data, add(begin, choose(exists, at, integer(0))));
    lanes.push_back(choose(exists, one, real(0)));
  }
  return join(lanes);
}

void FmaTiles::storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t i = 0; i < each; ++i) {
      Value row = add(first, rowOf(i)), value = sums[chunk * each + i];
      Value column = add(mul(x, integer(each)), integer(chunk * size));
      Value at = add(mul(row, matrix.stride), column);
      auto storeSingles = [&] {
        for (int64_t j = 0; j < each; ++j)
          when(less(add(column, integer(j)), integer(width)),
               [&] { storeElement(lane(value, j), matrix.data, add(at, integer(j))); });
        return Values();
      };
      auto storeFour = [&] {
        store(narrowed(value), CodeBuilder::element(element, matrix.data, at), each * bytes());
        return Values();
      };
      when(both(less(row, matrix.count), less(column, integer(width))), [&] {
        if (width % each)
          storeSingles();
        else
          whenElse(matrix.aligned, storeFour, storeSingles);
      });
    }
}

// Tiles

Value FmaTiles::fromTile(Value memory, Value row, Value column) {
  return fromMemory(memory, add(mul(row, integer(stride)), column));
}

void FmaTiles::toTile(Value value, Value memory, Value row, Value column) {
  toMemory(value, memory, add(mul(row, integer(stride)), column));
}

/// Rows [first, first + 64), 64 columns. `spread`: row 4i + j is stored as row 16j + i, so that threads which have the
/// rows of neighbouring i at the same time access different banks.
void FmaTiles::loadTile(Value memory, const GpuRows &rows, Value first, int64_t chunk, bool spread) {
  auto readAll = [&](bool aligned) {
    Values fours;
    for (int64_t i = 0; i < each; ++i) {
      Value row = add(first, add(y, integer(i * side)));
      // For rows beyond the end the last one is read instead.
      Value exists = less(row, rows.count);
      Value four = loadFour(rows, choose(exists, row, minus(rows.count, integer(1))), chunk, aligned);
      fours.push_back(choose(exists, four, splat4(real(0))));
    }
    return fours;
  };
  Values fours = width % each ? readAll(false)
                              : whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
  for (int64_t i = 0; i < each; ++i) {
    Value row = add(y, integer(i * side));
    if (spread)
      row = add(mul(rest(row, integer(each)), integer(side)), quotient(row, integer(each)));
    toTile(fours[i], memory, row, x);
  }
}

/// patch += the product of the tiles over a chunk's columns.
void FmaTiles::addTile(GpuPatch &patch, int64_t chunk) {
  Values sums;
  for (auto &row : patch)
    sums.append(row.begin(), row.end());
  int64_t fours = (columnsOf(chunk) + each - 1) / each;
  sums = loop(integer(0), integer(fours), sums, [&](Value four, ValueRange before) {
    Values after(before), a, b;
    for (int64_t i = 0; i < each; ++i) {
      a.push_back(fromTile(left, rowOf(i), four));
      b.push_back(fromTile(right, add(x, integer(i * side)), four));
    }
    for (int64_t k = 0; k < each; ++k)
      for (int64_t i = 0; i < each; ++i)
        for (int64_t j = 0; j < each; ++j)
          after[i * each + j] = fma(lane(a[i], k), lane(b[j], k), after[i * each + j]);
    return after;
  });
  for (int64_t i = 0; i < each; ++i)
    std::copy_n(sums.begin() + i * each, each, patch[i].begin());
}

GpuPatch FmaTiles::products(const GpuHeld &a, const GpuTile &b) {
  needMemory();
  GpuPatch patch(each, SmallVector<Value, 16>(each, real(0)));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    barrier();
    loadTile(left, a.rows, a.first, chunk, /*spread=*/false);
    loadTile(right, b.rows, b.first, chunk, /*spread=*/true);
    barrier();
    addTile(patch, chunk);
  }
  return patch;
}

void FmaTiles::addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuTile &tile) {
  // Weights of rows beyond the end are zeros: fours of these are left out.
  Value fours = quotient(add(minus(tile.rows.count, tile.first), integer(each - 1)), integer(each));
  fours = smaller(fours, integer(side));
  barrier();
  for (int64_t i = 0; i < each; ++i)
    toTile(join(weights[i]), left, rowOf(i), x);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk > 0)
      barrier();
    loadTile(right, tile.rows, tile.first, chunk, /*spread=*/false);
    barrier();
    MutableArrayRef<Value> part = sums.slice(chunk * each, each);
    Values after = loop(integer(0), fours, ValueRange(part), [&](Value four, ValueRange before) {
      Values sums(before), weights, rows;
      for (int64_t i = 0; i < each; ++i) {
        weights.push_back(fromTile(left, rowOf(i), four));
        rows.push_back(fromTile(right, add(mul(four, integer(each)), integer(i)), x));
      }
      for (int64_t k = 0; k < each; ++k)
        for (int64_t i = 0; i < each; ++i)
          sums[i] = fma(splat4(lane(weights[i], k)), rows[k], sums[i]);
      return sums;
    });
    llvm::copy(after, part.begin());
  }
}

void FmaTiles::scaleRow(MutableArrayRef<Value> sums, int64_t row, Value factor) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    sums[chunk * each + row] = times(sums[chunk * each + row], splat4(factor));
}

} // namespace

std::unique_ptr<GpuTiles> makeGpuFmaTiles(const GpuTilesFunction &function) {
  return std::make_unique<FmaTiles>(function);
}

} // namespace dtc
