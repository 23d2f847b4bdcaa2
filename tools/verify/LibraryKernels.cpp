#include "tools/verify/LibraryKernels.h"

#include "dialect/reference/AttentionRows.h"
#include "dialect/reference/Gelu.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/all.h"
#include "runtime/abi/random.h"
#include "tools/verify/Estimate.h"

#include <algorithm>
#include <cmath>
#include <string>

using mlir::dt::AttentionRowsOf, mlir::dt::valueOf;

namespace dtc::verify {

using namespace abi::library;

template <class Scalars> static std::string symbolOf() { return "dtc_" + std::string(tableOf<Scalars>.name); }

/// Values that a launch states twice must agree.
static void require(const std::string &kernel, const char *what, int64_t stated, int64_t needed) {
  if (stated != needed)
    throw ProgramFault(kernel + ": " + what + " is " + std::to_string(stated) + ", its scalars need " +
                       std::to_string(needed));
}

/// The launch's scalars. Throws unless it has exactly the scalars that the kernel reads, and runs its whole grid or
/// `canBePart` is set.
template <class Scalars, class Launch> static Scalars scalarsOf(const Launch &launch, bool canBePart = false) {
  if (launch.part && !canBePart)
    throw ProgramFault(symbolOf<Scalars>() +
                       ": a part of its grid is run, of which its reference does not know what it writes");
  if (launch.scalars.size() != countOf<Scalars>)
    throw ProgramFault(symbolOf<Scalars>() + ": " + std::to_string(launch.scalars.size()) + " scalars, it reads " +
                       std::to_string(countOf<Scalars>));
  return load<Scalars>(launch.scalars.data());
}

/// The element type of some buffers, as a scalar states it.
static abi::DataType statedElement(const std::string &kernel, int64_t stated) {
  const abi::ElementType *type = abi::findElementType(static_cast<int>(stated));
  if (!type || !type->isFloating() || type->type != stated)
    throw ProgramFault(kernel + ": computes with elements of type " + std::to_string(stated) +
                       "; they are f32, bf16 or f16");
  return type->type;
}

static abi::DataType typeOf(const std::string &kernel, const Operand &operand, const std::vector<int64_t> &scalars,
                            abi::DataType moved) {
  switch (operand.element.kind) {
  case ElementRule::Told:
    return statedElement(kernel, scalars[operand.element.scalar]);
  case ElementRule::Moved:
    return moved;
  case ElementRule::F32:
    return abi::F32;
  case ElementRule::I32:
    return abi::I32;
  }
  return moved;
}

/// Throws unless the buffers' types, which the launch states, are those of the kernel's table. Kernels that move
/// elements also state their width.
template <class Scalars, class Launch> static void requireTypes(const Launch &launch) {
  std::string kernel = symbolOf<Scalars>();
  std::vector<const Operand *> operands;
  for (const Operand &operand : tableOf<Scalars>.operands)
    if (operand.isIn(launch.scalars.data()))
      operands.push_back(&operand);
  if (launch.buffers.size() != operands.size())
    throw ProgramFault(kernel + ": " + std::to_string(launch.buffers.size()) + " buffers, it takes " +
                       std::to_string(operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    abi::DataType type = typeOf(kernel, *operands[i], launch.scalars, launch.buffers[0].type);
    if (abi::DataType stated = launch.buffers[i].type; stated != type)
      throw ProgramFault(kernel + ": a buffer is said to hold " + abi::nameOf(stated) + ", the kernel's " +
                         abi::nameOf(type));
  }
  if (operands[0]->element.kind == ElementRule::Moved)
    require(kernel, "the width of an element", launch.scalars[operands[0]->element.scalar],
            abi::elementType(launch.buffers[0].type).bytes);
}

static void requireFlag(const std::string &kernel, int64_t value) {
  if (value != 0 && value != 1)
    throw ProgramFault(kernel + ": a flag is " + std::to_string(value) + "; write 0 or 1");
}

static void requireGemm(const std::string &kernel, const GemmScalars &scalars, int64_t grid) {
  abi::DataType operands = statedElement(kernel, scalars.operands), result = statedElement(kernel, scalars.result);
  if (result != operands && result != abi::F32)
    throw ProgramFault(kernel + ": gives " + abi::nameOf(result) + " from " + abi::nameOf(operands) +
                       "; it gives the same, or f32");
  for (int64_t flag : {scalars.transposeA, scalars.transposeB, scalars.accumulate, scalars.splitColumns})
    requireFlag(kernel, flag);
  require(kernel, "the grid", grid, scalars.grid());
}

/// Where row number i of the result begins: rows are numbered through all matrices of a batch.
static int64_t rowOfResult(const GemmScalars &s, int64_t i) { return i / s.m * s.strideC + i % s.m * s.ldc; }

/// Row number i of A B.
template <class Number>
static void multiplyRow(const LibraryLaunchOf<Number> &launch, const GemmScalars &s, int64_t i,
                        std::vector<Number> &row) {
  const BufferOf<Number> &a = launch.buffers[0], &b = launch.buffers[1];
  int64_t aRow = s.transposeA ? 1 : s.lda, aColumn = s.transposeA ? s.lda : 1;
  int64_t bRow = s.transposeB ? 1 : s.ldb, bColumn = s.transposeB ? s.ldb : 1;
  int64_t aAt = i / s.m * s.strideA + i % s.m * aRow, bAt = i / s.m * s.strideB;
  row.assign(s.n, Number(0));
  for (int64_t l = 0; l < s.k; ++l) {
    Number factor = a.at(aAt + l * aColumn);
    b.require(bAt + l * bRow + (s.n - 1) * bColumn + 1);
    for (int64_t j = 0; j < s.n; ++j)
      row[j] += factor * b.data[bAt + l * bRow + j * bColumn];
  }
}

template <class Number> static void gemm(const LibraryLaunchOf<Number> &launch) {
  bool countsRows =
      launch.scalars.size() == countOf<GemmScalars> && !launch.scalars[indexOf(&GemmScalars::splitColumns)];
  auto scalars = scalarsOf<GemmScalars>(launch, /*canBePart=*/countsRows);
  requireGemm(symbolOf<GemmScalars>(), scalars, launch.grid);
  requireTypes<GemmScalars>(launch);
  const BufferOf<Number> &c = launch.buffers[2];
  std::vector<Number> row;
  for (int64_t i = 0; i < launch.part.value_or(scalars.batch * scalars.m); ++i) {
    multiplyRow(launch, scalars, i, row);
    for (int64_t j = 0, at = rowOfResult(scalars, i); j < scalars.n; ++j)
      c.at(at + j) = scalars.accumulate ? row[j] + c.at(at + j) : row[j];
  }
}

/// A product with an epilogue, as runtime/kernels/cuda/products.h says.
static void product(const LibraryLaunch &launch) {
  auto scalars = scalarsOf<ProductScalars>(launch);
  requireGemm("dtc_product", scalars, launch.grid);
  const abi::EpilogueForm *form = abi::findEpilogue(scalars.epilogue);
  if (!form)
    throw ProgramFault("dtc_product: there is no epilogue " + std::to_string(scalars.epilogue));
  require("dtc_product", "the batch", scalars.batch, 1);
  require("dtc_product", "the flag of accumulating", scalars.accumulate, 0);
  require("dtc_product", "the count of buffers", int64_t(launch.buffers.size()),
          int64_t(form->inputs() + form->outputs()));
  requireTypes<ProductScalars>(launch);
  const Buffer &other = launch.buffers[2], &result = launch.buffers[form->inputs()];
  std::vector<double> row;
  for (int64_t i = 0; i < scalars.m; ++i) {
    multiplyRow(launch, scalars, i, row);
    for (int64_t j = 0; j < scalars.n; ++j) {
      int64_t at = rowOfResult(scalars, i) + j;
      double sum = form->readsOperand ? row[j] : row[j] + other.at(form->hasBias ? j : at);
      if (form->storesSum)
        launch.buffers.back().at(at) = sum;
      result.at(at) = form->readsOperand ? sum * mlir::dt::geluTanhDerivative(other.at(at))
                      : form->hasGelu    ? mlir::dt::geluTanh(sum)
                                         : sum;
    }
  }
}

/// Whether a mask by index equals a mask by position: some kernels know only indices.
template <class Number> static bool isMaskedByIndex(const AttentionRowsOf<Number> &rows) {
  bool rises = rows.queries == rows.keys;
  for (int64_t i = 0; i < rows.keys && rises; ++i) {
    double key = valueOf(rows.kPositions[i]);
    rises = valueOf(rows.qPositions[i]) == key && (i == 0 || key > valueOf(rows.kPositions[i - 1]));
  }
  return rises;
}

/// What both directions of attention have in common.
template <class Number>
static AttentionRowsOf<Number> attentionRows(const LibraryLaunchOf<Number> &launch, const AttentionScalars &s) {
  if (s.causal < 0 || s.causal > causalByIndex)
    throw ProgramFault("attention: the flag of causal is " + std::to_string(s.causal) + "; write 0, 1 or 2");
  AttentionRowsOf<Number> rows;
  rows.batch = s.B, rows.queries = s.S, rows.keys = s.T, rows.groups = s.G, rows.repeats = s.R, rows.width = s.E;
  rows.scale = s.scale, rows.causal = s.causal != 0, rows.dropout = s.dropout;
  rows.window = s.window, rows.softcap = s.softcap;
  if (rows.window < 0 || !(rows.softcap >= 0))
    throw ProgramFault("attention: a window of " + std::to_string(rows.window) + " and a soft cap of " +
                       std::to_string(rows.softcap) + "; both are positive, or 0 for none");
  rows.firstSample = s.firstSample, rows.firstGroup = s.firstGroup, rows.firstRepeat = s.firstRepeat;
  rows.allGroups = s.allGroups, rows.allRepeats = s.allRepeats, rows.length = s.length;
  launch.buffers[3].require(rows.queries);
  launch.buffers[4].require(rows.keys);
  launch.buffers[5].require(4);
  rows.qPositions = launch.buffers[3].data, rows.kPositions = launch.buffers[4].data;
  if (s.causal == causalByIndex && !isMaskedByIndex(rows))
    throw ProgramFault(
        "attention: the flag of causal is 2, and positions of queries and keys do not rise as one; write "
        "1");
  requireFlag("attention", s.starts);
  if (s.starts) {
    launch.buffers[6].require(rows.batch * rows.queries);
    rows.starts = launch.buffers[6].data;
  }
  const Number *key = launch.buffers[5].data;
  auto word = [](const Number &value) { return static_cast<uint32_t>(static_cast<int64_t>(valueOf(value))); };
  rows.key2 = valueOf(key[2]);
  rows.stream = rows.dropout > 0 ? random::stream(word(key[0]), word(key[1]), static_cast<uint32_t>(s.site)) : 0;
  return rows;
}

/// A buffer with this many rows for each of [batch, group, repeat].
template <class View, class Number>
static View attentionView(const BufferOf<Number> &buffer, const AttentionRowsOf<Number> &rows, int64_t sequence,
                          const typename AttentionRowsOf<Number>::Strides &strides) {
  buffer.require((rows.batch - 1) * strides[0] + (sequence - 1) * strides[1] + (rows.groups - 1) * strides[2] +
                 (rows.repeats - 1) * strides[3] + rows.width);
  return {buffer.data, strides};
}
template <class View, class Number>
static View attentionView(const BufferOf<Number> &buffer, const AttentionRowsOf<Number> &rows,
                          const QueryStrides &strides) {
  return attentionView<View>(buffer, rows, rows.queries, {strides.b, strides.s, strides.g, strides.r});
}
template <class View, class Number>
static View attentionView(const BufferOf<Number> &buffer, const AttentionRowsOf<Number> &rows,
                          const KeyStrides &strides) {
  return attentionView<View>(buffer, rows, rows.keys, {strides.b, strides.t, strides.g, 0});
}

/// The launch's scalars, which must agree with its buffers and grid.
template <class Scalars, class Launch> static Scalars attentionScalars(const Launch &launch) {
  auto scalars = scalarsOf<Scalars>(launch);
  statedElement(symbolOf<Scalars>(), scalars.element);
  requireTypes<Scalars>(launch);
  return scalars;
}

/// A launch of attention, with views of its buffers.
template <class Scalars, class Number> struct AttentionLaunch {
  using Rows = AttentionRowsOf<Number>;

  const LibraryLaunchOf<Number> &launch;
  Scalars scalars;
  Rows rows;
  int rest; ///< the first buffer after the inputs

  explicit AttentionLaunch(const LibraryLaunchOf<Number> &launch)
      : launch(launch), scalars(attentionScalars<Scalars>(launch)), rows(attentionRows(launch, scalars)),
        rest(scalars.starts ? 7 : 6) {
    require(symbolOf<Scalars>(), "the grid", launch.grid, scalars.grid());
    launch.buffers[rest + 1].require(rows.batch * rows.groups * rows.repeats * rows.queries);
  }

  auto input(int buffer, const auto &strides) const {
    return attentionView<typename Rows::Input>(launch.buffers[buffer], rows, strides);
  }
  auto output(int buffer, const auto &strides) const {
    return attentionView<typename Rows::Output>(launch.buffers[buffer], rows, strides);
  }
  auto *lse() const { return launch.buffers[rest + 1].data; }
};

template <class Number> static void attentionForward(const LibraryLaunchOf<Number> &launch) {
  AttentionLaunch<AttentionScalars, Number> its(launch);
  const auto &s = its.scalars;
  its.rows.forward(its.input(0, s.q), its.input(1, s.k), its.input(2, s.v), its.output(its.rest, s.out), its.lse());
}

template <class Number> static void attentionBackward(const LibraryLaunchOf<Number> &launch) {
  AttentionLaunch<AttentionBackwardScalars, Number> its(launch);
  const auto &s = its.scalars;
  int rest = its.rest;
  its.rows.backward(its.input(0, s.q), its.input(1, s.k), its.input(2, s.v), its.input(rest, s.out), its.lse(),
                    its.input(rest + 2, s.dOut), its.output(rest + 3, s.dQ), its.output(rest + 4, s.dK),
                    its.output(rest + 5, s.dV));
}

template <class Number> static void rotary(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<RotaryScalars>(launch);
  requireTypes<RotaryScalars>(launch);
  require("dtc_rotary", "the grid", launch.grid, s.grid());
  const BufferOf<Number> &x = launch.buffers[0], &positions = launch.buffers[1], &out = launch.buffers[2];
  int64_t width = s.E, pairs = s.pairs;
  if (pairs < 1 || pairs > width / 2)
    throw ProgramFault("dtc_rotary: turns " + std::to_string(pairs) + " pairs of " + std::to_string(width) +
                       " elements");
  double sign = double(s.sign);
  for (int64_t row = 0; row < s.outer * s.S * s.inner; ++row) {
    int64_t inner = row % s.inner, at = row / s.inner % s.S, outer = row / s.inner / s.S;
    int64_t from = outer * s.x.outer + at * s.x.s + inner * s.x.inner;
    int64_t to = outer * s.out.outer + at * s.out.s + inner * s.out.inner;
    for (int64_t i = 0; i < pairs; ++i) {
      double angle = valueOf(positions.at(at)) * abi::rotaryFrequency(s.theta, pairs, s.scaling, i);
      double cosine = s.scaling.amplitude * std::cos(angle), sine = s.scaling.amplitude * sign * std::sin(angle);
      Number first = x.at(from + i), second = x.at(from + i + pairs); // x and out may be one buffer
      out.at(to + i) = first * cosine - second * sine;
      out.at(to + i + pairs) = second * cosine + first * sine;
    }
    for (int64_t i = 2 * pairs; i < width; ++i)
      out.at(to + i) = x.at(from + i);
  }
}

template <class Number> static void gather(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<GatherScalars>(launch, /*canBePart=*/true);
  requireTypes<GatherScalars>(launch);
  const BufferOf<Number> &table = launch.buffers[0], &indices = launch.buffers[1], &out = launch.buffers[2];
  require("dtc_gather", "the table", table.size, s.rows * s.width);
  require("dtc_gather", "the result", out.size, launch.grid * s.width);
  for (int64_t i = 0; i < launch.part.value_or(launch.grid); ++i) {
    double row = valueOf(indices.at(i)) - double(s.first);
    bool inside = row >= 0 && row < double(s.rows);
    for (int64_t j = 0; j < s.width; ++j) // an undefined index gives undefined elements
      out.at(i * s.width + j) = inside ? table.at(int64_t(row) * s.width + j) : Number(std::isnan(row) ? row : 0);
  }
}

template <class Number> static void scatterAdd(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<ScatterAddScalars>(launch);
  requireTypes<ScatterAddScalars>(launch);
  const BufferOf<Number> &updates = launch.buffers[0], &indices = launch.buffers[1], &out = launch.buffers[2];
  require("dtc_scatter_add", "the grid", launch.grid, s.grid());
  require("dtc_scatter_add", "the result", out.size, s.rows * s.width);
  require("dtc_scatter_add", "the count of indices", indices.size, s.count);
  for (int64_t i = 0; i < s.count; ++i) {
    double row = valueOf(indices.at(i)) - double(s.first);
    if (std::isnan(row)) // an undefined index may hit any row
      std::fill_n(out.data, s.rows * s.width, Number(row));
    if (row >= 0 && row < double(s.rows))
      for (int64_t j = 0; j < s.width; ++j)
        out.at(int64_t(row) * s.width + j) += updates.at(i * s.width + j);
  }
}

template <class Number> static void writeRows(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<WriteRowsScalars>(launch);
  requireTypes<WriteRowsScalars>(launch);
  const BufferOf<Number> &rows = launch.buffers[0], &positions = launch.buffers[1], &out = launch.buffers[2];
  int64_t inner = s.inner, width = s.E, capacity = s.T;
  require("dtc_write_rows", "the grid", launch.grid, s.grid());
  require("dtc_write_rows", "the count of positions", positions.size, s.S);
  require("dtc_write_rows", "the result", out.size, s.outer * capacity * inner * width);
  for (int64_t at = 0; at < s.outer * s.S * inner * width; ++at) {
    int64_t e = at % width, i = at / width % inner, row = at / width / inner % s.S, o = at / width / inner / s.S;
    double position = valueOf(positions.at(row));
    if (std::isnan(position)) // an undefined position may be any
      std::fill_n(out.data, out.size, Number(position));
    if (position >= 0 && position < double(capacity))
      out.at(((o * capacity + int64_t(position)) * inner + i) * width + e) =
          rows.at(o * s.strides.outer + row * s.strides.s + i * s.strides.inner + e);
  }
}

template <class Number> static void copy(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<CopyScalars>(launch);
  requireTypes<CopyScalars>(launch);
  require("dtc_copy", "the grid", launch.grid, s.grid());
  constexpr int rank = CopyScalars::rank;
  for (int dim = 0; dim < rank; ++dim)
    if (s.sizes[dim] > 1 && s.outStrides[dim] == 0)
      throw ProgramFault("dtc_copy: writes the same elements for each index of dimension " + std::to_string(dim));
  int64_t total = 1;
  for (int64_t size : s.sizes)
    total *= size;
  // Elements that the source has along the limited dimension, from this copy's start.
  bool limited = s.available != INT64_MAX;
  int64_t available = limited ? s.available - s.begin : 0;
  for (int64_t i = 0; i < total; ++i) {
    int64_t from = s.inOffset, to = s.outOffset, rest = i;
    bool inside = true;
    for (int dim = rank - 1; dim >= 0; --dim) {
      int64_t index = rest % s.sizes[dim];
      rest /= s.sizes[dim];
      from += index * s.inStrides[dim], to += index * s.outStrides[dim];
      inside = inside && !(limited && dim == s.limitedDim && index >= available);
    }
    launch.buffers[1].at(to) = inside ? launch.buffers[0].at(from) : Number(0);
  }
}

template <class Number> static void fill(const LibraryLaunchOf<Number> &launch) {
  auto s = scalarsOf<FillScalars>(launch);
  requireTypes<FillScalars>(launch);
  require("dtc_fill", "the grid", launch.grid, launch.buffers[0].size);
  const auto *bits = reinterpret_cast<const std::byte *>(&s.bits);
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
  // A name means the same in every target's library: "dtc_cuda_gemm" is "dtc_gemm".
  constexpr std::string_view ours = "dtc_", cuda = "dtc_cuda_";
  // The part after a '$' names what the code was specialized for; the meaning is the same.
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
