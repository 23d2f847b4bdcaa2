#include "passes/lower/cuda/library/GpuCopy.h"
#include "dialect/IR/LibraryScalars.h"
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/library/copy.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace dtc {
namespace {

using Scalars = abi::library::CopyScalars;
using Arguments = LibraryArguments<Scalars>;
constexpr unsigned rank = Scalars::rank;

enum Buffer : unsigned { In, Out, Buffers };

/// Two neighbours that lie on both sides as one, unless the source may end between them.
bool isOne(const GpuCopy::Dim &outer, const GpuCopy::Dim &inner) {
  return outer.read == inner.read * inner.size && outer.written == inner.written * inner.size;
}

/// The code of one copy, moving so many elements at a time.
class CopyCode {
public:
  CopyCode(const GpuCopy &copy, gpu::GPUFuncOp function, int64_t atOnce)
      : copy(copy), function(function), arguments(function, Buffers), atOnce(atOnce) {}

  /// Before `builder`'s place, for all threads.
  void emit(CodeBuilder &builder) const {
    int64_t count = 1;
    for (const GpuCopy::Dim &dim : copy.dims)
      count *= dim.size;
    bool isNarrow = count < std::numeric_limits<int32_t>::max();
    forEachInTurn(builder, function, builder.integer(count / atOnce), [&](CodeBuilder &inner, Value number) {
      Type type = isNarrow ? inner.getI32Type() : inner.getI64Type();
      emitMove(inner, isNarrow ? arith::TruncIOp::create(inner, inner.loc, type, number).getResult() : number);
    });
  }

private:
  /// What is moved at a time: one element, or words of 32 bits.
  Type movedType(CodeBuilder &builder) const {
    constexpr int64_t bitsOfWord = 32;
    int64_t bits = 8 * copy.bytes * atOnce;
    if (bits <= bitsOfWord)
      return builder.getIntegerType(unsigned(bits));
    return VectorType::get({bits / bitsOfWord}, builder.getI32Type());
  }

  /// Indices along the dimensions, as numbers of 64 bits.
  SmallVector<Value> indicesOf(CodeBuilder &builder, Value number) const {
    SmallVector<Value> indices(copy.dims.size());
    auto wide = [&](Value value) {
      bool isWide = value.getType() == builder.getI64Type();
      return isWide ? value : arith::ExtUIOp::create(builder, builder.loc, builder.getI64Type(), value).getResult();
    };
    for (size_t dim = copy.dims.size(); dim-- > 0;) {
      bool isInnermost = dim + 1 == copy.dims.size();
      Value size = builder.constant(
          builder.getIntegerAttr(number.getType(), isInnermost ? copy.dims[dim].size / atOnce : copy.dims[dim].size));
      Value index = dim == 0 ? number : arith::RemUIOp::create(builder, builder.loc, number, size).getResult();
      if (dim != 0)
        number = arith::DivUIOp::create(builder, builder.loc, number, size);
      indices[dim] = wide(index);
      if (isInnermost && atOnce > 1)
        indices[dim] = builder.mul(indices[dim], builder.integer(atOnce));
    }
    return indices;
  }

  void emitMove(CodeBuilder &builder, Value number) const {
    Location loc = builder.loc;
    SmallVector<Value> indices = indicesOf(builder, number);
    auto place = [&](Buffer base, int64_t Scalars::*offset, int64_t GpuCopy::Dim::*stride) {
      Value at = arguments[offset];
      for (auto [index, dim] : llvm::zip(indices, copy.dims))
        at = builder.add(at, builder.mul(index, builder.integer(dim.*stride)));
      return builder.element(builder.getIntegerType(unsigned(8 * copy.bytes)), arguments[base], at);
    };
    Value from = place(In, &Scalars::inOffset, &GpuCopy::Dim::read);
    Value to = place(Out, &Scalars::outOffset, &GpuCopy::Dim::written);
    Type type = movedType(builder);
    auto alignment = unsigned(copy.bytes * atOnce);
    if (copy.limited < 0)
      return builder.store(builder.load(type, from, alignment), to, alignment);
    Value left = arith::SubIOp::create(builder, loc, arguments[&Scalars::available], arguments[&Scalars::begin]);
    Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, indices[copy.limited], left);
    auto value = scf::IfOp::create(
        builder, loc, isThere,
        [&](OpBuilder &then, Location loc) {
          scf::YieldOp::create(then, loc, CodeBuilder(then, loc).load(type, from, alignment));
        },
        [&](OpBuilder &other, Location loc) {
          scf::YieldOp::create(other, loc, CodeBuilder(other, loc).constant(other.getZeroAttr(type)));
        });
    builder.store(value.getResult(0), to, alignment);
  }

  const GpuCopy &copy;
  gpu::GPUFuncOp function;
  Arguments arguments;
  int64_t atOnce;
};

/// Whether the copy begins at multiples of what is moved at a time.
Value isAligned(CodeBuilder &builder, const GpuCopy &copy, const Arguments &arguments) {
  auto place = [&](Buffer base, int64_t Scalars::*offset) {
    Value address = LLVM::PtrToIntOp::create(builder, builder.loc, builder.getI64Type(), arguments[base]);
    return builder.add(address, builder.mul(arguments[offset], builder.integer(copy.bytes)));
  };
  Value both =
      arith::OrIOp::create(builder, builder.loc, place(In, &Scalars::inOffset), place(Out, &Scalars::outOffset));
  Value mask = builder.integer(copy.bytes * copy.elementsAtOnce() - 1);
  Value rest = arith::AndIOp::create(builder, builder.loc, both, mask);
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::eq, rest, builder.integer(0));
}

} // namespace

