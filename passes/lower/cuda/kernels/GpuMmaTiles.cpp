// Tiles by matrix units: D = A B + C of 16 x 16, 16 x 8 and 16 x 8 elements by the 32 threads of a warp, A and B of 16
// bits, C and D f32 ("mma.m16n8k16" of NVIDIA's PTX manual, whose section of that name says which thread has which
// elements). With g = lane / 4 and t = lane % 4, a thread has two elements side by side in each 32-bit word:
//   A, row-major: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)
//   B, column-major: (2t, g), (2t + 8, g), the second element of a word in the next row
//   C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//
// A block has four warps; each has 16 rows of the tile. Rows of the held matrix are A, read from the buffer, and kept
// or read again. Tiles of the others are in workgroup memory with the layout of the buffers. For products their rows
// are B's columns; for sums the weights are A, which each thread forms from its own elements of C, and rows of the tile
// are B's rows. Either way a thread's words come from the memory by "ldmatrix", transposed for sums, which reads rows
// of eight elements, 16 bytes, eight rows at a time. A row of the memory is one such piece longer than the matrix, so
// an odd number of them, so that the pieces of eight neighbouring rows are in different banks.
//
// There is room for two steps of a walk: while one step's tiles are multiplied, the next step's arrive.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/kernels/GpuTiles.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dtc {
namespace {

class MmaTiles final : public GpuTiles {
public:
  explicit MmaTiles(const GpuTilesFunction &stated)
      : GpuTiles(makeGpuTilesFunction(stated, gpuMmaThreads), stated, pieceElements) {
    inWarp = rest(thread, integer(32));
    warp = quotient(thread, integer(32));
    group = quotient(inWarp, integer(4));
    pair = mul(rest(inWarp, integer(4)), integer(2));
    memory = workgroupMemory(VectorType::get({4}, getI32Type()), stages * tilesOfStage * tilePieces());
  }

  int64_t patchRows() const override { return 2; }
  int64_t patchColumns() const override { return columns / neighbours; }
  Value rowOf(int64_t number) override { return add(add(mul(warp, integer(16)), group), integer(8 * number)); }
  Value columnOf(int64_t number) override { return add(pair, integer(number / 2 * 8 + number % 2)); }
  Value acrossRow(Value value, Combine combine) override { return acrossThreads(value, 4, combine); }

  GpuHeld hold(const GpuRows &rows, Value first, bool keep) override;
  Values walk(const GpuWalk &walk, ValueRange initial, Step body) override;
  GpuPatch products(const GpuHeld &a, const GpuTile &b) override;
  /// What C has of eight columns at a time: sums[eight * places + place].
  Values noSums() override { return Values(width / 2, real(0)); }
  void addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuTile &tile) override;
  void scaleRow(MutableArrayRef<Value> sums, int64_t row, Value factor) override;
  void storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) override;

private:
  /// Threads that share rows of C, and how many words of A and elements of C each thread has.
  static constexpr int64_t neighbours = 4, places = 4;
  /// Workgroup memory: tiles in pieces of eight elements.
  static constexpr int64_t pieceElements = 8, stages = 2, tilesOfStage = 2;
  int64_t piecesOfRow() const { return width / pieceElements; }
  int64_t stride() const { return piecesOfRow() + 1; }
  int64_t tilePieces() const { return columns * stride(); }

  Values loadFragments(const GpuRows &rows, Value first, int64_t begin, int64_t end);
  Value loadWord(const GpuRows &rows, Value at, bool aligned);
  Value loadPiece(const GpuRows &rows, Value at);
  Value atStage(Value number, int64_t tile);
  Value isNeeded(const GpuWalk &walk, Value number);
  void fetch(const GpuTile &tile);
  Value pack(Value low, Value high);
  Value packBits(Value low, Value high);
  /// c += a b.
  void multiply(ArrayRef<Value> a, ArrayRef<Value> b, MutableArrayRef<Value> c);
  /// B's words for 16 of its rows and 16 of its columns, two and two, from a row and a piece of the tile on. The tile's
  /// rows are B's columns, or B's rows if it is transposed.
  std::array<Value, 4> fragments(const GpuTile &tile, int64_t row, int64_t piece, bool transposed);

  Value inWarp, warp, group, pair; // i64; pair: 2t
  Value memory;                    // of the workgroup
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

