// How operations call the library kernels of runtime/kernels/cpu/kernels.h: the scalars' order is documented there.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::dt;

static void appendIntegers(LibraryCall &call, ArrayRef<int64_t> values) {
  for (int64_t value : values)
    call.scalars.push_back(LaunchScalar::of(value));
}

/// The "element" scalar of kernels that compute.
static void appendElement(LibraryCall &call, Value value) {
  call.scalars.push_back(LaunchScalar::of(static_cast<int64_t>(elementTypeOf(value.getType()).type)));
  call.toldElement = true;
}

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

/// The call for C[batch, M, N] = A[batch, M, K] B[batch, K, N], or nothing when some layout does not collapse. Where
/// `biased` says so, M is none of C's last so many dimensions and N is all of them.
static std::optional<LibraryCall> gemmCall(const Tensor &a, const Tensor &b, const Tensor &c, bool swapped,
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
  LibraryCall call;
  call.kernel = "gemm";
  call.buffers = swapped ? SmallVector<unsigned>{1, 0, 2} : SmallVector<unsigned>{0, 1, 2};
  call.numInputs = 2;
  int64_t batches = sizeOf(batch, c), rows = sizeOf(m, a), columns = sizeOf(n, b), depth = sizeOf(k, a);
  // Threads divide the longer side of the result.
  int64_t splitColumns = columns > rows;
  appendIntegers(call, {batches, rows, columns, depth, matrixA->transposed, matrixB->transposed, matrixA->leading,
                        matrixB->leading, matrixC->leading, matrixA->batchStride, matrixB->batchStride,
                        matrixC->batchStride, /*accumulate=*/0, splitColumns});
  call.grid = batches * (splitColumns ? columns : rows);
  // A batch entry is cut no further than this many rows or columns.
  call.grain = std::min<int64_t>(splitColumns ? columns : rows, 64);
  return call;
}

FailureOr<LibraryCall> ContractOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  std::optional<ContractSpec> spec = parseContractSpec(getSpec());
  Tensor lhs{spec->lhs, layouts[0]}, rhs{spec->rhs, layouts[1]}, out{spec->out, layouts[2]};
  auto call = gemmCall(lhs, rhs, out, /*swapped=*/false);
  if (!call)
    call = gemmCall(rhs, lhs, out, /*swapped=*/true);
  if (!call)
    return failure();
  appendElement(*call, getLhs());
  appendElement(*call, getResult());
  return *call;
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

/// The scalars of "gemm" and the epilogue's number (runtime/abi/epilogue.h). What is beside the result lies as it does.
FailureOr<LibraryCall> ProductOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  const dtc::abi::EpilogueForm &form = *dtc::abi::findEpilogue(static_cast<int64_t>(getEpilogue()));
  std::optional<ContractSpec> spec = parseContractSpec(getSpec());
  Tensor lhs{spec->lhs, layouts[0]}, rhs{spec->rhs, layouts[1]}, out{spec->out, layouts[form.inputs()]};
  std::optional<size_t> biased = getBias() ? std::optional(getBias().getType().getRank()) : std::nullopt;
  auto call = gemmCall(lhs, rhs, out, /*swapped=*/false, biased);
  if (!call)
    call = gemmCall(rhs, lhs, out, /*swapped=*/true, biased);
  if (!call || !llvm::all_of(layouts.drop_front(2), [](const StridedLayout &layout) { return layout.isDense(); }))
    return failure();
  call->kernel = "product";
  call->buffers.pop_back();
  for (unsigned index = 2; index < layouts.size(); ++index)
    call->buffers.push_back(index);
  call->numInputs = form.inputs();
  appendElement(*call, getLhs());
  appendElement(*call, getResult());
  appendIntegers(*call, static_cast<int64_t>(form.epilogue));
  return *call;
}

bool ProductOp::acceptsStrided(unsigned index) { return index < 2; }
int ProductOp::getInPlaceOperand(unsigned result) { return result == 0 && getAccumulator() ? 2 : -1; }
bool ProductOp::mustBeAligned(unsigned operand) { return operand >= 2; }

// Copies and constants

