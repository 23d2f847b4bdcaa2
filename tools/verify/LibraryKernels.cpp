#include "tools/verify/LibraryKernels.h"

#include "dialect/reference/AttentionRows.h"
#include "dialect/reference/Gelu.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/epilogue.h"
#include "runtime/abi/random.h"
#include "runtime/abi/rotary.h"
#include "tools/verify/Estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

using mlir::dt::AttentionRowsOf, mlir::dt::valueOf;

namespace dtc::verify {

static double real(int64_t bits) { return std::bit_cast<double>(bits); }

/// What a launch says twice must agree.
static void require(const char *kernel, const char *what, int64_t stated, int64_t needed) {
  if (stated != needed)
    throw ProgramFault(std::string(kernel) + ": " + what + " is " + std::to_string(stated) + ", its scalars need " +
                       std::to_string(needed));
}

/// Throws unless the launch has exactly the scalars that the kernel reads, and runs all of its grid or `canBePart`.
template <class Launch>
static void requireScalars(const char *kernel, const Launch &launch, size_t count, bool canBePart = false) {
  if (launch.part && !canBePart)
    throw ProgramFault(std::string(kernel) + ": a part of its grid is run, of which its reference does not know what "
                                             "it writes");
  if (launch.scalars.size() != count)
    throw ProgramFault(std::string(kernel) + ": " + std::to_string(launch.scalars.size()) + " scalars, it reads " +
                       std::to_string(count));
}

/// Throws unless the buffers, which the launch gives types, hold what the kernel reads and writes there.
template <class Launch>
static void requireTypes(const char *kernel, const Launch &launch, const std::vector<abi::DataType> &types) {
  if (launch.buffers.size() != types.size())
    throw ProgramFault(std::string(kernel) + ": " + std::to_string(launch.buffers.size()) + " buffers, it takes " +
                       std::to_string(types.size()));
  auto buffer = launch.buffers.begin();
  for (abi::DataType type : types)
    if (abi::DataType stated = buffer++->type; stated != type)
      throw ProgramFault(std::string(kernel) + ": a buffer is said to hold " + abi::nameOf(stated) + ", the kernel's " +
                         abi::nameOf(type));
}

/// The type of which a scalar says that some buffers hold it.
template <class Launch> static abi::DataType statedElement(const char *kernel, const Launch &launch, size_t scalar) {
  const abi::ElementType *type = abi::findElementType(static_cast<int>(launch.scalars[scalar]));
  if (!type || !type->isFloating() || type->type != launch.scalars[scalar])
    throw ProgramFault(std::string(kernel) + ": computes with elements of type " +
                       std::to_string(launch.scalars[scalar]) + "; they are f32, bf16 or f16");
  return type->type;
}

/// Of kernels that move elements: the width of these, which their buffers tell too.
template <class Number> static void requireWidth(const char *kernel, const BufferOf<Number> &buffer, int64_t stated) {
  require(kernel, "the width of an element", stated, abi::elementType(buffer.type).bytes);
}

static void requireFlag(const char *kernel, int64_t value) {
  if (value != 0 && value != 1)
    throw ProgramFault(std::string(kernel) + ": a flag is " + std::to_string(value) + "; write 0 or 1");
}

/// The scalars of dtc_gemm, checked.
struct GemmScalars {
  abi::DataType operands, result;
  int64_t batch, m, n, k, leading, batchStride;
  bool accumulate;

  template <class Launch>
  GemmScalars(const char *kernel, const Launch &launch)
      : operands(statedElement(kernel, launch, 14)), result(statedElement(kernel, launch, 15)) {
    if (result != operands && result != abi::F32)
      throw ProgramFault(std::string(kernel) + ": gives " + abi::nameOf(result) + " from " + abi::nameOf(operands) +
                         "; it gives the same, or f32");
    const std::vector<int64_t> &s = launch.scalars;
    for (int flag : {4, 5, 12, 13})
      requireFlag(kernel, s[flag]);
    require(kernel, "the grid", launch.grid, s[0] * (s[13] ? s[2] : s[1]));
    batch = s[0], m = s[1], n = s[2], k = s[3], leading = s[8], batchStride = s[11], accumulate = s[12] != 0;
  }

