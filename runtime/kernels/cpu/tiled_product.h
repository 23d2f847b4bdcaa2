// C = op(A) op(B) + accumulate * C for bf16 by products of tiles. Compiled only at the AMX level.
//
// A block of the operand with more vectors (rows of A, columns of B) is packed and stays in the L2 cache: the held
// block. Panels of the other operand pass by it, a chunk of the depth at a time. The chunk stays in the L1 cache while
// all panels of the held block are multiplied by it. Sums are kept in f32 between chunks and continue unchanged. So
// each element is one chain of products of tiles over k, and the division of work cannot change a result.
//
// Tiles multiply faster than operands arrive from memory, and memory bandwidth is best used evenly. So the next blocks
// are packed in the meantime, part of a step after each product of four tiles, and lines that will be read or written
// soon are prefetched, a few at a time.
#pragma once

#include "runtime/kernels/cpu/panels.h"
#include "runtime/kernels/cpu/scratch.h"
#include "runtime/kernels/cpu/tiles.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// One operand of a product; element j along the depth of vector i is at data[i * across + j * along].
struct Vectors {
  const BFloat *data;
  int64_t across, along, count;
  bool isA;
};

/// A part of an operand, packed as [chunk of the depth][panel][step of the chunk].
struct Block {
  static constexpr int64_t chunk = 8; ///< steps; with 32 vectors they take 16 KiB, a third of the L1 cache

  int64_t first, end, k, length; ///< vectors, and elements of the depth

  int64_t panels() const { return (end - first + Tiles::width - 1) / Tiles::width; }
  int64_t steps() const { return (length + Tiles::depth - 1) / Tiles::depth; }
  /// At least one, because an empty sum is a result, too.
  int64_t chunks() const { return larger<int64_t>(1, (steps() + chunk - 1) / chunk); }
  /// In floats; a chunk's panels are contiguous.
  int64_t place(int64_t panel, int64_t step) const {
    int64_t whole = step / chunk * chunk;
    return (whole * panels() + panel * smaller(chunk, steps() - whole) + step - whole) * Tiles::step;
  }
};

/// Packs a block, a part of a step at a time.
class Packing {
public:
  explicit Packing(const Vectors &operand) : operand(operand) {}

  /// From now on packs `next` to `place`, in equal shares over `times` calls of turn().
  void begin(const Block &next, float *place, int64_t times) {
    block = next;
    out = place;
    turns = times;
    turnsTaken = step = part = given = 0;
    now = at(0);
    later = at(ahead);
  }

  /// Packs during `steps` steps of a product; called after each.
  struct Turn {
    Packing &packing;
    int64_t left, each;

    void operator()() {
      for (int64_t n = smaller(left, each); n > 0; --n, --left)
        packing.packPart();
    }
  };
  Turn turn(int64_t steps) {
    if (turnsTaken == turns)
      return {*this, 0, 0};
    int64_t share = parts() * ++turnsTaken / turns - given;
    given += share;
    return {*this, share, steps > 0 ? (share + steps - 1) / steps : 0};
  }

  void packAll() {
    for (int64_t i = parts(); i > 0; --i)
      packPart();
  }

private:
  static constexpr int64_t ahead = 8; ///< steps between prefetching and packing

  int64_t parts() const { return block.steps() * block.panels() * Tiles::parts; }

  void packPart() {
    __builtin_prefetch(later.in + 2 * part * lineStride, 0, 2);
    __builtin_prefetch(later.in + (2 * part + 1) * lineStride, 0, 2);
    if (operand.isA)
      Tiles::packPartOfA(now, part, room);
    else
      Tiles::packPartOfB(now, part, room);
    if (++part < Tiles::parts)
      return;
    part = 0;
    now = at(++step);
    later = at(step + ahead);
  }

  /// Steps in memory order, as far as possible.
  Tiles::Step at(int64_t index) const {
    if (index >= block.steps() * block.panels())
      return {operand.data, 0, 0, 0, 0, nullptr};
    bool isSideBySide = operand.along != 1;
    int64_t panel = isSideBySide ? index % block.panels() : index / block.steps();
    int64_t step = isSideBySide ? index / block.panels() : index % block.steps();
    int64_t i = block.first + panel * Tiles::width, j = step * Tiles::depth;
    return {operand.data + i * operand.across + (block.k + j) * operand.along,
            operand.across,
            operand.along,
            smaller(Tiles::width, block.end - i),
            smaller(Tiles::depth, block.length - j),
            out + block.place(panel, step)};
  }

  const Vectors operand;
  const int64_t lineStride = operand.along == 1 ? operand.across : operand.along;
  Block block{};
  float *out = nullptr;
  int64_t turns = 0, turnsTaken = 0, given = 0; // given: parts
  int64_t step = 0, part = 0;
  Tiles::Step now{}, later{};
  alignas(64) float room[Tiles::step];
};

