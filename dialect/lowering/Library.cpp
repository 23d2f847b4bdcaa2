// How operations call library kernels: their scalars are described in runtime/abi/library.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/LibraryScalars.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "runtime/abi/library/all.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc::abi::library;

static SmallVector<AxisRefAttr> axesOfDim(std::optional<ShardingAttr> sharding, int64_t dim) {
  return sharding ? sharding->getDimAxes(dim) : SmallVector<AxisRefAttr>();
}

/// Row-major position of this rank's first element along a dimension of local size `size`.
static LaunchScalar firstIndex(std::optional<ShardingAttr> sharding, int64_t dim, int64_t size) {
  SmallVector<AxisRefAttr> axes = axesOfDim(sharding, dim);
  return axes.empty() ? LaunchScalar::of(int64_t(0)) : LaunchScalar::rankIndex(axes, size);
}

// Contraction: dimensions fall into batch (in all three), M (lhs and result), N (rhs and result), K (lhs and rhs); each
// group must collapse into one dimension of a uniform stride.

namespace {
/// A group of letters seen as one dimension of an operand.
struct Collapsed {
  int64_t size = 1, stride = 0;
};

/// One tensor of a contraction: its letters and its layout.
struct Tensor {
  StringRef letters;
  const StridedLayout &layout;

  /// The letters of `group` as one dimension, in the given order; nothing if their strides do not nest.
  std::optional<Collapsed> collapse(StringRef group) const {
    Collapsed result;
    bool first = true;
    for (char letter : llvm::reverse(group)) {
      size_t dim = letters.find(letter);
      int64_t size = layout.shape[dim], stride = layout.strides[dim];
      if (size == 1)
        continue;
      if (!first && stride != result.stride * result.size)
        return std::nullopt;
      if (first)
        result.stride = stride;
      first = false;
      result.size *= size;
    }
    return result;
  }
};

/// A matrix as the GEMM kernel sees it: leading stride and whether it is stored transposed.
struct Matrix {
  int64_t leading, batchStride;
  bool transposed;
};
} // namespace

/// The matrix rows x columns of one tensor, or nothing when neither has unit stride.
static std::optional<Matrix> matrixOf(const Tensor &tensor, StringRef batch, StringRef rows, StringRef columns) {
  auto b = tensor.collapse(batch), r = tensor.collapse(rows), c = tensor.collapse(columns);
  if (!b || !r || !c)
    return std::nullopt;
  // A dimension of size one may take any stride: pretend it is dense.
  if (c->size == 1 || c->stride == 1)
    return Matrix{r->size == 1 ? c->size : r->stride, b->stride, false};
  if (r->size == 1 || r->stride == 1)
    return Matrix{c->stride, b->stride, true};
  return std::nullopt;
}

static std::string lettersWhere(StringRef order, function_ref<bool(char)> predicate) {
  std::string letters;
  llvm::copy_if(order, std::back_inserter(letters), predicate);
  return letters;
}

static int64_t sizeOf(StringRef letters, const Tensor &tensor) {
  int64_t size = 1;
  for (char letter : letters)
    size *= tensor.layout.shape[tensor.letters.find(letter)];
  return size;
}

