#include "tools/verify/LibraryForm.h"

#include <algorithm>

namespace dtc::verify {

using Scalars = std::vector<int64_t>;

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

static BufferPart written(BufferPart part, bool isRead = false) {
  part.isWritten = true, part.isRead = isRead;
  return part;
}

/// At most about twice `most`, with what is left over when the size is divided by it.
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
  Scalars &s = call.scalars;
  shorten(s[0], 2), shorten(s[1], 32), shorten(s[2], 48), shorten(s[3], 1536);
  call.grid = s[0] * (s[13] ? s[2] : s[1]);
}

static std::vector<BufferPart> gemmParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  auto matrix = [&](int64_t rows, int64_t columns, bool isTransposed, int64_t leading, int64_t batchStride) {
    return BufferPart{0, {s[0], rows, columns}, {batchStride, isTransposed ? 1 : leading, isTransposed ? leading : 1}};
  };
  return {matrix(s[1], s[3], s[4] != 0, s[6], s[9]), matrix(s[3], s[2], s[5] != 0, s[7], s[10]),
          written(matrix(s[1], s[2], false, s[8], s[11]), s[12] != 0)};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Tiles have 32 queries and 64 keys.
static void cutAttention(LibraryCall &call, bool isBackward) {
  Scalars &s = call.scalars;
  for (int size : {0, 3, 4})
    shorten(s[size], 1);
  for (int size : {1, 2})
    shorten(s[size], 64);
  call.grid = s[0] * s[3] * (isBackward ? 1 : s[4]);
}

static void cutAttentionForward(LibraryCall &call) { cutAttention(call, false); }
static void cutAttentionBackward(LibraryCall &call) { cutAttention(call, true); }

/// Rows of queries by the four strides at scalar `first`, or of keys by three.
static BufferPart headRows(const Scalars &s, int first, bool isKeys) {
  BufferPart part{0, {s[0], s[isKeys ? 2 : 1], s[3]}, {s[first], s[first + 1], s[first + 2]}};
  if (!isKeys)
    part.sizes.push_back(s[4]), part.strides.push_back(s[first + 3]);
  part.sizes.push_back(s[5]), part.strides.push_back(1);
  return part;
}

static std::vector<BufferPart> attentionForwardParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  std::vector<BufferPart> parts = {headRows(s, 6, false), headRows(s, 10, true), headRows(s, 13, true),
                                   dense(s[1]),           dense(s[2]),           dense(4)};
  if (s[33])
    parts.push_back(dense(s[0] * s[1]));
  parts.push_back(written(headRows(s, 16, false)));
  parts.push_back(written(dense(s[0] * s[3] * s[4] * s[1])));
  return parts;
}

static std::vector<BufferPart> attentionBackwardParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  std::vector<BufferPart> parts = attentionForwardParts(call);
  for (size_t read : {parts.size() - 2, parts.size() - 1})
    parts[read].isRead = true, parts[read].isWritten = false;
  parts.push_back(headRows(s, 34, false));
  parts.push_back(written(headRows(s, 38, false)));
  parts.push_back(written(headRows(s, 42, true)));
  parts.push_back(written(headRows(s, 45, true)));
  return parts;
}

/// Positions rise, with gaps; the first queries see no key where keys may begin later. The key's words are any. A
/// query's start is not above its position.
static int64_t attentionInteger(const LibraryCall &call, size_t buffer, int64_t element, uint32_t random) {
  constexpr size_t ofKeys = 4, key = 5, starts = 6;
  if (buffer == key)
    return random % 1000;
  if (buffer == starts) {
    int64_t query = element % call.scalars[1];
    return random % (query + query / 7 + 1);
  }
  bool isByIndex = call.scalars[21] == 2;
  return element + element / 7 + (buffer == ofKeys && !isByIndex ? 2 : 0);
}

//===----------------------------------------------------------------------===//
// Kernels that go through rows
//===----------------------------------------------------------------------===//

static void cutRotary(LibraryCall &call) {
  Scalars &s = call.scalars;
  shorten(s[0], 2), shorten(s[1], 16), shorten(s[2], 4);
  call.grid = s[0] * s[1];
}

