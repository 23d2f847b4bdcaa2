#include "passes/lower/cuda/library/GpuScatter.h"
#include "dialect/IR/LibraryScalars.h"
#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/scatter_add.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>
#include <bit>

using namespace mlir;

namespace dtc {
namespace {

constexpr llvm::StringLiteral lowerName = "dtc_cuda_scatter_sort_lower", upperName = "dtc_cuda_scatter_sort_upper",
                              sumsName = "dtc_cuda_scatter_sums";

using Scalars = abi::library::ScatterAddScalars;
using Arguments = LibraryArguments<Scalars>;

/// Of the table, and scratch.
enum Buffer : unsigned { Updates, Indices, Out, Scratch, Buffers };

/// What scratch holds for each index, i32 each: rows and numbers of updates, sorted by lower digits, then by all. The
/// rows of others are the row behind the last.
enum Part : unsigned { LowerRows, LowerNumbers, SortedRows, SortedNumbers, Parts };

constexpr int64_t warps = libraryThreads / GpuShape::warp;
constexpr int64_t keysOfThread = 4, keysOfWarp = keysOfThread * GpuShape::warp; ///< that are looked at at a time
constexpr int64_t bitsOfCount = 8; ///< of a warp's threads, four counts in a word
constexpr int64_t columnsOfThread = 2, columnsOfBlock = columnsOfThread * libraryThreads;
/// Updates that a thread asks for before it adds the first: as many as there are of a row, in steps of these.
constexpr int64_t updatesAtOnce[] = {16, 4, 1};

/// Short forms for what the functions do.
class ScatterCode : public CodeBuilder {
public:
  ScatterCode(const CodeBuilder &builder, const Arguments &arguments) : CodeBuilder(builder), arguments(arguments) {}

  Value word(int64_t value) { return constant(getI32IntegerAttr(int32_t(value))); }
  Value at(Value base, Value index, Type type) { return load(type, element(type, base, index), 4); }
  Value place(Part part, Value index) {
    return element(getI32Type(), arguments[Scratch], add(mul(arguments[&Scalars::count], integer(part)), index));
  }
  Value read(Part part, Value index) { return load(getI32Type(), place(part, index), 4); }
  void write(Value value, Part part, Value index) { store(value, place(part, index), 4); }