/// The call for C[batch, m, n] = A[batch, m, k] B[batch, k, n], but for the element types; nothing when some layout
/// does not collapse. Where `biased` says so, m is none of C's last so many dimensions and n is all of them.
template <class Scalars>
static std::optional<LibraryCallBuilder<Scalars>> gemmCall(const Tensor &a, const Tensor &b, const Tensor &c,
                                                           std::optional<size_t> biased = std::nullopt) {
  auto in = [](const Tensor &tensor) { return [letters = tensor.letters](char l) { return letters.contains(l); }; };
  auto inA = in(a), inB = in(b), inC = in(c);
  std::string batch = lettersWhere(c.letters, [&](char l) { return inA(l) && inB(l); });
  std::string m = lettersWhere(c.letters, [&](char l) { return inA(l) && !inB(l); });
  std::string n = lettersWhere(c.letters, [&](char l) { return inB(l) && !inA(l); });
  std::string k = lettersWhere(a.letters, [&](char l) { return inB(l) && !inC(l); });
  if (biased && n != c.letters.take_back(*biased))
    return std::nullopt;
  std::string batchOfB = batch;
  if (batch.empty() && m.size() > 1 && !(a.collapse(m) && c.collapse(m))) {
    // Rows that lie apart, as those of one position of each row of a batch, are so many products with one B.
    batch = m.substr(0, 1);
    m.erase(0, 1);
  }
  auto matrixC = matrixOf(c, batch, m, n), matrixA = matrixOf(a, batch, m, k), matrixB = matrixOf(b, batchOfB, k, n);
  if (!matrixA || !matrixB || !matrixC || matrixC->transposed)
    return std::nullopt;
  LibraryCallBuilder<Scalars> call;
  int64_t rows = sizeOf(m, a), columns = sizeOf(n, b);
  call.set(&Scalars::batch, sizeOf(batch, c));
  call.set(&Scalars::m, rows);
  call.set(&Scalars::n, columns);
  call.set(&Scalars::k, sizeOf(k, a));
  call.set(&Scalars::transposeA, matrixA->transposed);
  call.set(&Scalars::transposeB, matrixB->transposed);
  call.set(&Scalars::lda, matrixA->leading);
  call.set(&Scalars::ldb, matrixB->leading);
  call.set(&Scalars::ldc, matrixC->leading);
  call.set(&Scalars::strideA, matrixA->batchStride);
  call.set(&Scalars::strideB, matrixB->batchStride);
  call.set(&Scalars::strideC, matrixC->batchStride);
  call.set(&Scalars::accumulate, 0);
  call.set(&Scalars::splitColumns, columns > rows); // threads divide the longer side of the result
  return call;
}

/// The same, with A and B exchanged where that collapses instead. `buffers` are those of A, B and what follows.
template <class Scalars>
static FailureOr<LibraryCall>
eitherGemmCall(const Tensor &lhs, const Tensor &rhs, const Tensor &out, SmallVector<unsigned> buffers,
               function_ref<void(LibraryCallBuilder<Scalars> &)> setRest, std::optional<size_t> biased = std::nullopt) {
  auto call = gemmCall<Scalars>(lhs, rhs, out, biased);
  if (!call) {
    call = gemmCall<Scalars>(rhs, lhs, out, biased);
    std::swap(buffers[0], buffers[1]);
  }
  if (!call)
    return failure();
  setRest(*call);
  // A batch entry is cut no further than this many rows or columns.
  constexpr int64_t most = 64;
  GemmScalars known = call->known();
  return call->finish(std::move(buffers), std::min(known.splitColumns ? known.n : known.m, most));
}

FailureOr<LibraryCall> ContractOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  std::optional<ContractSpec> spec = parseContractSpec(getSpec());
  Tensor lhs{spec->lhs, layouts[0]}, rhs{spec->rhs, layouts[1]}, out{spec->out, layouts[2]};
  auto setRest = [&](LibraryCallBuilder<GemmScalars> &call) {
    call.setElement(&GemmScalars::operands, getLhs().getType());
    call.setElement(&GemmScalars::result, getResult().getType());
  };
  return eitherGemmCall<GemmScalars>(lhs, rhs, out, {0, 1, 2}, setRest);
}

bool ContractOp::acceptsStrided(unsigned) { return true; }

dtc::abi::Epilogue ProductOp::getEpilogue() {
  using dtc::abi::Epilogue;
  if (getAccumulator())
    return Epilogue::Accumulate;
  if (getOperand())
    return Epilogue::GeluGradient;
  return getSum() ? Epilogue::GeluAuxBias : getGelu() ? Epilogue::GeluBias : Epilogue::Bias;
}

