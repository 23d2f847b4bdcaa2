// Products of bf16 panels on processors that multiply tiles (AMX). Compiled only at that level.
//
// A tile is one contiguous kibibyte: 16 rows of 16 words, where a word is two neighbours along the depth. A tile of A
// is 16 vectors by 16 words, one of B 16 words by 16 vectors. A panel has 32 vectors, two tiles for each 32 elements of
// the depth, so that the product of two panels loads four tiles for four products.
#pragma once

#include "runtime/kernels/cpu/pack.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

struct Tiles {
  static constexpr int64_t rows = 16, words = 16;
  static constexpr int64_t size = rows * words;   ///< floats of a tile
  static constexpr int64_t depth = 2 * words;     ///< elements of a vector in it
  static constexpr int64_t width = 2 * rows;      ///< vectors of a panel
  static constexpr int64_t step = 2 * size;       ///< floats of a panel for one tile of the depth
  static constexpr int64_t block = width * width; ///< sums of the product of two panels: four tiles

  /// One step of a panel to be packed: `length` elements of `count` vectors, element j of vector i at
  /// in[i * across + j * along]. Missing elements and vectors are packed as zeros.
  struct Step {
    const BFloat *in;
    int64_t across, along, count, length;
    float *out;
  };
  /// A step is packed in this many parts, which run between products of tiles. `room` is one step large and the same
  /// for all parts.
  static constexpr int64_t parts = 16;

  static void packPartOfA(const Step &s, int64_t part, float *room) {
    if (s.along == 1)
      return copy(s, part, s.out);
    interleave(s, part, room);
    if (part == parts - 1)
      transpose(room, s.out);
  }

  static void packPartOfB(const Step &s, int64_t part, float *room) {
    if (s.along != 1)
      return interleave(s, part, s.out);
    if (s.count >= width && s.length >= depth) {
      if (part % 2 == 0)
        transposeFour(s.in + part / 8 * rows * s.across, s.across, part % 8 * 2, s.out + part / 8 * size);
      return;
    }
    copy(s, part, room);
    if (part == parts - 1)
      transpose(room, s.out);
  }

  /// sums (+)= the product of two panels, `steps` deep. `far`, one of the two, comes from the L2 cache; meanwhile() is
  /// called once per step.
  template <class Work>
  static void multiply(const float *a, const float *b, const float *far, int64_t steps, float *sums, bool resume,
                       Work meanwhile) {
    if (resume) {
      _tile_loadd(0, sums, stride);
      _tile_loadd(1, sums + size, stride);
      _tile_loadd(2, sums + 2 * size, stride);
      _tile_loadd(3, sums + 3 * size, stride);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t k = 0; k < steps; ++k, a += step, b += step, far += step) {
      _tile_loadd(4, b, stride);
      _tile_loadd(6, a, stride);
      prefetchTile(far + step);
      _tile_dpbf16ps(0, 6, 4);
      _tile_loadd(5, b + size, stride);
      _tile_dpbf16ps(1, 6, 5);
      _tile_loadd(7, a + size, stride);
      prefetchTile(far + step + size);
      _tile_dpbf16ps(2, 7, 4);
      _tile_dpbf16ps(3, 7, 5);
      meanwhile();
    }
    _tile_stored(0, sums, stride);
    _tile_stored(1, sums + size, stride);
    _tile_stored(2, sums + 2 * size, stride);
    _tile_stored(3, sums + 3 * size, stride);
  }

  /// Where row i of a block of sums begins; its second half is `size` further.
  static const float *rowOf(const float *sums, int64_t i) { return sums + i / rows * step + i % rows * words; }

  /// While an object lives, the thread's tiles have 16 rows of 64 bytes.
  class Shapes {
  public:
    Shapes() {
      struct alignas(64) {
        uint8_t palette = 1, start = 0, reserved[14] = {};
        uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      } shapes;
      _tile_loadconfig(&shapes);
    }
    ~Shapes() { _tile_release(); }
    Shapes(const Shapes &) = delete;
    Shapes &operator=(const Shapes &) = delete;
  };

private:
  static constexpr int64_t stride = words * sizeof(float);

  static void prefetchTile(const float *tile) {
    for (int64_t i = 0; i < size; i += words)
      __builtin_prefetch(tile + i);
  }

  static __mmask32 firstOf(int64_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

  /// Packs two vectors with contiguous elements.
  static void copy(const Step &s, int64_t part, float *out) {
    __mmask32 mask = firstOf(s.length);
    for (int64_t i = 2 * part; i < 2 * part + 2; ++i)
      _mm512_store_si512(out + i * words, _mm512_maskz_loadu_epi16(i < s.count ? mask : 0, s.in + i * s.across));
  }

  /// Packs one word of each of the vectors, which are adjacent.
  static void interleave(const Step &s, int64_t part, float *out) {
    static constexpr auto order = [] {
      struct {
        alignas(64) uint16_t low[32], high[32];
      } order{};
      for (uint16_t i = 0; i < 16; ++i) {
        order.low[2 * i] = i, order.low[2 * i + 1] = i + 32;
        order.high[2 * i] = i + 16, order.high[2 * i + 1] = i + 48;
      }
      return order;
    }();
    __mmask32 mask = firstOf(s.count);
    auto elements = [&](int64_t j) { return _mm512_maskz_loadu_epi16(j < s.length ? mask : 0, s.in + j * s.along); };
    __m512i even = elements(2 * part), odd = elements(2 * part + 1);
    __m512i low = _mm512_load_si512(order.low), high = _mm512_load_si512(order.high);
    _mm512_store_si512(out + part * rows, _mm512_permutex2var_epi16(even, low, odd));
    _mm512_store_si512(out + size + part * rows, _mm512_permutex2var_epi16(even, high, odd));
  }

  /// out[j * 16 + i] = in[i * across + j] for i < 16 and four j from `from`, in words; `across` is in elements.
  static void transposeFour(const BFloat *in, int64_t across, int64_t from, float *out) {
    Vec words[4];
    DTC_KERNEL_LEVEL::transposeFour(reinterpret_cast<const char *>(in + 2 * from), across * sizeof(BFloat), words);
    for (int64_t j = 0; j < 4; ++j)
      _mm512_store_ps(out + (from + j) * rows, words[j]);
  }

  /// Transposes each of the two tiles of a step.
  static void transpose(const float *in, float *out) {
    for (int64_t tile = 0; tile < step; tile += size)
      for (int64_t j = 0; j < words; j += 4)
        transposeFour(reinterpret_cast<const BFloat *>(in + tile), depth, j, out + tile);
  }
};

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
