// Tiles by matrix units: D = A B + C of 16 x 16, 16 x 8 and 16 x 8 elements by the 32 threads of a warp, A and B of 16
// bits, C and D f32 ("mma.m16n8k16" of NVIDIA's PTX manual, whose section of that name says which thread has which
// elements). With g = lane / 4 and t = lane % 4, a thread has two elements side by side in each 32-bit word:
//   A, row-major: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)
//   B, column-major: (2t, g), (2t + 8, g), the second element of a word in the next row
//   C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//
// A block has four warps; each has 16 rows of the tile. Rows of the held matrix are A, read from the buffer, and kept
// or read again. Rows of the other one are B's columns: as they are in the first piece of workgroup memory. For sums
// weights are A, which C's places make without another thread's help, and rows of the matrix are B's rows: transposed,
// two rows in a word, in the second piece. Rows of workgroup memory are four words more than a multiple of 32 apart, so
// that the words of a warp's fragment are in 32 banks.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/GpuTiles.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dtc {
namespace {

class MmaTiles final : public GpuTiles {
public:
  explicit MmaTiles(const GpuTilesFunction &stated) : GpuTiles(makeGpuTilesFunction(stated, gpuMmaThreads), stated) {
    Value lane = rest(thread, integer(32));
    warp = quotient(thread, integer(32));
    group = quotient(lane, integer(4));
    pair = mul(rest(lane, integer(4)), integer(2));
    natural = workgroupMemory(getI32Type(), columns * naturalStride());
    transposed = workgroupMemory(getI32Type(), width * transposedStride());
  }

  int64_t patchRows() const override { return 2; }
  int64_t patchColumns() const override { return columns / neighbours; }
  Value rowOf(int64_t number) override { return add(add(mul(warp, integer(16)), group), integer(8 * number)); }
  Value columnOf(int64_t number) override { return add(pair, integer(number / 2 * 8 + number % 2)); }
  Value acrossRow(Value value, Combine combine) override { return acrossThreads(value, 4, combine); }

  GpuHeld hold(const GpuRows &rows, Value first, bool keep) override;
  GpuPatch products(const GpuHeld &a, const GpuRows &b, Value first) override;
  /// Of eight columns at a time what C has: sums[eight * places + place].
  Values noSums() override { return Values(width / 2, real(0)); }
  void addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuRows &matrix, Value first) override;
  void scaleRow(MutableArrayRef<Value> sums, int64_t row, Value factor) override;
  void storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) override;

private:
  /// Threads that share rows of C; what one has of A in words, of C in elements.
  static constexpr int64_t neighbours = 4, places = 4;
  /// In words.
  int64_t naturalStride() const { return width / 2 + 4; }
  int64_t transposedStride() const { return columns / 2 + 4; }

  Values loadFragments(const GpuRows &rows, Value first, int64_t begin, int64_t end);
  Value loadWord(const GpuRows &rows, Value at, bool aligned);
  Values loadFour(const GpuRows &rows, Value row, Value column, bool aligned);
  void loadNatural(const GpuRows &rows, Value first);
  void loadTransposed(const GpuRows &rows, Value first);
  Value pack(Value low, Value high);
  Value packBits(Value low, Value high);
  /// c += a b.
  void multiply(ArrayRef<Value> a, ArrayRef<Value> b, MutableArrayRef<Value> c);
  /// B's words of eight of its columns, and 16 of its rows from `row` on, from a memory of rows of words.
  std::array<Value, 2> fragment(Value memory, int64_t stride, int64_t eight, int64_t row);

  Value warp, group, pair;   // i64; pair: 2t
  Value natural, transposed; // workgroup memory
};

// Words of 16-bit elements

Value MmaTiles::packBits(Value low, Value high) {
  auto wide = [&](Value bits) -> Value { return arith::ExtUIOp::create(*this, loc, getI32Type(), bits); };
  return arith::OrIOp::create(*this, loc, wide(low), arith::ShLIOp::create(*this, loc, wide(high), word(16)));
}

Value MmaTiles::pack(Value low, Value high) {
  return LLVM::BitcastOp::create(*this, loc, getI32Type(), narrowed(join({low, high})));
}

/// Two neighbours of a row.
Value MmaTiles::loadWord(const GpuRows &rows, Value at, bool aligned) {
  Value address = CodeBuilder::element(element, rows.data, at);
  if (aligned)
    return load(getI32Type(), address, 4);
  Value next = CodeBuilder::element(element, rows.data, add(at, integer(1)));
  return packBits(load(getI16Type(), address, 2), load(getI16Type(), next, 2));
}