/// Scalars 0 to 17 of dtc_copy: the sizes and strides of at most six dimensions. Unit dimensions are put after the
/// second, so that threads divide the two outermost ones.
static FailureOr<LibraryCall> copyCall(const StridedLayout &from, const StridedLayout &to, ArrayRef<int64_t> shape,
                                       SmallVector<unsigned> buffers) {
  if (shape.size() > 6)
    return failure();
  auto padded = [&](ArrayRef<int64_t> values, int64_t filler) {
    SmallVector<int64_t> result(values);
    result.insert(result.begin() + std::min<size_t>(2, result.size()), 6 - result.size(), filler);
    return result;
  };
  LibraryCall call{"copy", std::move(buffers), 1, {}, 1, 1, /*movesOnly=*/true};
  SmallVector<int64_t> sizes = padded(shape, 1);
  appendIntegers(call, sizes);
  appendIntegers(call, padded(from.strides, 0));
  appendIntegers(call, padded(to.strides, 0));
  call.grid = sizes[0] * sizes[1];
  return call;
}

/// Position of dimension `dim` among the six of copyCall.
static int64_t paddedDim(int64_t dim, int64_t rank) { return dim < std::min<int64_t>(2, rank) ? dim : dim + 6 - rank; }

FailureOr<LibraryCall> CopyOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  FailureOr<LibraryCall> call = copyCall(layouts[0], layouts[1], layouts[0].shape, {0, 1});
  if (succeeded(call))
    appendIntegers(*call, {0, 0, INT64_MAX, 0, 0, elementTypeOf(getType()).bytes});
  return call;
}

bool CopyOp::acceptsStrided(unsigned) { return true; }
int CopyOp::getInPlaceOperand(unsigned) { return 0; } // onto itself, which is nothing to do
bool CopyOp::mustBeInPlace(unsigned) { return false; }

FailureOr<LibraryCall> UpdateSliceOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  FailureOr<LibraryCall> call = copyCall(layouts[1], layouts[2], layouts[1].shape, {1, 2});
  if (failed(call))
    return failure();
  int64_t offset = 0;
  for (auto [position, stride] : llvm::zip(getOffsets(), layouts[2].strides))
    offset += position * stride;
  appendIntegers(*call, {0, offset, INT64_MAX, 0, 0, elementTypeOf(getType()).bytes});
  return call;
}

bool UpdateSliceOp::acceptsStrided(unsigned index) { return index == 1; }
int UpdateSliceOp::getInPlaceOperand(unsigned) { return 0; }
bool UpdateSliceOp::mustBeInPlace(unsigned) { return true; }

FailureOr<LibraryCall> ShardSliceOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr mesh) {
  int64_t dim = getDim(), size = layouts[0].shape[dim], part = layouts[1].shape[dim];
  FailureOr<LibraryCall> call = copyCall(layouts[0], layouts[1], layouts[1].shape, {0, 1});
  if (failed(call))
    return failure();
  auto axes = llvm::map_to_vector(getAxes(), [](Attribute axis) { return cast<AxisRefAttr>(axis); });
  call->scalars.push_back(LaunchScalar::rankIndex(axes, part * layouts[0].strides[dim]));
  int64_t ranks = 1;
  for (AxisRefAttr axis : axes)
    ranks *= axis.getSizeIn(mesh);
  if (part * ranks == size) { // no part ends early
    appendIntegers(*call, {0, INT64_MAX, 0, 0, elementTypeOf(getType()).bytes});
    return call;
  }
  appendIntegers(*call, {0, size, paddedDim(dim, layouts[0].shape.size())});
  call->scalars.push_back(LaunchScalar::rankIndex(axes, part));
  appendIntegers(*call, elementTypeOf(getType()).bytes);
  return call;
}

bool ShardSliceOp::acceptsStrided(unsigned) { return true; }

FailureOr<LibraryCall> ConstantOp::getLibraryCall(ArrayRef<StridedLayout>, MeshAttr) {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense || !dense.isSplat())
    return failure();
  int64_t bits = isa<FloatType>(dense.getElementType()) ? dense.getSplatValue<APFloat>().bitcastToAPInt().getZExtValue()
                                                        : dense.getSplatValue<APInt>().getZExtValue();
  int64_t width = elementTypeOf(getType()).bytes;
  return LibraryCall{"fill",
                     {0},
                     0,
                     {LaunchScalar::of(bits), LaunchScalar::of(width)},
                     getType().getNumElements(),
                     4096,
                     /*movesOnly=*/true};
}

// Rows of tables