  Value compare(arith::CmpIPredicate how, Value a, Value b) { return arith::CmpIOp::create(*this, loc, how, a, b); }
  Value isEqual(Value a, Value b) { return compare(arith::CmpIPredicate::eq, a, b); }
  Value isLess(Value a, Value b) { return compare(arith::CmpIPredicate::ult, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(*this, loc, a, b); }
  Value choose(Value condition, Value a, Value b) { return arith::SelectOp::create(*this, loc, condition, a, b); }
  Value least(Value a, Value b) { return arith::MinUIOp::create(*this, loc, a, b); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(*this, loc, a, b); }
  Value left(Value a, Value by) { return arith::ShLIOp::create(*this, loc, a, by); }
  Value right(Value a, Value by) { return arith::ShRUIOp::create(*this, loc, a, by); }
  Value quotient(Value a, Value b) { return arith::DivUIOp::create(*this, loc, a, b); }
  Value roundedUp(Value a, Value b) { return arith::CeilDivUIOp::create(*this, loc, a, b); }
  Value narrow(Value number) { return arith::TruncIOp::create(*this, loc, getI32Type(), number); }
  Value widen(Value word) { return arith::ExtUIOp::create(*this, loc, getI64Type(), word); }
  Value counted(Value condition) { return arith::ExtUIOp::create(*this, loc, getI32Type(), condition); }

  /// The block's or thread's number.
  template <typename Id> Value number() {
    return arith::IndexCastUIOp::create(*this, loc, getI64Type(), Id::create(*this, loc, gpu::Dimension::x));
  }

  /// from, from + step, ... below `to`, handing on values.
  using Body = llvm::function_ref<SmallVector<Value>(ScatterCode &, Value number, ValueRange)>;
  SmallVector<Value> loop(Value from, Value to, Value step, ValueRange initial, Body body) {
    auto loop = scf::ForOp::create(*this, loc, from, to, step, initial,
                                   [&](OpBuilder &inner, Location loc, Value number, ValueRange before) {
                                     ScatterCode code(CodeBuilder(inner, loc), arguments);
                                     scf::YieldOp::create(code, loc, body(code, number, before));
                                   });
    return SmallVector<Value>(loop.getResults());
  }
  void when(Value condition, llvm::function_ref<void(ScatterCode &)> then) {
    scf::IfOp::create(*this, loc, condition, [&](OpBuilder &inner, Location loc) {
      ScatterCode code(CodeBuilder(inner, loc), arguments);
      then(code);
      scf::YieldOp::create(code, loc);
    });
  }

  /// What the thread holds of a word that lies `distance` threads away.
  Value exchanged(Value word, int64_t distance) {
    return gpu::ShuffleOp::create(*this, loc, word, int32_t(distance), int32_t(GpuShape::warp), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  }
  Value sumOfWarp(Value word) {
    for (int64_t distance = 1; distance < GpuShape::warp; distance *= 2)
      word = add(word, exchanged(word, distance));
    return word;
  }

  const Arguments arguments;
};

/// One of the sorting functions.
class Sort {
public:
  Sort(gpu::GPUFuncOp function, bool isUpper) : function(function), isUpper(isUpper) {}
  void emit();

private:
  /// A row that a thread looks at.
  struct Key {
    Value number, row, digit, exists;
  };
  Key keyAt(ScatterCode &code, Value number);
  Value emitCounts(ScatterCode &code, Value digit);
  void emitOrder(ScatterCode &code, Value digit, Value begin);
  void emitKeys(ScatterCode &code, ArrayRef<Key> keys, ArrayRef<Value> isOwn, Value &begin);

  gpu::GPUFuncOp function;
  const bool isUpper;
  Value lane, warp, shift; ///< shift: bits of the lower digits
  Value first, end, step;  ///< of what the warp looks at, by its threads
  Value counts;            ///< in workgroup memory: what the warps found below the digit, then of it
};

/// Beyond the end as the first, which exists.
Sort::Key Sort::keyAt(ScatterCode &code, Value number) {
  Value exists = code.isLess(number, code.arguments[&Scalars::count]);
  Value safe = code.choose(exists, number, code.integer(0));
  if (isUpper) {
    Value row = code.read(LowerRows, safe);
    return {safe, row, code.right(row, shift), exists};
  }
  Value index = code.at(code.arguments[Indices], safe, code.getI32Type());
  Value wide = arith::ExtSIOp::create(code, code.loc, code.getI64Type(), index);
  // Unsigned, a row before the first is beyond the last.
  Value own = code.subtract(wide, code.arguments[&Scalars::first]);
  Value row = code.narrow(code.least(own, code.arguments[&Scalars::rows]));
  Value mask = code.subtract(code.left(code.word(1), shift), code.word(1));
  return {safe, row, code.both(row, mask), exists};
}

/// Where the rows with this digit begin that this warp finds.
Value Sort::emitCounts(ScatterCode &code, Value digit) {
  Location loc = code.loc;
  SmallVector<Value> found =
      code.loop(first, end, step, {code.word(0), code.word(0)}, [&](ScatterCode &inner, Value number, ValueRange sums) {
        SmallVector<Value> result(sums);
        for (int64_t i = 0; i < keysOfThread; ++i) {
          Key key = keyAt(inner, inner.add(number, inner.integer(i * GpuShape::warp)));
          Value isBelow = inner.both(key.exists, inner.isLess(key.digit, digit));
          Value isOwn = inner.both(key.exists, inner.isEqual(key.digit, digit));
          result = {inner.add(result[0], inner.counted(isBelow)), inner.add(result[1], inner.counted(isOwn))};
        }
        return result;
      });
  auto index = [&](ScatterCode &inner, Value number) {
    return arith::IndexCastUIOp::create(inner, loc, inner.getIndexType(), number).getResult();
  };
  Value below = code.sumOfWarp(found[0]), own = code.sumOfWarp(found[1]);
  code.when(code.isEqual(lane, code.integer(0)), [&](ScatterCode &inner) {
    memref::StoreOp::create(inner, loc, below, counts, index(inner, warp));
    memref::StoreOp::create(inner, loc, own, counts, index(inner, inner.add(warp, inner.integer(warps))));
  });
  gpu::BarrierOp::create(code, loc);
  Value begin = code.word(0);
  for (int64_t i = 0; i < warps; ++i) {
    Value below = memref::LoadOp::create(code, loc, counts, index(code, code.integer(i)));
    Value own = memref::LoadOp::create(code, loc, counts, index(code, code.integer(warps + i)));
    Value isEarlier = code.isLess(code.integer(i), warp);
    begin = code.add(code.add(begin, below), code.choose(isEarlier, own, code.word(0)));
  }
  gpu::BarrierOp::create(code, loc); // before the next digit's
  return begin;
}

/// Writes what of a warp's keys is its own from `begin` on, which becomes where the next begin. The keys that a thread
/// has are a warp's width apart: all first ones come before all second ones.
void Sort::emitKeys(ScatterCode &code, ArrayRef<Key> keys, ArrayRef<Value> isOwn, Value &begin) {
  Value total = code.word(0), before = code.word(0);
  for (int64_t i = 0; i < keysOfThread; ++i)
    total = code.add(total, code.left(code.counted(isOwn[i]), code.word(i * bitsOfCount)));
  for (int64_t distance = 1; distance < GpuShape::warp; distance *= 2) {
    Value other = code.exchanged(total, distance);
    Value isUpperHalf =
        code.compare(arith::CmpIPredicate::ne, code.both(lane, code.integer(distance)), code.integer(0));
    before = code.add(before, code.choose(isUpperHalf, other, code.word(0)));
    total = code.add(total, other);
  }
  auto countOf = [&](Value counts, int64_t i) {
    return code.both(code.right(counts, code.word(i * bitsOfCount)), code.word((1 << bitsOfCount) - 1));
  };
  for (int64_t i = 0; i < keysOfThread; ++i) {
    Value place = code.widen(code.add(begin, countOf(before, i)));
    code.when(isOwn[i], [&](ScatterCode &inner) {
      Value number = isUpper ? inner.read(LowerNumbers, keys[i].number) : inner.narrow(keys[i].number);
      inner.write(keys[i].row, isUpper ? SortedRows : LowerRows, place);
      inner.write(number, isUpper ? SortedNumbers : LowerNumbers, place);
    });
    begin = code.add(begin, countOf(total, i));
  }
}

void Sort::emitOrder(ScatterCode &code, Value digit, Value begin) {
  code.loop(first, end, step, begin, [&](ScatterCode &inner, Value number, ValueRange before) {
    SmallVector<Key> keys;
    SmallVector<Value> isOwn;
    for (int64_t i = 0; i < keysOfThread; ++i) {
      keys.push_back(keyAt(inner, inner.add(number, inner.integer(i * GpuShape::warp))));
      isOwn.push_back(inner.both(keys[i].exists, inner.isEqual(keys[i].digit, digit)));
    }
    Value next = before[0];
    emitKeys(inner, keys, isOwn, next);
    return SmallVector<Value>{next};
  });
}

/// Rows have as many lower digits as upper ones, or one more.
int64_t lowerBits(int64_t rows) { return (std::bit_width(uint64_t(rows)) + 1) / 2; }

void Sort::emit() {
  ScatterCode code(codeOf(function), Arguments(function, Buffers));
  auto space = gpu::AddressSpaceAttr::get(code.getContext(), gpu::AddressSpace::Workgroup);
  auto memory = MemRefType::get({2 * warps}, code.getI32Type(), MemRefLayoutAttrInterface(), space);
  counts = function.addWorkgroupAttribution(memory, code.loc);
  Value thread = code.number<gpu::ThreadIdOp>(), block = code.number<gpu::BlockIdOp>();
  warp = code.quotient(thread, code.integer(GpuShape::warp));
  lane = code.both(thread, code.integer(GpuShape::warp - 1));
  step = code.integer(keysOfWarp);
  // Each warp has what follows on what the one before has, so that it alone knows where its own go.
  Value share = code.mul(code.roundedUp(code.arguments[&Scalars::count], code.integer(keysOfWarp * warps)), step);
  Value begin = code.mul(warp, share);
  first = code.add(begin, lane);
  // All threads of a warp go as far.
  end = code.add(lane, code.add(begin, share));
  Value rows = code.narrow(code.arguments[&Scalars::rows]);
  Value zeros = LLVM::CountLeadingZerosOp::create(code, code.loc, code.getI32Type(), rows, /*is_zero_poison=*/false);
  shift = code.right(code.subtract(code.word(33), zeros), code.word(1)); // lowerBits
  Value digits = isUpper ? code.add(code.right(rows, shift), code.word(1)) : code.left(code.word(1), shift);
  Value allBlocks = code.quotient(code.arguments.threads(), code.integer(libraryThreads));
  code.loop(block, code.widen(digits), allBlocks, {}, [&](ScatterCode &inner, Value number, ValueRange) {
    Value digit = inner.narrow(number);
    emitOrder(inner, digit, emitCounts(inner, digit));
    return SmallVector<Value>();
  });
}

/// One row's columns of a thread, and what has been added up of them.
struct Sums {
  SmallVector<Value> columns, values;
  Value row;
};

/// Adds the updates from position `from` on that belong to the row, `many` at a time, while there are as many: gives
/// the position behind.
Value emitUpdates(ScatterCode &code, Sums &sums, Value from, int64_t many) {
  SmallVector<Value> initial{from};
  llvm::append_range(initial, sums.values);
  SmallVector<Type> types(ValueRange(initial).getTypes());
  auto loop = scf::WhileOp::create(
      code, code.loc, types, initial,
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        ScatterCode inner(CodeBuilder(builder, loc), code.arguments);
        Value last = inner.add(state[0], inner.integer(many - 1));
        Value exists = inner.isLess(last, inner.arguments[&Scalars::count]);
        Value row = inner.read(SortedRows, inner.choose(exists, last, state[0]));
        scf::ConditionOp::create(inner, loc, inner.both(exists, inner.isEqual(row, sums.row)), state);
      },
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        ScatterCode inner(CodeBuilder(builder, loc), code.arguments);
        SmallVector<Value> updates, after(state);
        for (int64_t i = 0; i < many; ++i) {
          Value number = inner.widen(inner.read(SortedNumbers, inner.add(state[0], inner.integer(i))));
          Value begin = inner.mul(number, inner.arguments[&Scalars::width]);
          for (Value column : sums.columns)
            updates.push_back(inner.at(inner.arguments[Updates], inner.add(begin, column), inner.getF32Type()));
        }
        for (auto [i, update] : llvm::enumerate(updates)) {
          Value &sum = after[1 + i % columnsOfThread];
          sum = arith::AddFOp::create(inner, loc, sum, update);
        }
        after[0] = inner.add(state[0], inner.integer(many));
        scf::YieldOp::create(inner, loc, after);
      });
  llvm::copy(loop.getResults().drop_front(), sums.values.begin());
  return loop.getResult(0);
}

/// Columns from `column` on of a row, by the thread to which they fall where its updates begin at `position`. One
/// beyond the end is the first once more, which is not stored again.
void emitRow(ScatterCode &code, Value position, Value column) {
  Value one = code.integer(1), isVeryFirst = code.isEqual(position, code.integer(0));
  Value row = code.read(SortedRows, position);
  Value before = code.read(SortedRows, code.choose(isVeryFirst, position, code.subtract(position, one)));
  Value isOther = code.compare(arith::CmpIPredicate::ne, row, before);
  Value isFirst = arith::OrIOp::create(code, code.loc, isVeryFirst, isOther);
  Value isHere = code.isLess(row, code.narrow(code.arguments[&Scalars::rows]));
  Value isOwn = code.both(code.both(isFirst, isHere), code.isLess(column, code.arguments[&Scalars::width]));
  code.when(isOwn, [&](ScatterCode &inner) {
    Sums sums{{}, {}, row};
    SmallVector<Value> places, exist;
    Value begin = inner.mul(inner.widen(row), inner.arguments[&Scalars::width]);
    for (int64_t i = 0; i < columnsOfThread; ++i) {
      Value own = inner.add(column, inner.integer(i * libraryThreads));
      exist.push_back(inner.isLess(own, inner.arguments[&Scalars::width]));
      sums.columns.push_back(inner.choose(exist[i], own, column));
      places.push_back(inner.element(inner.getF32Type(), inner.arguments[Out], inner.add(begin, sums.columns[i])));
      sums.values.push_back(inner.load(inner.getF32Type(), places[i], 4));
    }
    Value next = position;
    for (int64_t many : updatesAtOnce)
      next = emitUpdates(inner, sums, next, many);
    for (int64_t i = 0; i < columnsOfThread; ++i)
      inner.when(exist[i], [&](ScatterCode &stored) { stored.store(sums.values[i], places[i], 4); });
  });
}

void emitSums(gpu::GPUFuncOp function) {
  CodeBuilder builder = codeOf(function);
  Arguments arguments(function, Buffers);
  ScatterCode code(builder, arguments);
  Value width = code.roundedUp(arguments[&Scalars::width], code.integer(columnsOfBlock)),
        threads = code.integer(libraryThreads);
  Value all = code.mul(code.mul(arguments[&Scalars::count], width), threads);
  forEachInTurn(builder, function, all, [&](CodeBuilder &builder, Value number) {
    ScatterCode inner(builder, arguments);
    Value block = inner.quotient(number, threads), thread = inner.number<gpu::ThreadIdOp>();
    Value position = inner.quotient(block, width), part = inner.subtract(block, inner.mul(position, width));
    emitRow(inner, position, inner.add(inner.mul(part, inner.integer(columnsOfBlock)), thread));
  });
}

} // namespace

LibraryKernel gpuScatterOf(const dt::LibraryCall &call, StringRef prefix) {
  auto scalars = dt::knownScalars<Scalars>(call);
  int64_t rows = scalars.rows, columns = scalars.width, count = scalars.count, bits = lowerBits(rows);
  int64_t width = llvm::divideCeil(columns, columnsOfBlock); // in blocks
  std::string symbol = (prefix + "scatter_add$" + Twine(count) + "x" + Twine(columns) + "_" + Twine(rows)).str();
  return {symbol,
          {{lowerName.str(), libraryBlocks((int64_t(1) << bits) * libraryThreads), libraryThreads},
           {upperName.str(), libraryBlocks(((rows >> bits) + 1) * libraryThreads), libraryThreads},
           {sumsName.str(), libraryBlocks(count * width * libraryThreads), libraryThreads}},
          int64_t(abi::bytesOf(abi::I32, uint64_t(Parts * std::max<int64_t>(count, 1))))};
}

void addGpuScatter(gpu::GPUModuleOp module) {
  Sort(addLibraryFunction(module, lowerName, Buffers, Arguments::count), /*isUpper=*/false).emit();
  Sort(addLibraryFunction(module, upperName, Buffers, Arguments::count), /*isUpper=*/true).emit();
  emitSums(addLibraryFunction(module, sumsName, Buffers, Arguments::count));
}

} // namespace dtc