/// Four neighbours of a row as they are.
MmaTiles::Values MmaTiles::loadFour(const GpuRows &rows, Value row, Value column, bool aligned) {
  Value at = add(mul(row, rows.stride), column);
  Values bits;
  if (aligned) {
    Value four = load(VectorType::get({4}, getI16Type()), CodeBuilder::element(element, rows.data, at), 8);
    for (int64_t i = 0; i < 4; ++i)
      bits.push_back(lane(four, i));
    return bits;
  }
  for (int64_t i = 0; i < 4; ++i)
    bits.push_back(load(getI16Type(), CodeBuilder::element(element, rows.data, add(at, integer(i))), 2));
  return bits;
}

// Fragments

GpuHeld MmaTiles::hold(const GpuRows &rows, Value first, bool keep) {
  return {rows, first, keep ? loadFragments(rows, first, 0, width) : Values()};
}

/// A's words of columns [begin, end), four for each 16 of them.
MmaTiles::Values MmaTiles::loadFragments(const GpuRows &rows, Value first, int64_t begin, int64_t end) {
  auto readAll = [&](bool aligned) {
    Values words;
    for (int64_t column = begin; column < end; column += 16)
      for (int64_t place = 0; place < 4; ++place) {
        Value row = add(first, rowOf(place % 2)), exists = less(row, rows.count);
        // Instead of rows beyond the end the last one is read.
        Value known = choose(exists, row, minus(rows.count, integer(1)));
        Value at = add(add(mul(known, rows.stride), pair), integer(column + place / 2 * 8));
        words.push_back(choose(exists, loadWord(rows, at, aligned), word(0)));
      }
    return words;
  };
  return whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
}

std::array<Value, 2> MmaTiles::fragment(Value memory, int64_t stride, int64_t eight, int64_t row) {
  Value begin = mul(add(group, integer(8 * eight)), integer(stride));
  Value at = add(add(begin, quotient(pair, integer(2))), integer(row / 2));
  return {fromMemory(memory, at), fromMemory(memory, add(at, integer(4)))};
}

void MmaTiles::multiply(ArrayRef<Value> a, ArrayRef<Value> b, MutableArrayRef<Value> c) {
  Values operands(a);
  operands.append(b.begin(), b.end());
  operands.append(c.begin(), c.end());
  auto type = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getF32Type()));
  StringRef name = element.isBF16() ? gpuMmaOfBf16 : gpuMmaOfF16;
  auto call = LLVM::CallIntrinsicOp::create(*this, loc, type, getStringAttr(name), operands);
  for (int64_t i = 0; i < 4; ++i)
    c[i] = LLVM::ExtractValueOp::create(*this, loc, call.getResult(0), i);
}

// Workgroup memory

/// Rows [first, first + columns), zeros beyond the end.
void MmaTiles::loadNatural(const GpuRows &rows, Value first) {
  int64_t foursOfRow = width / four, count = columns * foursOfRow / gpuMmaThreads;
  auto rowAndFour = [&](int64_t i) {
    Value number = add(thread, integer(i * gpuMmaThreads));
    return std::pair(quotient(number, integer(foursOfRow)), rest(number, integer(foursOfRow)));
  };
  auto readAll = [&](bool aligned) {
    Values words;
    for (int64_t i = 0; i < count; ++i) {
      auto [row, four] = rowAndFour(i);
      Value at = add(first, row), exists = less(at, rows.count);
      Value known = choose(exists, at, minus(rows.count, integer(1)));
      Values bits = loadFour(rows, known, mul(four, integer(4)), aligned);
      for (int64_t half = 0; half < 2; ++half)
        words.push_back(choose(exists, packBits(bits[2 * half], bits[2 * half + 1]), word(0)));
    }
    return words;
  };
  Values words = whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
  for (int64_t i = 0; i < count; ++i) {
    auto [row, four] = rowAndFour(i);
    Value at = add(mul(row, integer(naturalStride())), mul(four, integer(2)));
    toMemory(words[2 * i], natural, at);
    toMemory(words[2 * i + 1], natural, add(at, integer(1)));
  }
}