FailureOr<LibraryCall> GatherOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  ArrayRef<int64_t> table = layouts[0].shape;
  LibraryCall call{"gather", {0, 1, 2}, 2, {}, getIndices().getType().getNumElements(), 16, /*movesOnly=*/true};
  appendIntegers(call, {table[0], table[1]});
  call.scalars.push_back(firstIndex(getSharding(), 0, table[0]));
  appendIntegers(call, elementTypeOf(getType()).bytes);
  return call;
}

FailureOr<LibraryCall> ScatterAddOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  ArrayRef<int64_t> table = layouts[0].shape;
  LibraryCall call{"scatter_add", {2, 1, 3}, 2, {}, table[1], 16};
  appendIntegers(call, {table[0], table[1]});
  call.scalars.push_back(firstIndex(getSharding(), 0, table[0]));
  appendIntegers(call, getIndices().getType().getNumElements());
  return call;
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

FailureOr<LibraryCall> WriteRowsOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  std::optional<SmallVector<int64_t>> strides = rowStrides(layouts[1]);
  if (!strides)
    return failure();
  ArrayRef<int64_t> shape = layouts[1].shape;
  LibraryCall call{"write_rows", {1, 2, 3}, 2, {}, shape[0] * shape[1], 16, /*movesOnly=*/true};
  appendIntegers(call, {shape[0], shape[1], innerRows(shape), shape.back(), layouts[0].shape[1]});
  appendIntegers(call, *strides);
  appendIntegers(call, elementTypeOf(getType()).bytes);
  return call;
}

bool WriteRowsOp::acceptsStrided(unsigned index) { return index == 1; }
int WriteRowsOp::getInPlaceOperand(unsigned) { return 0; }
bool WriteRowsOp::mustBeInPlace(unsigned) { return true; }

FailureOr<LibraryCall> RotaryOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  auto in = rowStrides(layouts[0]), out = rowStrides(layouts[2]);
  if (!in || !out)
    return failure();
  ArrayRef<int64_t> shape = layouts[0].shape;
  LibraryCall call{"rotary", {0, 1, 2}, 2, {}, shape[0] * shape[1], 8};
  appendIntegers(call, {shape[0], shape[1], innerRows(shape), shape.back()});
  call.scalars.push_back(LaunchScalar::of(getTheta().convertToDouble()));
  appendIntegers(call, getInverse() ? -1 : 1);
  appendIntegers(call, *in);
  appendIntegers(call, *out);
  appendElement(call, getResult());
  appendIntegers(call, countPairs());
  dtc::abi::RotaryScaling scaling = getScalingOrNone();
  for (double value : {scaling.factor, scaling.perFrequency, scaling.perPair, scaling.constant, scaling.amplitude})
    call.scalars.push_back(LaunchScalar::of(value));
  return call;
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

/// The "causal" scalar: 2 where masks by position and masks by index are the same, as they are where queries and keys
/// have one row of positions that rises.
template <typename AttentionLike> static int64_t causalScalar(AttentionLike op) {
  if (!op.getCausal())
    return 0;
  return op.getQPositions() == op.getKPositions() && risesByOne(op.getQPositions()) ? 2 : 1;
}

/// Scalars 0 to 33, shared by attention and its gradient. Layouts are q, k, v, ..., out.
template <typename AttentionLike>
static FailureOr<LibraryCall> attentionCall(AttentionLike op, StringRef kernel, ArrayRef<StridedLayout> layouts,
                                            unsigned out) {
  ArrayRef<int64_t> q = layouts[0].shape, global = op.getGlobalShape();
  for (unsigned i : {0u, 1u, 2u, out})
    if (layouts[i].strides.back() != 1 && layouts[i].shape.back() != 1)
      return failure();
  LibraryCall call;
  call.kernel = kernel;
  appendIntegers(call, {q[0], q[1], layouts[1].shape[1], q[2], q[3], q[4]});
  for (unsigned i : {0u, 1u, 2u, out})
    appendIntegers(call, ArrayRef(layouts[i].strides).drop_back());
  call.scalars.push_back(LaunchScalar::of(op.getScale().convertToDouble()));
  appendIntegers(call, causalScalar(op));
  call.scalars.push_back(LaunchScalar::of(op.getDropout().convertToDouble()));
  call.scalars.push_back(LaunchScalar::site(static_cast<int64_t>(op.getSite())));
  for (int64_t dim : {0, 2, 3})
    call.scalars.push_back(firstIndex(op.getSharding(), dim, q[dim]));
  appendIntegers(call, global.drop_front());
  appendElement(call, op.getQ());
  appendIntegers(call, op.getWindow().value_or(0));
  call.scalars.push_back(LaunchScalar::of(op.getSoftcapOrNone()));
  appendIntegers(call, op.getStarts() ? 1 : 0);
  return call;
}