GpuCopy::GpuCopy(ArrayRef<int64_t> sizes, ArrayRef<int64_t> reads, ArrayRef<int64_t> writes, int limitedDim,
                 int64_t bytes)
    : bytes(bytes) {
  for (unsigned dim = 0; dim < rank; ++dim) {
    Dim next{sizes[dim], reads[dim], writes[dim]};
    bool isLimited = limitedDim == int(dim);
    if (next.size == 1 && !isLimited)
      continue;
    bool follows = !dims.empty() && !isLimited && limited != int(dims.size()) - 1;
    if (follows && isOne(dims.back(), next))
      dims.back() = {dims.back().size * next.size, next.read, next.written};
    else
      dims.push_back(next);
    if (isLimited)
      limited = int(dims.size()) - 1;
  }
  if (dims.empty())
    dims.push_back({1, 1, 1});
}

std::optional<GpuCopy> GpuCopy::of(const dt::LibraryCall &call) {
  if (call.kernel != "copy")
    return std::nullopt;
  auto scalars = dt::knownScalars<Scalars>(call);
  bool endsEarly = scalars.available != std::numeric_limits<int64_t>::max();
  return GpuCopy(scalars.sizes, scalars.inStrides, scalars.outStrides, endsEarly ? int(scalars.limitedDim) : -1,
                 scalars.bytes);
}

int64_t GpuCopy::elementsAtOnce() const {
  const Dim &inner = dims.back();
  if (inner.read != 1 || inner.written != 1 || limited == int(dims.size()) - 1)
    return 1;
  for (int64_t count = 16 / bytes; count > 1; count /= 2) {
    auto isWhole = [&](const Dim &dim) { return dim.read % count == 0 && dim.written % count == 0; };
    if (inner.size % count == 0 && llvm::all_of(ArrayRef(dims).drop_back(), isWhole))
      return count;
  }
  return 1;
}

std::string GpuCopy::name() const {
  std::string name = "dtc_cuda_copy$" + std::to_string(bytes);
  for (const Dim &dim : dims)
    name += "_" + std::to_string(dim.size) + "r" + std::to_string(dim.read) + "w" + std::to_string(dim.written);
  return limited < 0 ? name : name + "_e" + std::to_string(limited);
}

LibraryKernel GpuCopy::kernel() const {
  int64_t count = 1;
  for (const Dim &dim : dims)
    count *= dim.size;
  return {name(), {{name(), libraryBlocks(count / elementsAtOnce()), libraryThreads}}};
}

void addGpuCopy(const GpuCopy &copy, gpu::GPUModuleOp module) {
  gpu::GPUFuncOp function = addLibraryFunction(module, copy.name(), Buffers, Arguments::count);
  CodeBuilder builder = codeOf(function);
  int64_t atOnce = copy.elementsAtOnce();
  if (atOnce == 1)
    return CopyCode(copy, function, 1).emit(builder);
  Value aligned = isAligned(builder, copy, Arguments(function, Buffers));
  auto choice = scf::IfOp::create(builder, builder.loc, aligned, /*withElseRegion=*/true);
  CodeBuilder wide(choice.getThenRegion().front().getTerminator(), builder.loc);
  CopyCode(copy, function, atOnce).emit(wide);
  CodeBuilder narrow(choice.getElseRegion().front().getTerminator(), builder.loc);
  CopyCode(copy, function, 1).emit(narrow);
}

} // namespace dtc