/// Word (column, p) has rows first + 2p and first + 2p + 1. Four threads read 16 columns side by side; with this order
/// of threads at most two write to one bank.
void MmaTiles::loadTransposed(const GpuRows &rows, Value first) {
  int64_t pairs = columns / 2, sixteens = gpuMmaThreads / (neighbours * pairs); // columns at a time, in 16
  Value p = rest(quotient(thread, integer(4)), integer(pairs));
  auto columnAt = [&](int64_t begin) {
    Value four = mul(rest(thread, integer(4)), integer(4));
    Value own = mul(quotient(thread, integer(neighbours * pairs)), integer(16));
    return add(add(own, four), integer(begin));
  };
  auto readAll = [&](bool aligned) {
    Values words;
    for (int64_t begin = 0; begin < width; begin += 16 * sixteens) {
      Value column = columnAt(begin);
      // Instead of columns beyond the end the first ones are read, and not written.
      if (begin + 16 * sixteens > width)
        column = choose(less(column, integer(width)), column, integer(0));
      Values both[2];
      for (int64_t half = 0; half < 2; ++half) {
        Value at = add(first, add(mul(p, integer(2)), integer(half))), exists = less(at, rows.count);
        Value known = choose(exists, at, minus(rows.count, integer(1)));
        Value none = constant(getI16IntegerAttr(0));
        for (Value bits : loadFour(rows, known, column, aligned))
          both[half].push_back(choose(exists, bits, none));
      }
      for (int64_t i = 0; i < 4; ++i)
        words.push_back(packBits(both[0][i], both[1][i]));
    }
    return words;
  };
  Values words = whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
  for (int64_t begin = 0, at = 0; begin < width; begin += 16 * sixteens, at += 4) {
    Value column = columnAt(begin);
    auto storeFour = [&] {
      for (int64_t i = 0; i < 4; ++i)
        toMemory(words[at + i], transposed, add(mul(add(column, integer(i)), integer(transposedStride())), p));
    };
    if (begin + 16 * sixteens > width)
      when(less(column, integer(width)), storeFour);
    else
      storeFour();
  }
}

// Products

GpuPatch MmaTiles::products(const GpuHeld &a, const GpuRows &b, Value first) {
  barrier();
  loadNatural(b, first);
  barrier();
  Values c(columns / 8 * places, real(0));
  // What is not kept is read again, a part at a time.
  int64_t part = a.fragments.empty() ? 64 : width;
  for (int64_t begin = 0; begin < width; begin += part) {
    int64_t end = std::min(begin + part, width);
    Values fragments = a.fragments.empty() ? loadFragments(a.rows, a.first, begin, end) : a.fragments;
    for (int64_t eight = 0; eight < columns / 8; ++eight)
      for (int64_t column = begin; column < end; column += 16)
        multiply(ArrayRef(fragments).slice((column - begin) / 16 * places, places),
                 fragment(natural, naturalStride(), eight, column), MutableArrayRef(c).slice(eight * places, places));
  }
  GpuPatch patch(patchRows());
  for (size_t i = 0; i < c.size(); ++i)
    patch[i % places / 2].push_back(c[i]);
  return patch;
}

void MmaTiles::addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuRows &matrix, Value first) {
  barrier();
  loadTransposed(matrix, first);
  barrier();
  for (int64_t row = 0; row < columns; row += 16) {
    Values a;
    for (int64_t place = 0; place < 4; ++place) {
      ArrayRef<Value> line(weights[place % 2]);
      int64_t column = (row / 8 + place / 2) * 2; // eight of the tile's are two of the patch's
      a.push_back(pack(line[column], line[column + 1]));
    }
    for (int64_t eight = 0; eight < width / 8; ++eight)
      multiply(a, fragment(transposed, transposedStride(), eight, row), sums.slice(eight * places, places));
  }
}

void MmaTiles::scaleRow(MutableArrayRef<Value> sums, int64_t row, Value factor) {
  for (size_t i = 0; i < sums.size(); ++i)
    if (static_cast<int64_t>(i) % places / 2 == row)
      sums[i] = times(sums[i], factor);
}

void MmaTiles::storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) {
  for (int64_t i = 0; i < 2; ++i) {
    Value row = add(first, rowOf(i)), begin = mul(row, matrix.stride);
    auto storeAll = [&](bool aligned) {
      for (int64_t eight = 0; eight < width / 8; ++eight) {
        Value at = add(add(begin, pair), integer(8 * eight));
        Value low = sums[eight * places + 2 * i], high = sums[eight * places + 2 * i + 1];
        if (aligned) {
          store(pack(low, high), CodeBuilder::element(element, matrix.data, at), 4);
        } else {
          storeElement(low, matrix.data, at);
          storeElement(high, matrix.data, add(at, integer(1)));
        }
      }
      return Values();
    };
    when(less(row, matrix.count),
         [&] { whenElse(matrix.aligned, [&] { return storeAll(true); }, [&] { return storeAll(false); }); });
  }
}

} // namespace

std::unique_ptr<GpuTiles> makeGpuMmaTiles(const GpuTilesFunction &function) {
  return std::make_unique<MmaTiles>(function);
}

} // namespace dtc