/// Eight neighbours of a row in order, one by one.
Value MmaTiles::loadPiece(const GpuRows &rows, Value at) {
  auto words = VectorType::get({4}, getI32Type());
  Values bits;
  for (int64_t i = 0; i < pieceElements; ++i)
    bits.push_back(load(getI16Type(), CodeBuilder::element(element, rows.data, add(at, integer(i))), 2));
  return LLVM::BitcastOp::create(*this, loc, words, join(bits));
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
        // For rows beyond the end the last one is read instead.
        Value known = choose(exists, row, minus(rows.count, integer(1)));
        Value at = add(add(mul(known, rows.stride), pair), integer(column + place / 2 * 8));
        words.push_back(choose(exists, loadWord(rows, at, aligned), word(0)));
      }
    return words;
  };
  return whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
}

std::array<Value, 4> MmaTiles::fragments(const GpuTile &tile, int64_t row, int64_t piece, bool transposed) {
  // Eight threads each give the rows of a matrix. The first two are B's upper and lower half: side by side in the tile,
  // or one below the other where it is transposed.
  Value matrix = quotient(inWarp, integer(8)), inMatrix = rest(inWarp, integer(8));
  Value low = rest(matrix, integer(2)), high = quotient(matrix, integer(2));
  Value own = add(mul(transposed ? low : high, integer(8)), inMatrix);
  Value begin = add(add(mul(own, integer(stride())), transposed ? high : low), tile.memory);
  Value address = addressOf(memory, add(begin, integer(row * stride() + piece)));
  auto type = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getI32Type()));
  StringRef name = transposed ? gpuLoadTransposedMatrices : gpuLoadMatrices;
  Value loaded = LLVM::CallIntrinsicOp::create(*this, loc, type, getStringAttr(name), address).getResult(0);
  std::array<Value, 4> words;
  for (int64_t i = 0; i < 4; ++i)
    words[i] = LLVM::ExtractValueOp::create(*this, loc, loaded, i);
  return words;
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

/// Where a tile of a step is, in pieces: two steps take turns.
Value MmaTiles::atStage(Value number, int64_t tile) {
  Value begin = mul(rest(number, integer(stages)), integer(tilesOfStage * tilePieces()));
  return add(begin, integer(tile * tilePieces()));
}

/// Begins to copy a tile's rows to its memory. For rows beyond the end it copies the last one again, with weight zero.
void MmaTiles::fetch(const GpuTile &tile) {
  const GpuRows &rows = tile.rows;
  int64_t pieces = columns * piecesOfRow();
  auto fetchOne = [&](Value number, bool aligned) {
    Value row = quotient(number, integer(piecesOfRow())), piece = rest(number, integer(piecesOfRow()));
    Value known = smaller(add(tile.first, row), minus(rows.count, integer(1)));
    Value from = add(mul(known, rows.stride), mul(piece, integer(pieceElements)));
    Value to = add(add(mul(row, integer(stride())), piece), tile.memory);
    if (aligned)
      LLVM::CallIntrinsicOp::create(*this, loc, getStringAttr(gpuBeginCopy),
                                    {addressOf(memory, to), CodeBuilder::element(element, rows.data, from)});
    else
      toMemory(loadPiece(rows, from), memory, to);
  };
  auto fetchAll = [&](bool aligned) {
    for (int64_t begin = 0; begin < pieces; begin += gpuMmaThreads) {
      Value number = add(thread, integer(begin));
      if (begin + gpuMmaThreads > pieces)
        when(less(number, integer(pieces)), [&] { fetchOne(number, aligned); });
      else
        fetchOne(number, aligned);
    }
    return Values();
  };
  whenElse(rows.aligned, [&] { return fetchAll(true); }, [&] { return fetchAll(false); });
}