/// What is beside the result lies as it does.
FailureOr<LibraryCall> ProductOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  const dtc::abi::EpilogueForm &form = *dtc::abi::findEpilogue(static_cast<int64_t>(getEpilogue()));
  std::optional<ContractSpec> spec = parseContractSpec(getSpec());
  Tensor lhs{spec->lhs, layouts[0]}, rhs{spec->rhs, layouts[1]}, out{spec->out, layouts[form.inputs()]};
  std::optional<size_t> biased = getBias() ? std::optional(getBias().getType().getRank()) : std::nullopt;
  if (!llvm::all_of(layouts.drop_front(2), [](const StridedLayout &layout) { return layout.isDense(); }))
    return failure();
  auto setRest = [&](LibraryCallBuilder<ProductScalars> &call) {
    call.setElement(&ProductScalars::operands, getLhs().getType());
    call.setElement(&ProductScalars::result, getResult().getType());
    call.set(&ProductScalars::epilogue, static_cast<int64_t>(form.epilogue));
  };
  auto buffers = llvm::to_vector(llvm::seq<unsigned>(0, layouts.size()));
  return eitherGemmCall<ProductScalars>(lhs, rhs, out, buffers, setRest, biased);
}

bool ProductOp::acceptsStrided(unsigned index) { return index < 2; }
int ProductOp::getInPlaceOperand(unsigned result) { return result == 0 && getAccumulator() ? 2 : -1; }
bool ProductOp::mustBeAligned(unsigned operand) { return operand >= 2; }

// Copies and constants

using CopyBuilder = LibraryCallBuilder<CopyScalars>;

/// A copy of at most six dimensions, all of them, from the first element to the first. Unit dimensions are put after
/// the second, so that threads divide the two outermost ones.
static FailureOr<CopyBuilder> copyCall(const StridedLayout &from, const StridedLayout &to, ArrayRef<int64_t> shape,
                                       Type type) {
  constexpr size_t rank = CopyScalars::rank;
  if (shape.size() > rank)
    return failure();
  auto padded = [&](ArrayRef<int64_t> values, int64_t filler) {
    SmallVector<int64_t> result(values);
    result.insert(result.begin() + std::min<size_t>(2, result.size()), rank - result.size(), filler);
    return result;
  };
  CopyBuilder call;
  call.setAll(&CopyScalars::sizes, padded(shape, 1));
  call.setAll(&CopyScalars::inStrides, padded(from.strides, 0));
  call.setAll(&CopyScalars::outStrides, padded(to.strides, 0));
  call.set(&CopyScalars::inOffset, 0);
  call.set(&CopyScalars::outOffset, 0);
  call.set(&CopyScalars::available, INT64_MAX);
  call.set(&CopyScalars::limitedDim, 0);
  call.set(&CopyScalars::begin, 0);
  call.set(&CopyScalars::bytes, elementTypeOf(type).bytes);
  return call;
}

/// Position of dimension `dim` among the six of copyCall.
static int64_t paddedDim(int64_t dim, int64_t rank) {
  return dim < std::min<int64_t>(2, rank) ? dim : dim + int64_t(CopyScalars::rank) - rank;
}

FailureOr<LibraryCall> CopyOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  FailureOr<CopyBuilder> call = copyCall(layouts[0], layouts[1], layouts[0].shape, getType());
  if (failed(call))
    return failure();
  return call->finish({0, 1}, /*grain=*/1);
}

bool CopyOp::acceptsStrided(unsigned) { return true; }
int CopyOp::getInPlaceOperand(unsigned) { return 0; } // onto itself, which is nothing to do
bool CopyOp::mustBeInPlace(unsigned) { return false; }

FailureOr<LibraryCall> UpdateSliceOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  FailureOr<CopyBuilder> call = copyCall(layouts[1], layouts[2], layouts[1].shape, getType());
  if (failed(call))
    return failure();
  int64_t offset = 0;
  for (auto [position, stride] : llvm::zip(getOffsets(), layouts[2].strides))
    offset += position * stride;
  call->set(&CopyScalars::outOffset, offset);
  return call->finish({1, 2}, /*grain=*/1);
}