FailureOr<LibraryCall> AttentionOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  unsigned inputs = getOperation()->getNumOperands();
  FailureOr<LibraryCall> call = attentionCall(*this, "attention_forward", layouts, /*out=*/inputs);
  if (succeeded(call)) {
    ArrayRef<int64_t> q = layouts[0].shape;
    call->buffers = llvm::to_vector(llvm::seq<unsigned>(0, inputs + 2));
    call->numInputs = inputs;
    call->grid = q[0] * q[2] * q[3];
  }
  return call;
}

/// out and lse: the log-sum-exp is dense.
bool AttentionOp::acceptsStrided(unsigned index) { return index <= 2 || index == getOperation()->getNumOperands(); }

FailureOr<LibraryCall> AttentionGradOp::getLibraryCall(ArrayRef<StridedLayout> layouts, MeshAttr) {
  FailureOr<LibraryCall> call = attentionCall(*this, "attention_backward", layouts, /*out=*/6);
  if (failed(call))
    return failure();
  ArrayRef<int64_t> q = layouts[0].shape;
  // The starts come last of the operands, and behind the key in the kernel.
  unsigned inputs = getOperation()->getNumOperands();
  call->buffers = {0, 1, 2, 3, 4, 5};
  if (getStarts())
    call->buffers.push_back(inputs - 1);
  llvm::append_values(call->buffers, 6u, 7u, 8u, inputs, inputs + 1, inputs + 2);
  call->numInputs = inputs;
  SmallVector<StridedLayout> gradients(layouts.slice(inputs));
  gradients.insert(gradients.begin(), layouts[8]);
  for (const StridedLayout &layout : gradients) {
    if (layout.strides.back() != 1 && layout.shape.back() != 1)
      return failure();
    appendIntegers(*call, ArrayRef(layout.strides).drop_back());
  }
  call->grid = q[0] * q[2];
  return call;
}

bool AttentionGradOp::acceptsStrided(unsigned index) {
  return index <= 2 || index == 6 || index == 8 || index >= getOperation()->getNumOperands();
}

// Collectives: tensors as rows of contiguous elements.

/// Product of the sizes of dimensions [begin, end).
static int64_t span(ArrayRef<int64_t> shape, int64_t begin, int64_t end) {
  int64_t size = 1;
  for (int64_t dim = begin; dim < end; ++dim)
    size *= shape[dim];
  return size;
}

Transfer AllReduceOp::getTransfer() {
  return {Transfer::Kind::AllReduce, 1, 1, getValueType().getNumElements(), false, getKind()};
}

bool AllReduceOp::canBeInPlace() { return true; }

bool AllReduceOp::isLinear() { return reductionOf(getKind()).isLinear; }
bool ReduceScatterOp::isLinear() { return reductionOf(getKind()).isLinear; }

ArrayRef<int32_t> AllReduceOp::getGroupMembers() { return getMembers().value_or(ArrayRef<int32_t>()); }

Transfer AllGatherOp::getTransfer() {
  ArrayRef<int64_t> piece = shapeOf(getOperand());
  int64_t dim = getDim(), rank = piece.size();
  return {Transfer::Kind::AllGather, span(piece, 0, dim), 1, span(piece, dim, rank)};
}

Transfer ReduceScatterOp::getTransfer() {
  ArrayRef<int64_t> piece = getValueType().getShape();
  int64_t dim = getDim(), rank = piece.size();
  return {Transfer::Kind::ReduceScatter, span(piece, 0, dim), 1, span(piece, dim, rank), false, getKind()};
}

Transfer AllToAllOp::getTransfer() {
  ArrayRef<int64_t> whole = shapeOf(getOperand()), piece = getValueType().getShape();
  int64_t split = getSplitDim(), concat = getConcatDim(), rank = whole.size();
  // The split dimension's local size is the result's, the concatenated one's the operand's.
  if (split < concat)
    return {Transfer::Kind::AllToAll, span(whole, 0, split), piece[split] * span(whole, split + 1, concat),
            span(whole, concat, rank), true};
  return {Transfer::Kind::AllToAll, span(whole, 0, concat), whole[concat] * span(whole, concat + 1, split),
          piece[split] * span(whole, split + 1, rank), false};
}