/// An operand's current block, and where the next one is being packed.
struct PackedBlock {
  float *panels, *next;

  void turn() {
    float *old = panels;
    panels = next, next = old;
  }
};

/// One product, whose result has elements R.
template <class R> class TiledProduct {
public:
  explicit TiledProduct(const Product<BFloat, R> &p)
      : p(p), holdsA(p.rows > p.cols), held(holdsA ? vectorsOfA() : vectorsOfB()),
        passing(holdsA ? vectorsOfB() : vectorsOfA()) {
    // Between blocks of the depth all sums are kept in memory, so a depth slightly larger than a block is one block.
    int64_t count = p.depth <= largestWhole ? 1 : (p.depth + largestDepth - 1) / largestDepth;
    blockDepth = larger(Tiles::depth, roundUp((p.depth + count - 1) / count, Tiles::depth));
    passingSize = smaller(roundUp(passing.count, Tiles::width), largestSide);
    partSize = roundUp(held.count, Tiles::width);
    if (count > 1)
      partSize = smaller(partSize, largestSide);
    int64_t blocks = (partSize * blockDepth + largestHeld - 1) / largestHeld;
    heldSize = roundUp((partSize + blocks - 1) / blocks, Tiles::width);
  }

  void run() {
    bool isOneHeld = isEnd(after({}, false)), isOnePassing = isEnd(after({}, true));
    int64_t ofHeld = heldSize * blockDepth / 2, ofPassing = passingSize * blockDepth / 2;
    int64_t ofSums = Tiles::width * heldSize;
    if (blockDepth < p.depth)
      ofSums = passingSize * partSize;
    sums = threadScratch(ofSums + ofHeld * (isOneHeld ? 1 : 2) + ofPassing * (isOnePassing ? 1 : 2));
    packedHeld.panels = sums + ofSums;
    packedPassing.panels = packedHeld.panels + ofHeld;
    packedPassing.next = packedPassing.panels + (isOnePassing ? 0 : ofPassing);
    packedHeld.next = isOneHeld ? packedHeld.panels : packedPassing.next + ofPassing;
    Tiles::Shapes shapes;
    multiplyBlocks();
    _mm_sfence(); // stores that bypass the caches
  }

private:
  static constexpr int64_t largestWhole = 1024, largestDepth = 768;
  static constexpr int64_t largestHeld = 640 * 768; ///< elements: half of the L2 cache; more is slower
  static constexpr int64_t largestSide = 1024;      ///< vectors whose panels or sums are kept in memory

  Vectors vectorsOfA() const { return {p.a.data, p.a.rowStride, p.a.colStride, p.rows, true}; }
  Vectors vectorsOfB() const { return {p.b.data, p.b.colStride, p.b.rowStride, p.cols, false}; }

  /// Where a pair of blocks begins: the passing vectors, the part of the others whose sums are kept, the depth, and the
  /// held vectors, which change fastest.
  struct Place {
    int64_t passing, part, k, held;
  };
  bool isEnd(const Place &at) const { return at.passing >= passing.count; }

  /// The next place, or the first one with a different passing block.
  Place after(Place at, bool passesOn) const {
    at.held += heldSize;
    if (!passesOn && at.held < partEnd(at))
      return at;
    at.held = at.part;
    if ((at.k += blockDepth) < p.depth)
      return at;
    at.k = 0;
    at.held = at.part += partSize;
    return at.part < held.count ? at : Place{at.passing + passingSize, 0, 0, 0};
  }

  int64_t partEnd(const Place &at) const { return smaller(at.part + partSize, held.count); }
  int64_t lengthOf(const Place &at) const { return smaller(blockDepth, p.depth - at.k); }
  Block heldBlock(const Place &at) const {
    return {at.held, smaller(at.held + heldSize, partEnd(at)), at.k, lengthOf(at)};
  }
  Block passingBlock(const Place &at) const {
    return {at.passing, smaller(at.passing + passingSize, passing.count), at.k, lengthOf(at)};
  }

  void multiplyBlocks() {
    Place at{};
    packingHeld.begin(heldBlock(at), packedHeld.panels, 0);
    packingHeld.packAll();
    packingPassing.begin(passingBlock(at), packedPassing.panels, 0);
    packingPassing.packAll();
    while (!isEnd(at)) {
      Block block = heldBlock(at), other = passingBlock(at);
      int64_t turns = other.panels() * block.chunks();
      if (Place next = after(at, true); at.held == at.part) {
        Block all{at.part, partEnd(at), 0, 0};
        packingPassing.begin(isEnd(next) ? Block{} : passingBlock(next), packedPassing.next, turns * all.panels());
      }
      Place next = after(at, false);
      packingHeld.begin(isEnd(next) ? Block{} : heldBlock(next), packedHeld.next, turns * block.panels());
      for (int64_t panel = 0; panel < other.panels(); ++panel)
        multiplyPanel(at, block, other, panel);
      packedHeld.turn();
      if (next.held == next.part)
        packedPassing.turn();
      at = next;
    }
  }

  /// Multiplies a passing panel by the held block.
  void multiplyPanel(const Place &at, const Block &block, const Block &other, int64_t panel) {
    float *results = sums;
    if (blockDepth < p.depth)
      results += (panel * (partSize / Tiles::width) + (at.held - at.part) / Tiles::width) * Tiles::block;
    bool isLast = at.k + blockDepth >= p.depth;
    for (int64_t chunk = 0; chunk < block.chunks(); ++chunk) {
      int64_t step = chunk * Block::chunk, end = step + smaller(Block::chunk, block.steps() - step);
      bool isLastChunk = chunk + 1 == block.chunks();
      const float *later = packedPassing.panels + (isLastChunk ? other.place(panel + 1, 0) : other.place(panel, end));
      for (int64_t i = 0; i < block.panels(); ++i, later += (end - step) * linesEach * lineFloats) {
        int64_t row = holdsA ? block.first + i * Tiles::width : other.first + panel * Tiles::width;
        int64_t col = holdsA ? other.first + panel * Tiles::width : block.first + i * Tiles::width;
        float *result = results + i * Tiles::block;
        multiplyPanels(packedHeld.panels + block.place(i, step), packedPassing.panels + other.place(panel, step),
                       end - step, result, at.k + step > 0, later, linesOfResult(row, col, isLast ? chunk : -1));
        if (isLast && isLastChunk)
          finish(result, row, col);
      }
    }
  }

  static constexpr int64_t linesEach = 2, lineFloats = 16; // prefetched after each step

  /// Lines of the result that will be written, `stride` bytes apart.
  struct Lines {
    const char *at;
    int64_t stride;
  };

  /// The lines of 16 rows of a bf16 block that a chunk of the depth prefetches. Rows may begin anywhere, so a row of
  /// the block spans two lines: the first is also the last of the previous block.
  Lines linesOfResult(int64_t row, int64_t col, int64_t chunk) const {
    if (__is_same(R, float) || chunk < 0 || chunk > 1)
      return {reinterpret_cast<const char *>(sums), 0};
    const R *first = p.c + (row + chunk * Tiles::rows) * p.ldc + col + Tiles::width - 1;
    return {reinterpret_cast<const char *>(first), p.ldc * static_cast<int64_t>(sizeof(R))};
  }

  void multiplyPanels(const float *ofHeld, const float *ofPassing, int64_t steps, float *result, bool resume,
                      const float *later, Lines lines) {
    auto packHeld = packingHeld.turn(steps);
    auto packPassing = packingPassing.turn(steps);
    Tiles::multiply(holdsA ? ofHeld : ofPassing, holdsA ? ofPassing : ofHeld, ofHeld, steps, result, resume, [&] {
      for (int64_t line = 0; line < linesEach; ++line, later += lineFloats, lines.at += lines.stride) {
        __builtin_prefetch(lines.at, 1);
        __builtin_prefetch(later, 0, 2);
      }
      packHeld();
      packPassing();
    });
  }

  /// Writes a block of sums. An f32 gradient is read much later, so it bypasses the caches if possible.
  void finish(const float *block, int64_t row, int64_t col) {
    int64_t rows = smaller(Tiles::width, p.rows - row), cols = smaller(Tiles::width, p.cols - col);
    for (int64_t i = 0; i < rows; ++i) {
      const float *in = Tiles::rowOf(block, i);
      R *out = p.c + (row + i) * p.ldc + col;
      if (!p.accumulate && cols == Tiles::width)
        writeRow(load(in), load(in + Tiles::size), out);
      else
        for (int64_t j = 0; j < cols; j += lanes) {
          Mask mask = firstLanes(smaller(lanes, cols - j));
          Vec sum = load(in + j / lanes * Tiles::size);
          store(out + j, p.accumulate ? load(out + j, mask) + sum : sum, mask);
        }
    }
  }

  /// Sums of tiles are never subnormal, so the processor's rounding to bf16 equals that of `store`.
  static void writeRow(Vec low, Vec high, BFloat *out) {
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  static void writeRow(Vec low, Vec high, float *out) {
    if (reinterpret_cast<uintptr_t>(out) % 64 == 0) {
      _mm512_stream_ps(out, low);
      _mm512_stream_ps(out + lanes, high);
    } else {
      store(out, low);
      store(out + lanes, high);
    }
  }

  const Product<BFloat, R> p;
  const bool holdsA;
  const Vectors held, passing;
  int64_t blockDepth, passingSize, partSize, heldSize; // elements, and vectors
  float *sums = nullptr;
  PackedBlock packedHeld{}, packedPassing{};
  Packing packingHeld{held}, packingPassing{passing};
};

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
