// Kernels that only move memory: gather, scatter-add, rows into caches, strided copy, fill. They are memory-bound, so
// they are compiled only once.
#include "runtime/kernels/cpu/kernels.h"

#include "runtime/abi/library/copy.h"
#include "runtime/abi/library/fill.h"
#include "runtime/abi/library/gather.h"
#include "runtime/abi/library/scatter_add.h"
#include "runtime/abi/library/write_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace library = dtc::abi::library;

extern "C" {

void dtc_gather(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const std::byte *table = static_cast<const std::byte *>(buffers[0]);
  const int32_t *indices = static_cast<const int32_t *>(buffers[1]);
  std::byte *out = static_cast<std::byte *>(buffers[2]);
  const auto args = library::load<library::GatherScalars>(scalars);
  int64_t rowBytes = args.width * args.bytes;
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = indices[i] - args.first;
    if (row >= 0 && row < args.rows)
      std::memcpy(out + i * rowBytes, table + row * rowBytes, rowBytes);
    else
      std::memset(out + i * rowBytes, 0, rowBytes);
  }
}

void dtc_scatter_add(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const float *updates = static_cast<const float *>(buffers[0]);
  const int32_t *indices = static_cast<const int32_t *>(buffers[1]);
  float *out = static_cast<float *>(buffers[2]);
  const auto args = library::load<library::ScatterAddScalars>(scalars);
  for (int64_t i = 0; i < args.count; ++i) {
    int64_t row = indices[i] - args.first;
    if (row < 0 || row >= args.rows)
      continue;
    const float *__restrict source = updates + i * args.width;
    float *__restrict target = out + row * args.width;
    for (int64_t j = begin; j < end; ++j)
      target[j] += source[j];
  }
}

void dtc_write_rows(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const std::byte *rows = static_cast<const std::byte *>(buffers[0]);
  const int32_t *positions = static_cast<const int32_t *>(buffers[1]);
  std::byte *out = static_cast<std::byte *>(buffers[2]);
  const auto args = library::load<library::WriteRowsScalars>(scalars);
  int64_t pieceBytes = args.E * args.bytes;
  for (int64_t at = begin; at < end; ++at) {
    int64_t o = at / args.S, s = at % args.S, position = positions[s];
    if (position < 0 || position >= args.T)
      continue;
    const std::byte *from = rows + (o * args.strides.outer + s * args.strides.s) * args.bytes;
    std::byte *to = out + (o * args.T + position) * args.inner * pieceBytes;
    for (int64_t i = 0; i < args.inner; ++i)
      std::memcpy(to + i * pieceBytes, from + i * args.strides.inner * args.bytes, pieceBytes);
  }
}

} // extern "C"

namespace {

/// Calls run(T()) with the unsigned integer of `bytes` bytes: moving elements only requires their width.
template <typename Run> void withWord(int64_t bytes, Run run) {
  if (bytes == sizeof(uint32_t))
    run(uint32_t());
  else if (bytes == sizeof(uint16_t))
    run(uint16_t());
  else
    run(uint8_t());
}

constexpr int copyRank = library::CopyScalars::rank;

/// A strided copy, with zeros where the source ends early along one dimension.
template <typename Word> struct Copy {
  const Word *in;
  Word *out;
  const int64_t *sizes, *inStrides, *outStrides;
  /// Elements along `limitedDim` that the source has, counted from this copy's start.
  int64_t limitedDim, available;
  /// The dimension copied in one piece: those after it have one element.
  int lineDim;

  /// Copies elements `begin` to `end` along `dim`, with all dimensions after it.
  void run(int dim, int64_t begin, int64_t end, int64_t inAt, int64_t outAt, bool inside) const {
    if (dim == lineDim)
      return line(begin, end, inAt, outAt, inside);
    for (int64_t i = begin; i < end; ++i)
      run(dim + 1, 0, sizes[dim + 1], inAt + i * inStrides[dim], outAt + i * outStrides[dim],
          inside && isInside(dim, i));
  }

  bool isInside(int dim, int64_t i) const { return dim != limitedDim || i < available; }
  /// The source may be empty along a dimension of one element.
  bool isAnyInside() const { return limitedDim <= lineDim || available > 0; }

private:
  void line(int64_t begin, int64_t end, int64_t inAt, int64_t outAt, bool inside) const {
    int64_t inStride = inStrides[lineDim], outStride = outStrides[lineDim];
    int64_t copied = inside ? end : begin;
    if (limitedDim == lineDim)
      copied = std::clamp<int64_t>(available, begin, copied);
    if (inStride == 1 && outStride == 1)
      std::memcpy(out + outAt + begin, in + inAt + begin, (copied - begin) * sizeof(Word));
    else
      for (int64_t i = begin; i < copied; ++i)
        out[outAt + i * outStride] = in[inAt + i * inStride];
    for (int64_t i = copied; i < end; ++i)
      out[outAt + i * outStride] = 0;
  }
};

/// The last dimension of more than one element, but at least the last one that threads divide.
int lineDimOf(const int64_t *sizes) {
  int dim = copyRank - 1;
  while (dim > 1 && sizes[dim] == 1)
    --dim;
  return dim;
}

template <typename Word>
void copyRows(void *const *buffers, const library::CopyScalars &args, int64_t begin, int64_t end) {
  Copy<Word> copy = {static_cast<const Word *>(buffers[0]) + args.inOffset,
                     static_cast<Word *>(buffers[1]) + args.outOffset,
                     args.sizes,
                     args.inStrides,
                     args.outStrides,
                     args.limitedDim,
                     args.available == INT64_MAX ? INT64_MAX : args.available - args.begin,
                     lineDimOf(args.sizes)};
  for (int64_t at = begin; at < end;) {
    int64_t i = at / copy.sizes[1], from = at % copy.sizes[1], to = std::min(copy.sizes[1], from + end - at);
    copy.run(1, from, to, i * copy.inStrides[0], i * copy.outStrides[0], copy.isAnyInside() && copy.isInside(0, i));
    at += to - from;
  }
}

} // namespace

extern "C" {

void dtc_copy(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  if (buffers[0] == buffers[1]) // in place: only whole dense tensors are copied in place
    return;
  const auto args = library::load<library::CopyScalars>(scalars);
  withWord(args.bytes, [&](auto word) { copyRows<decltype(word)>(buffers, args, begin, end); });
}

void dtc_fill(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto args = library::load<library::FillScalars>(scalars);
  withWord(args.bytes, [&](auto word) {
    auto *out = static_cast<decltype(word) *>(buffers[0]);
    std::fill(out + begin, out + end, static_cast<decltype(word)>(args.bits));
  });
}

} // extern "C"
