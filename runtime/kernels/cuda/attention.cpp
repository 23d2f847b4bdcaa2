#include "runtime/kernels/cuda/attention.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/fused_gradient.h"
#include "runtime/abi/library/attention.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <type_traits>

namespace dtc::cuda {

using namespace cudnn;
using Tensor = OperationGraph::Tensor;

//===----------------------------------------------------------------------===//
// What cuDNN accepts
//===----------------------------------------------------------------------===//

namespace {

using abi::library::AttentionScalars, abi::library::AttentionBackwardScalars;

/// Strides of query heads; nullopt if the heads are not evenly spaced.
std::optional<Sizes> stridesOf(const AttentionScalars &s, const abi::library::QueryStrides &strides) {
  if (s.G > 1 && s.R > 1 && strides.g != s.R * strides.r)
    return std::nullopt;
  return Sizes{strides.b, s.R > 1 ? strides.r : strides.g, strides.s, 1};
}
std::optional<Sizes> stridesOf(const AttentionScalars &, const abi::library::KeyStrides &strides) {
  return Sizes{strides.b, strides.g, strides.t, 1};
}

/// Whether rows and heads begin at multiples of 16 bytes.
bool isAligned(const Sizes &sizes, const Sizes &strides) {
  for (size_t i = 0; i < 3; ++i)
    if (sizes[i] > 1 &&
        (strides[i] <= 0 || abi::bytesOf(abi::BF16, uint64_t(strides[i])) % OperationGraph::Alignment != 0))
      return false;
  return true;
}

} // namespace

static bool isBackwardSymbol(std::string_view symbol) { return symbol.starts_with("dtc_cuda_attention_backward$"); }

std::optional<FusedAttention> FusedAttention::of(bool isBackward, std::span<const int64_t> scalars, std::string &why) {
  using abi::library::countOf, abi::library::load;
  if (scalars.size() != (isBackward ? countOf<AttentionBackwardScalars> : countOf<AttentionScalars>))
    throw Error(ExitCode::BadInput, "the program is inconsistent: attention has 34 scalars, its gradient 48; compile "
                                    "it again");
  auto s = load<AttentionScalars>(scalars.data());
  if (const char *reason = abi::library::whyNotFused(s)) {
    why = reason;
    return std::nullopt;
  }
  FusedAttention result{isBackward,
                        s.causal != 0,
                        s.element == dtc_bf16 ? BFloat16 : Half,
                        {s.B, s.G * s.R, s.S, s.E},
                        {s.B, s.G, s.T, s.E}};
  auto add = [&](const auto &ofBuffer) {
    constexpr bool isQueries = std::is_same_v<std::decay_t<decltype(ofBuffer)>, abi::library::QueryStrides>;
    std::optional<Sizes> strides = stridesOf(s, ofBuffer);
    if (!strides || !isAligned(isQueries ? result.queries : result.keys, *strides))
      return false;
    result.strides.push_back(*strides);
    return true;
  };
  bool fits = add(s.q) && add(s.k) && add(s.v) && add(s.out);
  if (fits && isBackward) {
    auto gradient = load<AttentionBackwardScalars>(scalars.data());
    fits = add(gradient.dOut) && add(gradient.dQ) && add(gradient.dK) && add(gradient.dV);
  }
  if (!fits) {
    why = "heads are not evenly spaced, or rows are not at multiples of 16 bytes";
    return std::nullopt;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

namespace {

Sizes transposed(const Sizes &of) { return {of[0], of[1], of[3], of[2]}; }

/// Builds the pattern that cuDNN recognises, operation by operation.
class Builder {
public:
  Builder(const Library &library, const FusedAttention &attention)
      : attention(attention), result{OperationGraph(library)} {}

  FusedAttentionGraph build() {
    result.buffers.resize(attention.strides.size());
    if (attention.isBackward)
      buildBackward();
    else
      buildForward();
    return std::move(result);
  }

private:
  enum Buffer : size_t { Q, K, V, Out, DOut, DQ, DK, DV };

  Tensor buffer(Buffer which) {
    bool isKeys = which == K || which == V || which == DK || which == DV;
    return remember(which, isKeys ? attention.keys : attention.queries, attention.strides[which]);
  }
  /// The buffer with its rows as columns.
  Tensor transposedBuffer(Buffer which) {
    return remember(which, transposed(attention.keys), transposed(attention.strides[which]));
  }
  Tensor remember(Buffer which, const Sizes &sizes, const Sizes &strides) {
    Tensor tensor = graph.memory(attention.type, sizes, strides);
    result.buffers[which] = tensor.number;
    return tensor;
  }
  Tensor number(int64_t &place) {
    Tensor tensor = graph.number();
    place = tensor.number;
    return tensor;
  }
  /// One number per query.
  Tensor rowsInMemory(int64_t &place) {
    Tensor tensor = graph.memory(Float, rows(), denseStrides(rows()));
    place = tensor.number;
    return tensor;
  }
  Sizes rows() const { return {attention.queries[0], attention.queries[1], attention.queries[2], 1}; }
  Sizes scoreSizes() const {
    return {attention.queries[0], attention.queries[1], attention.queries[2], attention.keys[2]};
  }

  Tensor mask(const Tensor &scores) {
    if (!attention.causal)
      return scores;
    Tensor row = graph.index(scores, 2), column = graph.index(scores, 3);
    return graph.select(graph.greaterOrEqual(row, column), scores, number(result.masked));
  }
  void buildForward();
  void buildBackward();
  /// For keys or values: the sum over query heads of transpose(a) b, where `a` has the sizes of the scores.
  void sumOverQueries(const Tensor &a, const Tensor &b, Buffer to);

  const FusedAttention &attention;
  FusedAttentionGraph result;
  OperationGraph &graph = result.graph;
};

void Builder::buildForward() {
  Tensor q = buffer(Q), k = transposedBuffer(K), v = buffer(V);
  Tensor scores = mask(graph.combine(Multiply, graph.matmul(q, k), number(result.scale)));
  Tensor largest = graph.reduce(ReduceLargest, scores, graph.inside(Float, rows()));
  Tensor weights = graph.map(Exponential, graph.combine(Subtract, scores, largest));
  Tensor sum = graph.reduce(ReduceSum, weights, graph.inside(Float, rows()));
  graph.combine(Add, largest, graph.map(Logarithm, sum), rowsInMemory(result.lse));
  Tensor probabilities = graph.combine(Divide, weights, sum, graph.inside(attention.type, scoreSizes()));
  graph.matmul(probabilities, v, buffer(Out));
}

void Builder::sumOverQueries(const Tensor &a, const Tensor &b, Buffer to) {
  Sizes sizes = transposed(scoreSizes());
  Tensor columns = graph.reshape(a, graph.inside(attention.type, sizes, transposed(denseStrides(scoreSizes()))));
  if (attention.queries[1] == attention.keys[1]) {
    graph.matmul(columns, b, buffer(to));
    return;
  }
  Sizes all = {b.sizes[0], b.sizes[1], sizes[2], b.sizes[3]};
  graph.reduce(ReduceSum, graph.matmul(columns, b, graph.inside(attention.type, all)), buffer(to));
}

void Builder::buildBackward() {
  Tensor q = buffer(Q), k = transposedBuffer(K), v = transposedBuffer(V), out = buffer(Out), dOut = buffer(DOut);
  Tensor products = graph.reduce(ReduceSum, graph.combine(Multiply, dOut, out), graph.inside(Float, rows()));
  // The pattern has dropout's divisor at this point.
  Tensor sums = graph.combine(Multiply, products, number(result.one), rowsInMemory(result.sums));
  Tensor scale = number(result.scale);
  Tensor scores = graph.combine(Multiply, graph.matmul(q, k), scale);
  Tensor probabilities = graph.map(Exponential, mask(graph.combine(Subtract, scores, rowsInMemory(result.lse))));
  sumOverQueries(probabilities, dOut, DV);
  Tensor weighted = graph.combine(Multiply, graph.combine(Subtract, graph.matmul(dOut, v), sums), probabilities);
  Tensor dScores = graph.combine(Multiply, weighted, scale);
  sumOverQueries(dScores, q, DK);
  Tensor keys = graph.reshape(k, graph.inside(attention.type, attention.keys, attention.strides[K]));
  graph.matmul(dScores, keys, buffer(DQ));
}

} // namespace

FusedAttentionGraph makeFusedAttention(const Library &library, const FusedAttention &attention) {
  return Builder(library, attention).build();
}
//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// The buffers of runtime/abi/library/attention.h without starts, forward and backward, in the order of
/// FusedAttention::strides; and lse.
static constexpr size_t forwardBuffers[] = {0, 1, 2, 6}, backwardBuffers[] = {0, 1, 2, 6, 8, 9, 10, 11};
static constexpr size_t lseBuffer = 7;

/// Whether an index into FusedAttention::strides is of a buffer of keys or values.
static bool holdsKeys(size_t number) { return number == 1 || number == 2 || number == 6 || number == 7; }

static std::span<const size_t> buffersOf(bool isBackward) {
  return isBackward ? std::span<const size_t>(backwardBuffers) : forwardBuffers;
}

namespace {

/// A part of a launch: consecutive key heads, with the query heads that share them.
struct Piece {
  FusedAttention attention;
  int64_t batch = 0, group = 0;
};

/// Splits a gradient into pieces that fit into the workspace.
std::vector<Piece> cut(const FusedAttention &whole, uint64_t workspaceBytes) {
  if (!whole.isBackward)
    return {Piece{whole}};
  int64_t batches = whole.keys[0], groups = whole.keys[1], repeats = whole.queries[1] / groups;
  abi::FusedGradient gradient{whole.type == BFloat16 ? abi::BF16 : abi::F16,
                              batches,
                              groups,
                              repeats,
                              whole.queries[2],
                              whole.keys[2],
                              whole.queries[3]};
  // If the workspace is less than what is planned for one head, cuDNN decides whether it is enough.
  abi::FusedGradient piece = gradient.pieceWithin(int64_t(workspaceBytes)).value_or(gradient);
  std::vector<Piece> pieces;
  for (int64_t batch = 0; batch < batches; batch += piece.batches)
    for (int64_t group = 0; group < groups; group += piece.groups) {
      Piece &part = pieces.emplace_back(whole, batch, group);
      part.attention.queries[0] = part.attention.keys[0] = std::min(piece.batches, batches - batch);
      part.attention.keys[1] = std::min(piece.groups, groups - group);
      part.attention.queries[1] = part.attention.keys[1] * repeats;
    }
  return pieces;
}

/// A launch's buffers, advanced to where a piece begins.
std::vector<void *> buffersFrom(const Piece &piece, const FusedAttention &whole, std::span<void *const> buffers) {
  std::vector<void *> result(buffers.begin(), buffers.end());
  auto move = [&](size_t buffer, abi::DataType type, int64_t elements) {
    result[buffer] = static_cast<std::byte *>(result[buffer]) + abi::bytesOf(type, uint64_t(elements));
  };
  int64_t head = piece.group * (whole.queries[1] / whole.keys[1]);
  std::span<const size_t> places = buffersOf(whole.isBackward);
  for (size_t i = 0; i < places.size(); ++i)
    move(places[i], abi::BF16, // or f16, which has the same width
         piece.batch * whole.strides[i][0] + (holdsKeys(i) ? piece.group : head) * whole.strides[i][1]);
  move(lseBuffer, abi::F32, (piece.batch * whole.queries[1] + head) * whole.queries[2]);
  return result;
}

} // namespace

struct Attention::Prepared {
  FusedAttentionGraph numbers; ///< its graph belongs to the plan
  Plan plan;
  bool isBackward;
  uint64_t sumsAt = 0; ///< in the workspace, after the plan's own part
};

Attention::Attention(int architecture, const char *name) : architecture(architecture), library(name) {
  library.check(library.create(&handle), "cuDNN cannot be used");
  notes.push_back("attention may be cuDNN's, " + library.versionText());
}

Attention::~Attention() {
  known.clear();
  library.destroy(handle);
}

bool Attention::isFor(std::string_view symbol) {
  bool isAttention = symbol.starts_with("dtc_cuda_attention_forward$") || isBackwardSymbol(symbol);
  std::string_view kind = isAttention ? symbol.substr(symbol.find('$') + 1) : "";
  auto has = [&](std::string_view what) { return kind.find(what) != kind.npos; };
  return (kind.starts_with("bf16_") || kind.starts_with("f16_")) && !has("_dropout") && !has("_window") &&
         !has("_softcap") && !has("_documents");
}

void Attention::note(const std::string &line) {
  if (noted.insert(line).second)
    notes.push_back(line);
}

Attention::Prepared Attention::prepare(const FusedAttention &attention, uint64_t workspaceBytes) {
  // On other architectures cuDNN has such an algorithm only through engine settings, which its heuristics do not
  // choose.
  if (attention.isBackward && architecture / 10 != 8 && architecture / 10 != 9)
    throw Error("its gradient is known to give equal bits each time on sm_80 to sm_90 alone");
  FusedAttentionGraph numbers = makeFusedAttention(library, attention);
  const Sizes &q = attention.queries;
  uint64_t sumsBytes = attention.isBackward ? abi::bytesOf(abi::F32, uint64_t(q[0] * q[1] * q[2])) : 0;
  if (sumsBytes > workspaceBytes)
    throw Error("there is no workspace for it");
  constexpr uint64_t Multiple = 256;
  Plan plan(library, {handle}, std::move(numbers.graph), (workspaceBytes - sumsBytes) / Multiple * Multiple);
  uint64_t sumsAt = (plan.workspaceBytes() + Multiple - 1) / Multiple * Multiple;
  return {std::move(numbers), std::move(plan), attention.isBackward, sumsAt};
}

void Attention::launch(const Prepared &prepared, const LibraryContext &context, std::span<void *const> buffers,
                       std::span<const int64_t> scalars) const {
  const FusedAttentionGraph &numbers = prepared.numbers;
  auto scale = static_cast<float>(abi::library::load<abi::library::AttentionScalars>(scalars.data()).scale);
  float masked = -std::numeric_limits<float>::infinity(), one = 1;
  std::vector<Plan::Argument> arguments = {{numbers.lse, buffers[lseBuffer]}, {numbers.scale, &scale}};
  std::span<const size_t> places = buffersOf(prepared.isBackward);
  for (size_t i = 0; i < places.size(); ++i)
    arguments.push_back({numbers.buffers[i], buffers[places[i]]});
  if (numbers.masked)
    arguments.push_back({numbers.masked, &masked});
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is the device's
  auto *workspace = reinterpret_cast<std::byte *>(context.workspace);
  if (prepared.isBackward) {
    arguments.push_back({numbers.sums, workspace + prepared.sumsAt});
    arguments.push_back({numbers.one, &one});
  }
  prepared.plan.launch(handle, arguments, workspace);
}

bool Attention::tryLaunch(std::string_view symbol, const LibraryContext &context, std::span<void *const> buffers,
                          std::span<const int64_t> scalars, bool mayPrepare) {
  bool isBackward = isBackwardSymbol(symbol);
  auto refuse = [&](const std::string &why) {
    note(std::string(symbol) + " is the program's own: " + why);
    return false;
  };
  std::string why;
  std::optional<FusedAttention> attention = FusedAttention::of(isBackward, scalars, why);
  if (!attention)
    return refuse(why);
  std::vector<Piece> pieces = cut(*attention, context.workspaceBytes);
  std::vector<std::vector<void *>> buffersOfPieces;
  for (const Piece &piece : pieces) {
    const std::vector<void *> &own = buffersOfPieces.emplace_back(buffersFrom(piece, *attention, buffers));
    auto isAligned = [&](size_t i) { return reinterpret_cast<uintptr_t>(own[i]) % OperationGraph::Alignment == 0; };
    if (!isAligned(lseBuffer) || !std::ranges::all_of(buffersOf(isBackward), isAligned))
      return refuse("a buffer does not begin at a multiple of 16 bytes");
    auto found = known.find(piece.attention);
    if (found == known.end() ? !mayPrepare : !found->second)
      return false;
  }
  try {
    if (std::exchange(stream, context.stream) != context.stream)
      library.check(library.setStream(handle, context.stream), "cuDNN cannot use a stream");
    for (const Piece &piece : pieces)
      if (auto [found, isNew] = known.try_emplace(piece.attention); isNew)
        found->second = std::make_unique<Prepared>(prepare(piece.attention, context.workspaceBytes));
    for (size_t i = 0; i < pieces.size(); ++i)
      launch(*known[pieces[i].attention], context, buffersOfPieces[i], scalars);
    note(std::string(symbol) + " is cuDNN's" +
         (pieces.size() > 1 ? ", in " + std::to_string(pieces.size()) + " pieces" : ""));
    return true;
  } catch (const Error &error) {
    if (!mayPrepare)
      throw; // a stream being captured may already contain a part of it
    for (const Piece &piece : pieces)
      known[piece.attention] = nullptr;
    return refuse(error.what());
  }
}

} // namespace dtc::cuda