bool UpdateSliceOp::acceptsStrided(unsigned index) { return index == 1; }
int UpdateSliceOp::getInPlaceOperand(unsigned) { return 0; }
bool UpdateSliceOp::mustBeInPlace(unsigned) { return true; }

FailureOr<LibraryCall> ShardSliceOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr mesh) {
  int64_t dim = getDim(), size = layouts[0].shape[dim], part = layouts[1].shape[dim];
  FailureOr<CopyBuilder> call = copyCall(layouts[0], layouts[1], layouts[1].shape, getType());
  if (failed(call))
    return failure();
  auto axes = llvm::map_to_vector(getAxes(), [](Attribute axis) { return cast<AxisRefAttr>(axis); });
  call->set(&CopyScalars::inOffset, LaunchScalar::rankIndex(axes, part * layouts[0].strides[dim]));
  int64_t ranks = 1;
  for (AxisRefAttr axis : axes)
    ranks *= axis.getSizeIn(mesh);
  if (part * ranks != size) { // the last parts end early
    call->set(&CopyScalars::available, size);
    call->set(&CopyScalars::limitedDim, paddedDim(dim, layouts[0].shape.size()));
    call->set(&CopyScalars::begin, LaunchScalar::rankIndex(axes, part));
  }
  return call->finish({0, 1}, /*grain=*/1);
}

bool ShardSliceOp::acceptsStrided(unsigned) { return true; }

FailureOr<LibraryCall> ConstantOp::getLibraryCall(ArrayRef<StridedLayout>, MeshAttr) {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense || !dense.isSplat())
    return failure();
  int64_t bits = isa<FloatType>(dense.getElementType()) ? dense.getSplatValue<APFloat>().bitcastToAPInt().getZExtValue()
                                                        : dense.getSplatValue<APInt>().getZExtValue();
  LibraryCallBuilder<FillScalars> call;
  call.set(&FillScalars::bits, bits);
  call.set(&FillScalars::bytes, elementTypeOf(getType()).bytes);
  return call.finish({0}, getType().getNumElements(), /*grain=*/4096);
}

// Rows of tables

/// The rows of the table that are here, and which of all they are.
template <class Scalars>
static void setTable(LibraryCallBuilder<Scalars> &call, ArrayRef<int64_t> table, std::optional<ShardingAttr> sharding) {
  call.set(&Scalars::rows, table[0]);
  call.set(&Scalars::width, table[1]);
  call.set(&Scalars::first, firstIndex(sharding, 0, table[0]));
}

FailureOr<LibraryCall> GatherOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  LibraryCallBuilder<GatherScalars> call;
  setTable(call, layouts[0].shape, getSharding());
  call.set(&GatherScalars::bytes, elementTypeOf(getType()).bytes);
  return call.finish({0, 1, 2}, getIndices().getType().getNumElements(), /*grain=*/16);
}

FailureOr<LibraryCall> ScatterAddOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  LibraryCallBuilder<ScatterAddScalars> call;
  setTable(call, layouts[0].shape, getSharding());
  call.set(&ScatterAddScalars::count, getIndices().getType().getNumElements());
  return call.finish({2, 1, 3}, /*grain=*/16);
}

bool ScatterAddOp::acceptsStrided(unsigned) { return false; }
int ScatterAddOp::getInPlaceOperand(unsigned) { return 0; }
bool ScatterAddOp::mustBeInPlace(unsigned) { return true; }

// Rotary embedding and rows of caches: [batch, sequence, middle..., head_dim], the middle collapsed.

static std::optional<SmallVector<int64_t>> rowStrides(const StridedLayout &layout) {
  ArrayRef<int64_t> shape = layout.shape, strides = layout.strides;
  int64_t inner = 0, expected = 0;
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 2; dim >= 2; --dim) {
    if (shape[dim] == 1)
      continue;
    if (expected != 0 && strides[dim] != expected)
      return std::nullopt;
    if (expected == 0)
      inner = strides[dim];
    expected = strides[dim] * shape[dim];
  }
  if (strides.back() != 1)
    return std::nullopt;
  return SmallVector<int64_t>{strides[0], strides[1], inner};
}

