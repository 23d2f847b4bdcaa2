#include "passes/lower/cuda/GpuScatter.h"
#include "passes/lower/cuda/GpuLibraryCode.h"
#include "runtime/abi/element_type.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace dtc {
namespace {

constexpr llvm::StringLiteral chainsName = "dtc_cuda_scatter_chains", sumsName = "dtc_cuda_scatter_sums";

/// Buffers, scratch, and the scalars of dtc_scatter_add.
enum Argument : unsigned { Updates, Indices, Out, Links, Rows, Columns, Offset, Count, Grid };
constexpr unsigned buffers = Rows, scalars = Grid - Rows;

/// A link is the number of the next index of a row, or how many there are; negative where one comes before. Of an index
/// of no row here it is negative too.
constexpr int32_t isLater = std::numeric_limits<int32_t>::min(), nextMask = std::numeric_limits<int32_t>::max();

/// Short forms for what the two functions do.
class ScatterCode : public CodeBuilder {
public:
  ScatterCode(const CodeBuilder &builder) : CodeBuilder(builder) {}

  Value word(int32_t value) { return constant(getI32IntegerAttr(value)); }
  Value at(Value base, Value index, Type type) { return load(type, element(type, base, index), 4); }
  Value compare(arith::CmpIPredicate how, Value a, Value b) { return arith::CmpIOp::create(*this, loc, how, a, b); }
  Value isEqual(Value a, Value b) { return compare(arith::CmpIPredicate::eq, a, b); }
  Value isLess(Value a, Value b) { return compare(arith::CmpIPredicate::slt, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(*this, loc, a, b); }
  Value either(Value a, Value b) { return arith::OrIOp::create(*this, loc, a, b); }
  Value choose(Value condition, Value a, Value b) { return arith::SelectOp::create(*this, loc, condition, a, b); }
  Value narrow(Value number) { return arith::TruncIOp::create(*this, loc, getI32Type(), number); }
  Value widen(Value word) { return arith::ExtSIOp::create(*this, loc, getI64Type(), word); }
  /// Of the table's part that is here; not below Rows where the row is elsewhere.
  Value rowOf(Value index, ValueRange arguments) {
    return arith::SubIOp::create(*this, loc, widen(index), arguments[Offset]);
  }
};

/// A thread for each index looks at all of them: those of a warp look at the same one at a time.
void emitLink(CodeBuilder &builder, ValueRange arguments, Value number) {
  ScatterCode code(builder);
  Location loc = code.loc;
  Value own = code.at(arguments[Indices], number, code.getI32Type());
  Value count = arguments[Count], none = arith::ConstantOp::create(code, loc, code.getBoolAttr(false));
  auto loop = scf::ForOp::create(code, loc, code.integer(0), count, code.integer(1), ValueRange{count, none});
  {
    ScatterCode inner(CodeBuilder(OpBuilder::atBlockEnd(loop.getBody()), loc));
    Value other = loop.getInductionVar(), next = loop.getRegionIterArg(0), before = loop.getRegionIterArg(1);
    Value isSame = inner.isEqual(inner.at(arguments[Indices], other, inner.getI32Type()), own);
    Value isNext = inner.both(isSame, inner.both(inner.isLess(number, other), inner.isEqual(next, count)));
    Value isBefore = inner.both(isSame, inner.isLess(other, number));
    scf::YieldOp::create(inner, loc, ValueRange{inner.choose(isNext, other, next), inner.either(before, isBefore)});
  }
  Value isElsewhere = code.compare(arith::CmpIPredicate::uge, code.rowOf(own, arguments), arguments[Rows]);
  Value isNotFirst = code.either(loop.getResult(1), isElsewhere), next = code.narrow(loop.getResult(0));
  Value link = code.choose(isNotFirst, code.either(next, code.word(isLater)), next);
  code.store(link, code.element(code.getI32Type(), arguments[Links], number), 4);
}

/// What a thread adds to its column of a row: the updates along the chain that begins at `first`.
Value emitSum(ScatterCode &code, ValueRange arguments, Value first, Value column, Value before) {
  Location loc = code.loc;
  auto loop = scf::WhileOp::create(
      code, loc, TypeRange{code.getI64Type(), code.getF32Type()}, ValueRange{first, before},
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        Value isThere = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::slt, state[0], arguments[Count]);
        scf::ConditionOp::create(inner, loc, isThere, state);
      },
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        ScatterCode inner(CodeBuilder(builder, loc));
        Value link = inner.at(arguments[Links], state[0], inner.getI32Type());
        Value next = inner.widen(inner.both(link, inner.word(nextMask)));
        Value place = inner.add(inner.mul(state[0], arguments[Columns]), column);
        Value update = inner.at(arguments[Updates], place, inner.getF32Type());
        Value sum = arith::AddFOp::create(inner, loc, state[1], update);
        scf::YieldOp::create(inner, loc, ValueRange{next, sum});
      });
  return loop.getResult(1);
}