/// Whether there is such a step and it is not left out.
Value MmaTiles::isNeeded(const GpuWalk &walk, Value number) {
  Value exists = less(number, walk.count);
  return walk.isHidden ? choose(walk.isHidden(number), constant(getBoolAttr(false)), exists) : exists;
}

/// In turn `next` the tiles of step `next` are fetched, and those of the step before it used.
MmaTiles::Values MmaTiles::walk(const GpuWalk &walk, ValueRange initial, Step body) {
  auto tiles = [&](Value number) {
    GpuTilePair pair = walk.tiles(number);
    for (auto [i, tile] : llvm::enumerate(pair))
      tile.memory = atStage(number, static_cast<int64_t>(i));
    return pair;
  };
  Values state(initial);
  state.push_back(constant(getBoolAttr(false)));
  state = loop(integer(0), add(walk.count, integer(1)), state, [&](Value next, ValueRange before) {
    // What was fetched is there, and the memory for the next tiles is no longer used.
    LLVM::CallIntrinsicOp::create(*this, loc, getStringAttr(gpuWaitForCopies), ValueRange());
    barrier();
    Value nextIsNeeded = isNeeded(walk, next);
    when(nextIsNeeded, [&] {
      for (const GpuTile &tile : tiles(next))
        fetch(tile);
    });
    Value number = minus(next, integer(1));
    Values after = whenElse(
        before.back(), [&] { return body(number, tiles(number), before.drop_back()); },
        [&] { return Values(before.drop_back()); });
    after.push_back(nextIsNeeded);
    return after;
  });
  state.pop_back();
  return state;
}

// Products

GpuPatch MmaTiles::products(const GpuHeld &a, const GpuTile &b) {
  Values c(columns / 8 * places, real(0));
  // What is not kept is reread, a part at a time.
  int64_t part = a.fragments.empty() ? 64 : width;
  for (int64_t begin = 0; begin < width; begin += part) {
    int64_t end = std::min(begin + part, width);
    Values words = a.fragments.empty() ? loadFragments(a.rows, a.first, begin, end) : a.fragments;
    for (int64_t row = 0; row < columns; row += 16)
      for (int64_t column = begin; column < end; column += 16) {
        ArrayRef<Value> own = ArrayRef(words).slice((column - begin) / 16 * places, places);
        std::array<Value, 4> other = fragments(b, row, column / pieceElements, /*transposed=*/false);
        for (int64_t half = 0; half < 2; ++half)
          multiply(own, ArrayRef(other).slice(2 * half, 2),
                   MutableArrayRef(c).slice((row / 8 + half) * places, places));
      }
  }
  GpuPatch patch(patchRows());
  for (size_t i = 0; i < c.size(); ++i)
    patch[i % places / 2].push_back(c[i]);
  return patch;
}

void MmaTiles::addProduct(MutableArrayRef<Value> sums, const GpuPatch &weights, const GpuTile &tile) {
  for (int64_t row = 0; row < columns; row += 16) {
    Values a;
    for (int64_t place = 0; place < 4; ++place) {
      ArrayRef<Value> line(weights[place % 2]);
      int64_t column = (row / 8 + place / 2) * 2; // eight of the tile's are two of the patch's
      a.push_back(pack(line[column], line[column + 1]));
    }
    for (int64_t piece = 0; piece < piecesOfRow(); piece += 2) {
      std::array<Value, 4> b = fragments(tile, row, piece, /*transposed=*/true);
      for (int64_t half = 0; half < 2; ++half)
        multiply(a, ArrayRef(b).slice(2 * half, 2), sums.slice((piece + half) * places, places));
    }
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