  /// Where the result's row number i begins: rows of all matrices of a batch are counted through.
  int64_t rowOfResult(int64_t i) const { return i / m * batchStride + i % m * leading; }
};

/// Row number i of A B.
template <class Number>
static void multiplyRow(const LibraryLaunchOf<Number> &launch, const GemmScalars &scalars, int64_t i,
                        std::vector<Number> &row) {
  const std::vector<int64_t> &s = launch.scalars;
  const BufferOf<Number> &a = launch.buffers[0], &b = launch.buffers[1];
  int64_t aRow = s[4] ? 1 : s[6], aColumn = s[4] ? s[6] : 1, bRow = s[5] ? 1 : s[7], bColumn = s[5] ? s[7] : 1;
  int64_t aAt = i / scalars.m * s[9] + i % scalars.m * aRow, bAt = i / scalars.m * s[10];
  row.assign(scalars.n, Number(0));
  for (int64_t l = 0; l < scalars.k; ++l) {
    Number factor = a.at(aAt + l * aColumn);
    b.require(bAt + l * bRow + (scalars.n - 1) * bColumn + 1);
    for (int64_t j = 0; j < scalars.n; ++j)
      row[j] += factor * b.data[bAt + l * bRow + j * bColumn];
  }
}

template <class Number> static void gemm(const LibraryLaunchOf<Number> &launch) {
  bool countsRows = launch.scalars.size() == 16 && !launch.scalars[13];
  requireScalars("dtc_gemm", launch, 16, /*canBePart=*/countsRows);
  GemmScalars scalars("dtc_gemm", launch);
  requireTypes("dtc_gemm", launch, {scalars.operands, scalars.operands, scalars.result});
  const BufferOf<Number> &c = launch.buffers[2];
  std::vector<Number> row;
  for (int64_t i = 0; i < launch.part.value_or(scalars.batch * scalars.m); ++i) {
    multiplyRow(launch, scalars, i, row);
    for (int64_t j = 0, at = scalars.rowOfResult(i); j < scalars.n; ++j)
      c.at(at + j) = scalars.accumulate ? row[j] + c.at(at + j) : row[j];
  }
}

/// A product with an epilogue, as runtime/kernels/cuda/products.h says.
static void product(const LibraryLaunch &launch) {
  requireScalars("dtc_product", launch, 17);
  GemmScalars scalars("dtc_product", launch);
  const abi::EpilogueForm *form = abi::findEpilogue(launch.scalars[16]);
  if (!form)
    throw ProgramFault("dtc_product: there is no epilogue " + std::to_string(launch.scalars[16]));
  require("dtc_product", "the batch", scalars.batch, 1);
  require("dtc_product", "the flag of accumulating", scalars.accumulate, 0);
  require("dtc_product", "the count of buffers", int64_t(launch.buffers.size()),
          int64_t(form->inputs() + form->outputs()));
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    if (abi::DataType type = i < 2 ? scalars.operands : scalars.result; launch.buffers[i].type != type)
      throw ProgramFault("dtc_product: a buffer is said to hold " + abi::nameOf(launch.buffers[i].type) +
                         ", the kernel's " + abi::nameOf(type));
  const Buffer &other = launch.buffers[2], &result = launch.buffers[form->inputs()];
  std::vector<double> row;
  for (int64_t i = 0; i < scalars.m; ++i) {
    multiplyRow(launch, scalars, i, row);
    for (int64_t j = 0; j < scalars.n; ++j) {
      int64_t at = scalars.rowOfResult(i) + j;
      double sum = form->readsOperand ? row[j] : row[j] + other.at(form->hasBias ? j : at);
      if (form->storesSum)
        launch.buffers.back().at(at) = sum;
      result.at(at) = form->readsOperand ? sum * mlir::dt::geluTanhDerivative(other.at(at))
                      : form->hasGelu    ? mlir::dt::geluTanh(sum)
                                         : sum;
    }
  }
}

/// Whether masks by index are masks by position: some kernels know indices alone.
template <class Number> static bool isMaskedByIndex(const AttentionRowsOf<Number> &rows) {
  bool rises = rows.queries == rows.keys;
  for (int64_t i = 0; i < rows.keys && rises; ++i) {
    double key = valueOf(rows.kPositions[i]);
    rises = valueOf(rows.qPositions[i]) == key && (i == 0 || key > valueOf(rows.kPositions[i - 1]));
  }
  return rises;
}

/// The scalars that both directions of attention have in common.
template <class Number> static AttentionRowsOf<Number> attentionRows(const LibraryLaunchOf<Number> &launch) {
  const std::vector<int64_t> &s = launch.scalars;
  if (s[21] < 0 || s[21] > 2)
    throw ProgramFault("attention: the flag of causal is " + std::to_string(s[21]) + "; write 0, 1 or 2");
  AttentionRowsOf<Number> rows;
  rows.batch = s[0], rows.queries = s[1], rows.keys = s[2], rows.groups = s[3], rows.repeats = s[4], rows.width = s[5];
  rows.scale = real(s[20]), rows.causal = s[21] != 0, rows.dropout = real(s[22]);
  rows.window = s[31], rows.softcap = real(s[32]);
  if (rows.window < 0 || !(rows.softcap >= 0))
    throw ProgramFault("attention: a window of " + std::to_string(rows.window) + " and a soft cap of " +
                       std::to_string(rows.softcap) + "; both are positive, or 0 for none");
  rows.firstSample = s[24], rows.firstGroup = s[25], rows.firstRepeat = s[26];
  rows.allGroups = s[27], rows.allRepeats = s[28], rows.length = s[29];
  launch.buffers[3].require(rows.queries);
  launch.buffers[4].require(rows.keys);
  launch.buffers[5].require(4);
  rows.qPositions = launch.buffers[3].data, rows.kPositions = launch.buffers[4].data;
  if (s[21] == 2 && !isMaskedByIndex(rows))
    throw ProgramFault(
        "attention: the flag of causal is 2, and positions of queries and keys do not rise as one; write "
        "1");
  requireFlag("attention", s[33]);
  if (s[33]) {
    launch.buffers[6].require(rows.batch * rows.queries);
    rows.starts = launch.buffers[6].data;
  }
  const Number *key = launch.buffers[5].data;
  auto word = [](const Number &value) { return static_cast<uint32_t>(static_cast<int64_t>(valueOf(value))); };
  rows.key2 = valueOf(key[2]);
  rows.stream = rows.dropout > 0 ? random::stream(word(key[0]), word(key[1]), static_cast<uint32_t>(s[23])) : 0;
  return rows;
}

/// A buffer of [batch, sequence, group, repeat] rows by the four strides at scalar `first`; keys have three.
template <class View, class Number>
static View attentionView(const LibraryLaunchOf<Number> &launch, const AttentionRowsOf<Number> &rows, int buffer,
                          int first, bool isKey) {
  const int64_t *s = launch.scalars.data() + first;
  typename AttentionRowsOf<Number>::Strides strides = {s[0], s[1], s[2], isKey ? 0 : s[3]};
  int64_t sequence = isKey ? rows.keys : rows.queries;
  launch.buffers[buffer].require((rows.batch - 1) * strides[0] + (sequence - 1) * strides[1] +
                                 (rows.groups - 1) * strides[2] + (rows.repeats - 1) * strides[3] + rows.width);
  return {launch.buffers[buffer].data, strides};
}

/// What both directions read, and, behind the starts that there may be, buffers of these types.
template <class Launch>
static void requireAttentionTypes(const char *kernel, const Launch &launch, std::initializer_list<abi::DataType> rest) {
  abi::DataType type = statedElement(kernel, launch, 30);
  std::vector<abi::DataType> types = {type, type, type, abi::I32, abi::I32, abi::I32};
  if (launch.scalars[33])
    types.push_back(abi::I32);
  types.insert(types.end(), rest);
  requireTypes(kernel, launch, types);
}

template <class Number> static void attentionForward(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_attention_forward", launch, 34);
  abi::DataType type = statedElement("dtc_attention_forward", launch, 30);
  requireAttentionTypes("dtc_attention_forward", launch, {type, abi::F32});
  int rest = launch.scalars[33] ? 7 : 6;
  using Rows = AttentionRowsOf<Number>;
  Rows rows = attentionRows(launch);
  require("dtc_attention_forward", "the grid", launch.grid, rows.batch * rows.groups * rows.repeats);
  auto input = [&](int buffer, int first, bool isKey) {
    return attentionView<typename Rows::Input>(launch, rows, buffer, first, isKey);
  };
  const BufferOf<Number> &lse = launch.buffers[rest + 1];
  lse.require(rows.batch * rows.groups * rows.repeats * rows.queries);
  rows.forward(input(0, 6, false), input(1, 10, true), input(2, 13, true),
               attentionView<typename Rows::Output>(launch, rows, rest, 16, false), lse.data);
}

template <class Number> static void attentionBackward(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_attention_backward", launch, 48);
  abi::DataType type = statedElement("dtc_attention_backward", launch, 30);
  requireAttentionTypes("dtc_attention_backward", launch, {type, abi::F32, type, type, type, type});
  int rest = launch.scalars[33] ? 7 : 6;
  using Rows = AttentionRowsOf<Number>;
  Rows rows = attentionRows(launch);
  require("dtc_attention_backward", "the grid", launch.grid, rows.batch * rows.groups);
  auto input = [&](int buffer, int first, bool isKey) {
    return attentionView<typename Rows::Input>(launch, rows, buffer, first, isKey);
  };
  auto output = [&](int buffer, int first, bool isKey) {
    return attentionView<typename Rows::Output>(launch, rows, buffer, first, isKey);
  };
  const BufferOf<Number> &lse = launch.buffers[rest + 1];
  lse.require(rows.batch * rows.groups * rows.repeats * rows.queries);
  rows.backward(input(0, 6, false), input(1, 10, true), input(2, 13, true), input(rest, 16, false), lse.data,
                input(rest + 2, 34, false), output(rest + 3, 38, false), output(rest + 4, 42, true),
                output(rest + 5, 45, true));
}

template <class Number> static void rotary(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_rotary", launch, 19);
  abi::DataType type = statedElement("dtc_rotary", launch, 12);
  requireTypes("dtc_rotary", launch, {type, abi::I32, type});
  const std::vector<int64_t> &s = launch.scalars;
  require("dtc_rotary", "the grid", launch.grid, s[0] * s[1]);
  const BufferOf<Number> &x = launch.buffers[0], &positions = launch.buffers[1], &out = launch.buffers[2];
  int64_t width = s[3], pairs = s[13];
  if (pairs < 1 || pairs > width / 2)
    throw ProgramFault("dtc_rotary: turns " + std::to_string(pairs) + " pairs of " + std::to_string(width) +
                       " elements");
  double theta = real(s[4]), sign = double(s[5]);
  abi::RotaryScaling scaling = {real(s[14]), real(s[15]), real(s[16]), real(s[17]), real(s[18])};
  for (int64_t row = 0; row < s[0] * s[1] * s[2]; ++row) {
    int64_t inner = row % s[2], at = row / s[2] % s[1], outer = row / s[2] / s[1];
    int64_t from = outer * s[6] + at * s[7] + inner * s[8], to = outer * s[9] + at * s[10] + inner * s[11];
    for (int64_t i = 0; i < pairs; ++i) {
      double angle = valueOf(positions.at(at)) * abi::rotaryFrequency(theta, pairs, scaling, i);
      double cosine = scaling.amplitude * std::cos(angle), sine = scaling.amplitude * sign * std::sin(angle);
      Number first = x.at(from + i), second = x.at(from + i + pairs); // x and out may be one buffer
      out.at(to + i) = first * cosine - second * sine;
      out.at(to + i + pairs) = second * cosine + first * sine;
    }
    for (int64_t i = 2 * pairs; i < width; ++i)
      out.at(to + i) = x.at(from + i);
  }
}

template <class Number> static void gather(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_gather", launch, 4, /*canBePart=*/true);
  requireTypes("dtc_gather", launch, {launch.buffers[0].type, abi::I32, launch.buffers[0].type});
  requireWidth("dtc_gather", launch.buffers[0], launch.scalars[3]);
  const BufferOf<Number> &table = launch.buffers[0], &indices = launch.buffers[1], &out = launch.buffers[2];
  int64_t rows = launch.scalars[0], width = launch.scalars[1], first = launch.scalars[2];
  require("dtc_gather", "the table", table.size, rows * width);
  require("dtc_gather", "the result", out.size, launch.grid * width);
  for (int64_t i = 0; i < launch.part.value_or(launch.grid); ++i) {
    double row = valueOf(indices.at(i)) - double(first);
    bool inside = row >= 0 && row < double(rows);
    for (int64_t j = 0; j < width; ++j) // an undefined index gives undefined elements
      out.at(i * width + j) = inside ? table.at(int64_t(row) * width + j) : Number(std::isnan(row) ? row : 0);
  }
}

template <class Number> static void scatterAdd(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_scatter_add", launch, 4);
  requireTypes("dtc_scatter_add", launch, {abi::F32, abi::I32, abi::F32});
  const BufferOf<Number> &updates = launch.buffers[0], &indices = launch.buffers[1], &out = launch.buffers[2];
  int64_t rows = launch.scalars[0], width = launch.scalars[1], first = launch.scalars[2], count = launch.scalars[3];
  require("dtc_scatter_add", "the grid", launch.grid, width);
  require("dtc_scatter_add", "the result", out.size, rows * width);
  require("dtc_scatter_add", "the count of indices", indices.size, count);
  for (int64_t i = 0; i < count; ++i) {
    double row = valueOf(indices.at(i)) - double(first);
    if (std::isnan(row)) // an undefined index may hit any row
      std::fill_n(out.data, rows * width, Number(row));
    if (row >= 0 && row < double(rows))
      for (int64_t j = 0; j < width; ++j)
        out.at(int64_t(row) * width + j) += updates.at(i * width + j);
  }
}

template <class Number> static void writeRows(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_write_rows", launch, 9);
  requireTypes("dtc_write_rows", launch, {launch.buffers[0].type, abi::I32, launch.buffers[0].type});
  requireWidth("dtc_write_rows", launch.buffers[0], launch.scalars[8]);
  const std::vector<int64_t> &s = launch.scalars;
  const BufferOf<Number> &rows = launch.buffers[0], &positions = launch.buffers[1], &out = launch.buffers[2];
  int64_t inner = s[2], width = s[3], capacity = s[4];
  require("dtc_write_rows", "the grid", launch.grid, s[0] * s[1]);
  require("dtc_write_rows", "the count of positions", positions.size, s[1]);
  require("dtc_write_rows", "the result", out.size, s[0] * capacity * inner * width);
  for (int64_t at = 0; at < s[0] * s[1] * inner * width; ++at) {
    int64_t e = at % width, i = at / width % inner, row = at / width / inner % s[1], o = at / width / inner / s[1];
    double position = valueOf(positions.at(row));
    if (std::isnan(position)) // an undefined position may be any
      std::fill_n(out.data, out.size, Number(position));
    if (position >= 0 && position < double(capacity))
      out.at(((o * capacity + int64_t(position)) * inner + i) * width + e) =
          rows.at(o * s[5] + row * s[6] + i * s[7] + e);
  }
}

template <class Number> static void copy(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_copy", launch, 24);
  requireTypes("dtc_copy", launch, {launch.buffers[0].type, launch.buffers[0].type});
  requireWidth("dtc_copy", launch.buffers[0], launch.scalars[23]);
  const std::vector<int64_t> &s = launch.scalars;
  require("dtc_copy", "the grid", launch.grid, s[0] * s[1]);
  for (int dim = 0; dim < 6; ++dim)
    if (s[dim] > 1 && s[12 + dim] == 0)
      throw ProgramFault("dtc_copy: writes the same elements for each index of dimension " + std::to_string(dim));
  int64_t total = 1;
  for (int dim = 0; dim < 6; ++dim)
    total *= s[dim];
  // Elements that the source has along the limited dimension, from this copy's start.
  bool limited = s[20] != INT64_MAX;
  int64_t available = limited ? s[20] - s[22] : 0;
  for (int64_t i = 0; i < total; ++i) {
    int64_t from = s[18], to = s[19], rest = i;
    bool inside = true;
    for (int dim = 5; dim >= 0; --dim) {
      int64_t index = rest % s[dim];
      rest /= s[dim];
      from += index * s[6 + dim], to += index * s[12 + dim];
      inside = inside && !(limited && dim == s[21] && index >= available);
    }
    launch.buffers[1].at(to) = inside ? launch.buffers[0].at(from) : Number(0);
  }
}

template <class Number> static void fill(const LibraryLaunchOf<Number> &launch) {
  requireScalars("dtc_fill", launch, 2);
  requireTypes("dtc_fill", launch, {launch.buffers[0].type});
  requireWidth("dtc_fill", launch.buffers[0], launch.scalars[1]);
  require("dtc_fill", "the grid", launch.grid, launch.buffers[0].size);
  const auto *bits = reinterpret_cast<const std::byte *>(&launch.scalars[0]);
  double value = abi::readElement(abi::elementType(launch.buffers[0].type), bits);
  for (int64_t i = 0; i < launch.grid; ++i)
    launch.buffers[0].at(i) = value;
}

template <class Number> LibraryReferenceOf<Number> findLibraryReference(std::string_view symbol) {
  LibraryReferenceOf<Number> withEpilogue = nullptr;
  if constexpr (std::is_same_v<Number, double>)
    withEpilogue = product;
  const std::pair<std::string_view, LibraryReferenceOf<Number>> table[] = {
      {"dtc_gemm", gemm<Number>},
      {"dtc_product", withEpilogue},
      {"dtc_attention_forward", attentionForward<Number>},
      {"dtc_attention_backward", attentionBackward<Number>},
      {"dtc_rotary", rotary<Number>},
      {"dtc_gather", gather<Number>},
      {"dtc_scatter_add", scatterAdd<Number>},
      {"dtc_write_rows", writeRows<Number>},
      {"dtc_copy", copy<Number>},
      {"dtc_fill", fill<Number>},
  };
  // Every target's library means the same by a name: "dtc_cuda_gemm" is "dtc_gemm".
  constexpr std::string_view ours = "dtc_", cuda = "dtc_cuda_";
  // What stands behind a '$' is what code was made for; the meaning is the same.
  std::string_view kernel =
      symbol.substr(symbol.starts_with(cuda) ? cuda.size() : std::min(ours.size(), symbol.size()));
  if (symbol.starts_with(cuda))
    kernel = kernel.substr(0, kernel.find('$'));
  for (auto [name, reference] : table)
    if (name.substr(ours.size()) == kernel && symbol.starts_with(ours))
      return reference;
  return nullptr;
}

template LibraryReference findLibraryReference(std::string_view symbol);
template LibraryReferenceOf<Estimate> findLibraryReference(std::string_view symbol);

} // namespace dtc::verify