/// One column of a row, by the thread to which it falls where the index is its row's first.
void emitColumn(CodeBuilder &builder, ValueRange arguments, Value index, Value column) {
  ScatterCode code(builder);
  Location loc = code.loc;
  Value link = code.at(arguments[Links], index, code.getI32Type());
  Value isFirst = code.compare(arith::CmpIPredicate::sge, link, code.word(0));
  auto work = scf::IfOp::create(code, loc, code.both(isFirst, code.isLess(column, arguments[Columns])));
  ScatterCode inner(CodeBuilder(work.getThenRegion().front().getTerminator(), loc));
  Value row = inner.rowOf(inner.at(arguments[Indices], index, inner.getI32Type()), arguments);
  Value place =
      inner.element(inner.getF32Type(), arguments[Out], inner.add(inner.mul(row, arguments[Columns]), column));
  inner.store(emitSum(inner, arguments, index, column, inner.load(inner.getF32Type(), place, 4)), place, 4);
}

/// How many blocks' width a row is.
Value widthInBlocks(CodeBuilder &code, ValueRange arguments) {
  return arith::CeilDivUIOp::create(code, code.loc, arguments[Columns], code.integer(libraryThreads));
}

} // namespace

LibraryKernel gpuScatterOf(const dt::LibraryCall &call, StringRef prefix) {
  int64_t columns = call.scalars[Columns - Rows].integer, count = call.scalars[Count - Rows].integer;
  int64_t width = llvm::divideCeil(columns, libraryThreads); // in blocks
  std::string symbol = (prefix + "scatter_add$" + Twine(count) + "x" + Twine(columns)).str();
  return {symbol,
          {{chainsName.str(), libraryBlocks(count), libraryThreads},
           {sumsName.str(), libraryBlocks(count * width * libraryThreads), libraryThreads}},
          int64_t(abi::bytesOf(abi::I32, uint64_t(std::max<int64_t>(count, 1))))};
}

void addGpuScatter(gpu::GPUModuleOp module) {
  gpu::GPUFuncOp chains = addLibraryFunction(module, chainsName, buffers, scalars);
  CodeBuilder builder = codeOf(chains);
  forEachInTurn(builder, chains, chains.getArgument(Count),
                [&](CodeBuilder &inner, Value number) { emitLink(inner, chains.getArguments(), number); });
  gpu::GPUFuncOp sums = addLibraryFunction(module, sumsName, buffers, scalars);
  CodeBuilder code = codeOf(sums);
  ValueRange arguments = sums.getArguments();
  Value width = widthInBlocks(code, arguments), threads = code.integer(libraryThreads);
  Value all = code.mul(code.mul(arguments[Count], width), threads);
  forEachInTurn(code, sums, all, [&](CodeBuilder &inner, Value number) {
    Value block = arith::DivUIOp::create(inner, inner.loc, number, threads);
    Value thread = arith::RemUIOp::create(inner, inner.loc, number, threads);
    Value index = arith::DivUIOp::create(inner, inner.loc, block, width);
    Value begin = inner.mul(arith::RemUIOp::create(inner, inner.loc, block, width), threads);
    emitColumn(inner, arguments, index, inner.add(begin, thread));
  });
}

} // namespace dtc