static std::vector<BufferPart> rotaryParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  auto rows = [&](int first) {
    return BufferPart{0, {s[0], s[1], s[2], s[3]}, {s[first], s[first + 1], s[first + 2], 1}};
  };
  return {rows(6), dense(s[1]), written(rows(9))};
}

static int64_t rotaryInteger(const LibraryCall &, size_t, int64_t, uint32_t random) { return random % 100000; }

static void cutGather(LibraryCall &call) {
  shorten(call.scalars[0], 64);
  shorten(call.grid, 32);
}

static std::vector<BufferPart> gatherParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  return {dense(s[0] * s[1]), dense(call.grid), written(dense(call.grid * s[1]))};
}

static void cutScatterAdd(LibraryCall &call) { shorten(call.scalars[0], 64), shorten(call.scalars[3], 32); }

static std::vector<BufferPart> scatterAddParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  return {dense(s[3] * s[1]), dense(s[3]), written(dense(s[0] * s[1]), true)};
}

/// Rows, and some outside of the table.
static int64_t rowInteger(const LibraryCall &call, size_t, int64_t, uint32_t random) {
  return call.scalars[2] - 1 + int64_t(random) % (call.scalars[0] + 2);
}

static void cutWriteRows(LibraryCall &call) {
  Scalars &s = call.scalars;
  shorten(s[0], 2), shorten(s[1], 16), shorten(s[2], 4), shorten(s[4], 64);
  call.grid = s[0] * s[1];
}

static std::vector<BufferPart> writeRowsParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  return {BufferPart{0, {s[0], s[1], s[2], s[3]}, {s[5], s[6], s[7], 1}}, dense(s[1]),
          written(dense(s[0] * s[4] * s[2] * s[3]), true)};
}

/// Positions rise, the first and the last ones perhaps outside.
static int64_t positionInteger(const LibraryCall &call, size_t, int64_t element, uint32_t) {
  return element + std::max<int64_t>(0, call.scalars[4] - call.scalars[1]) / 2 - 1;
}

/// The last dimension stays, and that of which a source may have less: copies end as they do.
static void cutCopy(LibraryCall &call) {
  Scalars &s = call.scalars;
  bool isLimited = s[20] != INT64_MAX;
  for (int dim = 0; dim < 5; ++dim)
    if (!isLimited || dim != s[21])
      shorten(s[dim], 8);
  call.grid = s[0] * s[1];
}

static std::vector<BufferPart> copyParts(const LibraryCall &call) {
  const Scalars &s = call.scalars;
  BufferPart in{s[18], {s.begin(), s.begin() + 6}, {s.begin() + 6, s.begin() + 12}};
  BufferPart out{s[19], in.sizes, {s.begin() + 12, s.begin() + 18}};
  if (s[20] != INT64_MAX)
    in.sizes[s[21]] = std::clamp<int64_t>(s[20] - s[22], 0, in.sizes[s[21]]);
  return {in, written(out)};
}

static void cutFill(LibraryCall &call) { shorten(call.grid, 4096); }

static std::vector<BufferPart> fillParts(const LibraryCall &call) { return {written(dense(call.grid))}; }

const LibraryForm *findLibraryForm(std::string_view symbol) {
  static constexpr LibraryForm forms[] = {
      {"dtc_gemm", cutGemm, gemmParts, noInteger},
      {"dtc_attention_forward", cutAttentionForward, attentionForwardParts, attentionInteger},
      {"dtc_attention_backward", cutAttentionBackward, attentionBackwardParts, attentionInteger},
      {"dtc_rotary", cutRotary, rotaryParts, rotaryInteger},
      {"dtc_gather", cutGather, gatherParts, rowInteger},
      {"dtc_scatter_add", cutScatterAdd, scatterAddParts, rowInteger},
      {"dtc_write_rows", cutWriteRows, writeRowsParts, positionInteger},
      {"dtc_copy", cutCopy, copyParts, noInteger},
      {"dtc_fill", cutFill, fillParts, noInteger},
  };
  for (const LibraryForm &form : forms)
    if (form.symbol == symbol)
      return &form;
  return nullptr;
}

} // namespace dtc::verify
