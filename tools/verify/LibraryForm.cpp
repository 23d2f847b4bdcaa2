#include "tools/verify/LibraryForm.h"

#include "runtime/abi/library/all.h"

#include <algorithm>
#include <cstring>

namespace dtc::verify {

using namespace abi::library;

template <class Scalars> static Scalars scalarsOf(const LibraryCall &call) {
  return load<Scalars>(call.scalars.data());
}

/// Changes the scalars of a call.
template <class Scalars, class Edit> static Scalars change(LibraryCall &call, const Edit &edit) {
  auto scalars = scalarsOf<Scalars>(call);
  edit(scalars);
  std::memcpy(call.scalars.data(), &scalars, sizeof scalars);
  return scalars;
}

/// Changes the scalars of a call whose grid follows from them.
template <class Scalars, class Edit> static void cut(LibraryCall &call, const Edit &edit) {
  call.grid = change<Scalars>(call, edit).grid();
}

std::vector<int64_t> BufferPart::elements() const {
  std::vector<int64_t> all = {offset};
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    std::vector<int64_t> next;
    next.reserve(all.size() * size_t(sizes[dim]));
    for (int64_t element : all)
      for (int64_t i = 0; i < sizes[dim]; ++i)
        next.push_back(element + i * strides[dim]);
    all = std::move(next);
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

/// A dense run of elements.
static BufferPart dense(int64_t count) { return {0, {count}, {1}}; }

std::vector<BufferPart> LibraryForm::parts(const LibraryCall &call) const {
  std::vector<BufferPart> parts = places(call);
  auto part = parts.begin();
  for (const Operand &operand : table.operands)
    if (operand.isIn(call.scalars.data())) {
      part->isRead = operand.isRead(call.scalars.data()), part->isWritten = operand.isWritten();
      ++part;
    }
  return parts;
}

/// At most about twice `most`, keeping the remainder modulo `most`.
static void shorten(int64_t &size, int64_t most) {
  if (size > 2 * most)
    size = most + size % most;
}

static int64_t noInteger(const LibraryCall &, size_t, int64_t, uint32_t) { return 0; }

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Tiles have up to 32 rows and 48 columns, blocks up to 1536 of the depth (runtime/kernels/cpu/gemm.cpp).
static void cutGemm(LibraryCall &call) {
  cut<GemmScalars>(
      call, [](auto &s) { shorten(s.batch, 2), shorten(s.m, 32), shorten(s.n, 48), shorten(s.k, 1536); });
}

static std::vector<BufferPart> gemmPlaces(const LibraryCall &call) {
  auto s = scalarsOf<GemmScalars>(call);
  auto matrix = [&](int64_t rows, int64_t columns, bool isTransposed, int64_t leading, int64_t batchStride) {
    return BufferPart{
        0, {s.batch, rows, columns}, {batchStride, isTransposed ? 1 : leading, isTransposed ? leading : 1}};
  };
  return {matrix(s.m, s.k, s.transposeA != 0, s.lda, s.strideA), matrix(s.k, s.n, s.transposeB != 0, s.ldb, s.strideB),
          matrix(s.m, s.n, false, s.ldc, s.strideC)};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Tiles have 32 queries and 64 keys.
template <class Scalars> static void cutAttention(LibraryCall &call) {
  cut<Scalars>(call, [](Scalars &s) {
    for (int64_t *size : {&s.B, &s.G, &s.R})
      shorten(*size, 1);
    for (int64_t *size : {&s.S, &s.T})
      shorten(*size, 64);
  });
}

static BufferPart headRows(const AttentionScalars &s, const QueryStrides &strides) {
  return {0, {s.B, s.S, s.G, s.R, s.E}, {strides.b, strides.s, strides.g, strides.r, 1}};
}
static BufferPart headRows(const AttentionScalars &s, const KeyStrides &strides) {
  return {0, {s.B, s.T, s.G, s.E}, {strides.b, strides.t, strides.g, 1}};
}

static std::vector<BufferPart> attentionForwardPlaces(const LibraryCall &call) {
  auto s = scalarsOf<AttentionScalars>(call);
  std::vector<BufferPart> parts = {headRows(s, s.q), headRows(s, s.k), headRows(s, s.v),
                                   dense(s.S),       dense(s.T),       dense(4)};
  if (s.starts)
    parts.push_back(dense(s.B * s.S));
  parts.push_back(headRows(s, s.out));
  parts.push_back(dense(s.B * s.G * s.R * s.S));
  return parts;
}

static std::vector<BufferPart> attentionBackwardPlaces(const LibraryCall &call) {
  auto s = scalarsOf<AttentionBackwardScalars>(call);
  std::vector<BufferPart> parts = attentionForwardPlaces(call);
  parts.push_back(headRows(s, s.dOut));
  parts.push_back(headRows(s, s.dQ));
  parts.push_back(headRows(s, s.dK));
  parts.push_back(headRows(s, s.dV));
  return parts;
}

/// Positions ascend, with gaps; the first queries see no key where keys may begin later. The key's words are arbitrary.
/// A query's start is not above its position.
static int64_t attentionInteger(const LibraryCall &call, size_t buffer, int64_t element, uint32_t random) {
  constexpr size_t ofKeys = 4, key = 5, starts = 6;
  auto s = scalarsOf<AttentionScalars>(call);
  if (buffer == key)
    return random % 1000;
  if (buffer == starts) {
    int64_t query = element % s.S;
    return random % (query + query / 7 + 1);
  }
  return element + element / 7 + (buffer == ofKeys && s.causal != causalByIndex ? 2 : 0);
}

//===----------------------------------------------------------------------===//
// Kernels that go through rows
//===----------------------------------------------------------------------===//

template <class Scalars> static BufferPart stridedRows(const Scalars &s, const RowStrides &strides) {
  return {0, {s.outer, s.S, s.inner, s.E}, {strides.outer, strides.s, strides.inner, 1}};
}

static void cutRotary(LibraryCall &call) {
  cut<RotaryScalars>(call, [](auto &s) { shorten(s.outer, 2), shorten(s.S, 16), shorten(s.inner, 4); });
}

static std::vector<BufferPart> rotaryPlaces(const LibraryCall &call) {
  auto s = scalarsOf<RotaryScalars>(call);
  return {stridedRows(s, s.x), dense(s.S), stridedRows(s, s.out)};
}

static int64_t rotaryInteger(const LibraryCall &, size_t, int64_t, uint32_t random) { return random % 100000; }

static void cutGather(LibraryCall &call) {
  change<GatherScalars>(call, [](auto &s) { shorten(s.rows, 64); });
  shorten(call.grid, 32);
}

static std::vector<BufferPart> gatherPlaces(const LibraryCall &call) {
  auto s = scalarsOf<GatherScalars>(call);
  return {dense(s.rows * s.width), dense(call.grid), dense(call.grid * s.width)};
}

static void cutScatterAdd(LibraryCall &call) {
  change<ScatterAddScalars>(call, [](auto &s) { shorten(s.rows, 64), shorten(s.count, 32); });
}

static std::vector<BufferPart> scatterAddPlaces(const LibraryCall &call) {
  auto s = scalarsOf<ScatterAddScalars>(call);
  return {dense(s.count * s.width), dense(s.count), dense(s.rows * s.width)};
}

/// Rows, some of them outside the table.
template <class Scalars> static int64_t rowInteger(const LibraryCall &call, size_t, int64_t, uint32_t random) {
  auto s = scalarsOf<Scalars>(call);
  return s.first - 1 + int64_t(random) % (s.rows + 2);
}

static void cutWriteRows(LibraryCall &call) {
  cut<WriteRowsScalars>(
      call, [](auto &s) { shorten(s.outer, 2), shorten(s.S, 16), shorten(s.inner, 4), shorten(s.T, 64); });
}

static std::vector<BufferPart> writeRowsPlaces(const LibraryCall &call) {
  auto s = scalarsOf<WriteRowsScalars>(call);
  return {stridedRows(s, s.strides), dense(s.S), dense(s.outer * s.T * s.inner * s.E)};
}

/// Positions ascend, the first and the last ones perhaps outside.
static int64_t positionInteger(const LibraryCall &call, size_t, int64_t element, uint32_t) {
  auto s = scalarsOf<WriteRowsScalars>(call);
  return element + std::max<int64_t>(0, s.T - s.S) / 2 - 1;
}

/// The last dimension stays, and so does the one in which a source may be shorter: copies end as in the full launch.
static void cutCopy(LibraryCall &call) {
  cut<CopyScalars>(call, [](CopyScalars &s) {
    bool isLimited = s.available != INT64_MAX;
    for (int dim = 0; dim < 5; ++dim)
      if (!isLimited || dim != s.limitedDim)
        shorten(s.sizes[dim], 8);
  });
}

static std::vector<BufferPart> copyPlaces(const LibraryCall &call) {
  auto s = scalarsOf<CopyScalars>(call);
  auto numbers = [](const auto &part) { return std::vector<int64_t>(std::begin(part), std::end(part)); };
  BufferPart in{s.inOffset, numbers(s.sizes), numbers(s.inStrides)};
  BufferPart out{s.outOffset, in.sizes, numbers(s.outStrides)};
  if (s.available != INT64_MAX)
    in.sizes[s.limitedDim] = std::clamp<int64_t>(s.available - s.begin, 0, in.sizes[s.limitedDim]);
  return {in, out};
}

static void cutFill(LibraryCall &call) { shorten(call.grid, 4096); }

static std::vector<BufferPart> fillPlaces(const LibraryCall &call) { return {dense(call.grid)}; }

const LibraryForm *findLibraryForm(std::string_view symbol) {
  static constexpr LibraryForm forms[] = {
      {tableOf<GemmScalars>, cutGemm, gemmPlaces, noInteger},
      {tableOf<AttentionScalars>, cutAttention<AttentionScalars>, attentionForwardPlaces, attentionInteger},
      {tableOf<AttentionBackwardScalars>, cutAttention<AttentionBackwardScalars>, attentionBackwardPlaces,
       attentionInteger},
      {tableOf<RotaryScalars>, cutRotary, rotaryPlaces, rotaryInteger},
      {tableOf<GatherScalars>, cutGather, gatherPlaces, rowInteger<GatherScalars>},
      {tableOf<ScatterAddScalars>, cutScatterAdd, scatterAddPlaces, rowInteger<ScatterAddScalars>},
      {tableOf<WriteRowsScalars>, cutWriteRows, writeRowsPlaces, positionInteger},
      {tableOf<CopyScalars>, cutCopy, copyPlaces, noInteger},
      {tableOf<FillScalars>, cutFill, fillPlaces, noInteger},
  };
  for (const LibraryForm &form : forms)
    if (form.symbol() == symbol)
      return &form;
  return nullptr;
}

} // namespace dtc::verify