/// The size of the middle.
static int64_t innerRows(ArrayRef<int64_t> shape) {
  int64_t inner = 1;
  for (int64_t size : shape.drop_front(2).drop_back())
    inner *= size;
  return inner;
}

/// The sizes of [outer, S, inner..., E].
template <class Scalars> static void setRows(LibraryCallBuilder<Scalars> &call, ArrayRef<int64_t> shape) {
  call.set(&Scalars::outer, shape[0]);
  call.set(&Scalars::S, shape[1]);
  call.set(&Scalars::inner, innerRows(shape));
  call.set(&Scalars::E, shape.back());
}

FailureOr<LibraryCall> WriteRowsOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  std::optional<SmallVector<int64_t>> strides = rowStrides(layouts[1]);
  if (!strides)
    return failure();
  LibraryCallBuilder<WriteRowsScalars> call;
  setRows(call, layouts[1].shape);
  call.set(&WriteRowsScalars::T, layouts[0].shape[1]);
  call.setAll(&WriteRowsScalars::strides, *strides);
  call.set(&WriteRowsScalars::bytes, elementTypeOf(getType()).bytes);
  return call.finish({1, 2, 3}, /*grain=*/16);
}

bool WriteRowsOp::acceptsStrided(unsigned index) { return index == 1; }
int WriteRowsOp::getInPlaceOperand(unsigned) { return 0; }
bool WriteRowsOp::mustBeInPlace(unsigned) { return true; }

FailureOr<LibraryCall> RotaryOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  auto in = rowStrides(layouts[0]), out = rowStrides(layouts[2]);
  if (!in || !out)
    return failure();
  LibraryCallBuilder<RotaryScalars> call;
  setRows(call, layouts[0].shape);
  call.set(&RotaryScalars::theta, getTheta().convertToDouble());
  call.set(&RotaryScalars::sign, getInverse() ? -1 : 1);
  call.setAll(&RotaryScalars::x, *in);
  call.setAll(&RotaryScalars::out, *out);
  call.setElement(&RotaryScalars::element, getResult().getType());
  call.set(&RotaryScalars::pairs, countPairs());
  dtc::abi::RotaryScaling scaling = getScalingOrNone();
  call.setAll(&RotaryScalars::scaling,
              ArrayRef({scaling.factor, scaling.perFrequency, scaling.perPair, scaling.constant, scaling.amplitude}));
  return call.finish({0, 1, 2}, /*grain=*/8);
}

bool RotaryOp::acceptsStrided(unsigned index) { return index != 1; }
int RotaryOp::getInPlaceOperand(unsigned) { return 0; }
bool RotaryOp::mustBeInPlace(unsigned) { return false; }

// Attention

/// Whether a row of positions rises by one from each to the next: an index of the whole, from any first one.
static bool risesByOne(Value positions) {
  while (auto barrier = positions.getDefiningOp<BarrierOp>())
    positions = barrier.getOperand();
  if (auto launch = positions.getDefiningOp<LaunchOp>()) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
    positions = kernel.getYield().getOperand(cast<OpResult>(positions).getResultNumber());
  }
  return positions.getDefiningOp<IotaOp>() != nullptr;
}

/// The "causal" scalar: by index where masks by position and masks by index are the same, as they are where queries and
/// keys have one row of positions that rises.
template <typename AttentionLike> static int64_t causalScalar(AttentionLike op) {
  if (!op.getCausal())
    return 0;
  return op.getQPositions() == op.getKPositions() && risesByOne(op.getQPositions()) ? causalByIndex : causalByPosition;
}

/// Without that of the elements of a head.
static ArrayRef<int64_t> stridesOfRows(const StridedLayout &layout) { return ArrayRef(layout.strides).drop_back(); }

/// What attention and its gradient share. Layouts are q, k, v, ..., out.
template <class Scalars, typename AttentionLike>
static FailureOr<LibraryCallBuilder<Scalars>> attentionCall(AttentionLike op, ArrayRef<StridedLayout> layouts,
                                                            unsigned out) {
  ArrayRef<int64_t> q = layouts[0].shape, global = op.getGlobalShape();
  for (unsigned i : {0u, 1u, 2u, out})
    if (layouts[i].strides.back() != 1 && layouts[i].shape.back() != 1)
      return failure();
  LibraryCallBuilder<Scalars> call;
  call.set(&Scalars::B, q[0]);
  call.set(&Scalars::S, q[1]);
  call.set(&Scalars::T, layouts[1].shape[1]);
  call.set(&Scalars::G, q[2]);
  call.set(&Scalars::R, q[3]);
  call.set(&Scalars::E, q[4]);
  call.setAll(&Scalars::q, stridesOfRows(layouts[0]));
  call.setAll(&Scalars::k, stridesOfRows(layouts[1]));
  call.setAll(&Scalars::v, stridesOfRows(layouts[2]));
  call.setAll(&Scalars::out, stridesOfRows(layouts[out]));
  call.set(&Scalars::scale, op.getScale().convertToDouble());
  call.set(&Scalars::causal, causalScalar(op));
  call.set(&Scalars::dropout, op.getDropout().convertToDouble());
  call.set(&Scalars::site, LaunchScalar::site(static_cast<int64_t>(op.getSite())));
  call.set(&Scalars::firstSample, firstIndex(op.getSharding(), 0, q[0]));
  call.set(&Scalars::firstGroup, firstIndex(op.getSharding(), 2, q[2]));
  call.set(&Scalars::firstRepeat, firstIndex(op.getSharding(), 3, q[3]));
  call.set(&Scalars::allGroups, global[1]);
  call.set(&Scalars::allRepeats, global[2]);
  call.set(&Scalars::length, global[3]);
  call.setElement(&Scalars::element, op.getQ().getType());
  call.set(&Scalars::window, op.getWindow().value_or(0));
  call.set(&Scalars::softcap, op.getSoftcapOrNone());
  call.set(&Scalars::starts, op.getStarts() ? 1 : 0);
  return call;
}

FailureOr<LibraryCall> AttentionOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  unsigned inputs = getOperation()->getNumOperands();
  auto call = attentionCall<AttentionScalars>(*this, layouts, /*out=*/inputs);
  if (failed(call))
    return failure();
  return call->finish(llvm::to_vector(llvm::seq<unsigned>(0, inputs + 2)), /*grain=*/1);
}

/// out and lse: the log-sum-exp is dense.
bool AttentionOp::acceptsStrided(unsigned index) { return index <= 2 || index == getOperation()->getNumOperands(); }

FailureOr<LibraryCall> AttentionGradOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  using Scalars = AttentionBackwardScalars;
  unsigned inputs = getOperation()->getNumOperands();
  for (unsigned i : {8u, inputs, inputs + 1, inputs + 2})
    if (layouts[i].strides.back() != 1 && layouts[i].shape.back() != 1)
      return failure();
  auto call = attentionCall<Scalars>(*this, layouts, /*out=*/6);
  if (failed(call))
    return failure();
  call->setAll(&Scalars::dOut, stridesOfRows(layouts[8]));
  call->setAll(&Scalars::dQ, stridesOfRows(layouts[inputs]));
  call->setAll(&Scalars::dK, stridesOfRows(layouts[inputs + 1]));
  call->setAll(&Scalars::dV, stridesOfRows(layouts[inputs + 2]));
  // The starts come last of the operands, and behind the key in the kernel.
  SmallVector<unsigned> buffers = {0, 1, 2, 3, 4, 5};
  if (getStarts())
    buffers.push_back(inputs - 1);
  llvm::append_values(buffers, 6u, 7u, 8u, inputs, inputs + 1, inputs + 2);
  return call->finish(std::move(buffers), /*grain=*/1);
}

bool AttentionGradOp::acceptsStrided(unsigned index) {
  return index <= 2 || index == 6 || index == 8 || index >= getOperation()->getNumOperands();
}
