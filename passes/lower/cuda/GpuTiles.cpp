// Products of tiles.
#include "passes/lower/cuda/GpuTiles.h"
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

static gpu::GPUFuncOp makeFunction(StringRef name, unsigned pointers, unsigned integers, gpu::GPUModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types(pointers, LLVM::LLVMPointerType::get(builder.getContext()));
  types.append(integers, builder.getI64Type());
  Location loc = module.getLoc();
  auto function = gpu::GPUFuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({static_cast<int32_t>(GpuTiles::threads), 1, 1}));
  builder.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(builder, loc);
  return function;
}

GpuTiles::GpuTiles(StringRef name, unsigned pointers, unsigned integers, int64_t width, Type element,
                   gpu::GPUModuleOp module)
    : GpuTiles(makeFunction(name, pointers, integers, module), width, element) {}

GpuTiles::GpuTiles(gpu::GPUFuncOp function, int64_t width, Type element)
    : CodeBuilder(function.getBody().front().getTerminator(), function.getLoc()), width(width),
      chunks((width + size - 1) / size), element(element), function(function) {
  auto number = [&](Operation *id) {
    return arith::IndexCastUIOp::create(*this, loc, getI64Type(), id->getResult(0)).getResult();
  };
  thread = number(gpu::ThreadIdOp::create(*this, loc, gpu::Dimension::x));
  block = number(gpu::BlockIdOp::create(*this, loc, gpu::Dimension::x));
  x = rest(thread, integer(side));
  y = quotient(thread, integer(side));
}

/// Made when first asked for: functions without products need none.
void GpuTiles::needTiles() {
  if (left)
    return;
  auto space = gpu::AddressSpaceAttr::get(getContext(), gpu::AddressSpace::Workgroup);
  Type four = VectorType::get({each}, getF32Type());
  auto type = MemRefType::get({size * stride}, four, MemRefLayoutAttrInterface(), space);
  function->setAttr(blocksAtOnce, getI32IntegerAttr(1));
  left = function.addWorkgroupAttribution(type, loc);
  right = function.addWorkgroupAttribution(type, loc);
}

// Numbers

static bool isReal(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

Value GpuTiles::plus(Value a, Value b) {
  return isReal(a) ? arith::AddFOp::create(*this, loc, a, b).getResult() : add(a, b);
}

Value GpuTiles::minus(Value a, Value b) {
  return isReal(a) ? arith::SubFOp::create(*this, loc, a, b).getResult()
                   : arith::SubIOp::create(*this, loc, a, b).getResult();
}

Value GpuTiles::times(Value a, Value b) {
  return isReal(a) ? arith::MulFOp::create(*this, loc, a, b).getResult() : mul(a, b);
}

Value GpuTiles::fma(Value a, Value b, Value c) { return math::FmaOp::create(*this, loc, a, b, c); }

Value GpuTiles::exponential(Value a) { return math::ExpOp::create(*this, loc, a); }

Value GpuTiles::less(Value a, Value b) {
  return isReal(a) ? arith::CmpFOp::create(*this, loc, arith::CmpFPredicate::OLT, a, b).getResult()
                   : arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::slt, a, b).getResult();
}

Value GpuTiles::equal(Value a, Value b) {
  return isReal(a) ? arith::CmpFOp::create(*this, loc, arith::CmpFPredicate::OEQ, a, b).getResult()
                   : arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::eq, a, b).getResult();
}

Value GpuTiles::both(Value a, Value b) { return arith::AndIOp::create(*this, loc, a, b); }

Value GpuTiles::choose(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, loc, condition, a, b);
}

Value GpuTiles::quotient(Value a, Value b) { return arith::DivUIOp::create(*this, loc, a, b); }

Value GpuTiles::rest(Value a, Value b) { return arith::RemUIOp::create(*this, loc, a, b); }

Value GpuTiles::lane(Value vector, int64_t number) { return vector::ExtractOp::create(*this, loc, vector, number); }

Value GpuTiles::join(ArrayRef<Value> lanes) {
  auto type = VectorType::get({static_cast<int64_t>(lanes.size())}, lanes.front().getType());
  return vector::FromElementsOp::create(*this, loc, type, lanes);
}

// Threads

Value GpuTiles::acrossThreads(Value value, int64_t count, Combine combine) {
  constexpr int32_t warp = 32;
  for (int64_t distance = count / 2; distance > 0; distance /= 2) {
    auto other = gpu::ShuffleOp::create(*this, loc, value, static_cast<int32_t>(distance), warp, gpu::ShuffleMode::XOR);
    value = combine(value, other.getShuffleResult());
  }
  return value;
}

void GpuTiles::barrier() { gpu::BarrierOp::create(*this, loc); }

// Control

GpuTiles::Values GpuTiles::loop(Value from, Value to, ValueRange initial,
                                llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(*this, loc, from, to, integer(1), initial);
  InsertionGuard guard(*this);
  if (initial.empty())
    loop.getBody()->getTerminator()->erase();
  setInsertionPointToEnd(loop.getBody());
  Values results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(*this, loc, results);
  return Values(loop.getResults());
}

void GpuTiles::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(*this, loc, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

GpuTiles::Values GpuTiles::whenElse(Value condition, llvm::function_ref<Values()> then,
                                    llvm::function_ref<Values()> otherwise) {
  auto region = [&](llvm::function_ref<Values()> body) {
    return [this, body](OpBuilder &inner, Location) {
      InsertionGuard guard(*this);
      setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
      Values results = body();
      scf::YieldOp::create(*this, loc, results);
    };
  };
  return Values(scf::IfOp::create(*this, loc, condition, region(then), region(otherwise)).getResults());
}

// Buffers

GpuRows GpuTiles::rows(Value data, Value stride, Value count) {
  Value bytesOfRow = mul(stride, integer(bytes()));
  Value address = LLVM::PtrToIntOp::create(*this, loc, getI64Type(), data);
  Value bits = arith::OrIOp::create(*this, loc, address, bytesOfRow);
  return {data, stride, count, equal(rest(bits, integer(each * bytes())), integer(0))};
}

Value GpuTiles::widened(Value value) {
  if (element.isF32())
    return value;
  Type wide = getF32Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    wide = vector.clone(wide);
  return arith::ExtFOp::create(*this, loc, wide, value);
}

Value GpuTiles::narrowed(Value value) {
  if (element.isF32())
    return value;
  Type narrow = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    narrow = vector.clone(narrow);
  return arith::TruncFOp::create(*this, loc, narrow, value);
}

Value GpuTiles::loadElement(Value data, Value index) {
  return widened(load(element, CodeBuilder::element(element, data, index)));
}

void GpuTiles::storeElement(Value value, Value data, Value index) {
  store(narrowed(value), CodeBuilder::element(element, data, index));
}

/// Four elements of a row that exists, from column 4x of a chunk on; those that there are not, zeros.
Value GpuTiles::loadFour(const GpuRows &rows, Value row, int64_t chunk, bool aligned) {
  Value column = add(mul(x, integer(each)), integer(chunk * size)), begin = mul(row, rows.stride);
  if (aligned) {
    // Instead of those beyond the end the first ones are read.
    Value exists = less(column, integer(width));
    Value at = add(begin, choose(exists, column, integer(0)));
    auto type = VectorType::get({each}, element);
    Value four = widened(load(type, CodeBuilder::element(element, rows.data, at), each * bytes()));
    return columnsOf(chunk) == size ? four : choose(exists, four, splat4(real(0)));
  }
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < each; ++i) {
    Value at = add(column, integer(i)), exists = less(at, integer(width));
    Value one = loadElement(rows.data, add(begin, choose(exists, at, integer(0))));
    lanes.push_back(choose(exists, one, real(0)));
  }
  return join(lanes);
}

void GpuTiles::storeSums(ArrayRef<Value> sums, const GpuRows &matrix, Value first) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t i = 0; i < each; ++i) {
      Value row = add(first, add(mul(y, integer(each)), integer(i))), value = sums[chunk * each + i];
      Value column = add(mul(x, integer(each)), integer(chunk * size));
      Value at = add(mul(row, matrix.stride), column);
      auto storeSingles = [&] {
        for (int64_t j = 0; j < each; ++j)
          when(less(add(column, integer(j)), integer(width)),
               [&] { storeElement(lane(value, j), matrix.data, add(at, integer(j))); });
        return Values();
      };
      auto storeFour = [&] {
        store(narrowed(value), CodeBuilder::element(element, matrix.data, at), each * bytes());
        return Values();
      };
      when(both(less(row, matrix.count), less(column, integer(width))), [&] {
        if (width % each)
          storeSingles();
        else
          whenElse(matrix.aligned, storeFour, storeSingles);
      });
    }
}

// Tiles

static Value asIndex(CodeBuilder &builder, Value number) {
  return arith::IndexCastUIOp::create(builder, builder.loc, builder.getIndexType(), number);
}

Value GpuTiles::fromTile(Value memory, Value row, Value column) {
  return memref::LoadOp::create(*this, loc, memory, asIndex(*this, add(mul(row, integer(stride)), column)));
}

void GpuTiles::toTile(Value value, Value memory, Value row, Value column) {
  memref::StoreOp::create(*this, loc, value, memory, asIndex(*this, add(mul(row, integer(stride)), column)));
}

/// Rows [first, first + 64), 64 columns. `spread`: row 4i + j is stored as row 16j + i, so that threads which have the
/// rows of neighbouring i at the same time meet different banks.
void GpuTiles::loadTile(Value memory, const GpuRows &rows, Value first, int64_t chunk, bool spread) {
  auto readAll = [&](bool aligned) {
    Values fours;
    for (int64_t i = 0; i < each; ++i) {
      Value row = add(first, add(y, integer(i * side)));
      // Instead of rows beyond the end the last one is read.
      Value exists = less(row, rows.count);
      Value four = loadFour(rows, choose(exists, row, minus(rows.count, integer(1))), chunk, aligned);
      fours.push_back(choose(exists, four, splat4(real(0))));
    }
    return fours;
  };
  Values fours = width % each ? readAll(false)
                              : whenElse(rows.aligned, [&] { return readAll(true); }, [&] { return readAll(false); });
  for (int64_t i = 0; i < each; ++i) {
    Value row = add(y, integer(i * side));
    if (spread)
      row = add(mul(rest(row, integer(each)), integer(side)), quotient(row, integer(each)));
    toTile(fours[i], memory, row, x);
  }
}

/// patch += the product of the tiles, of a chunk's columns.
void GpuTiles::addTile(GpuPatch &patch, int64_t chunk) {
  Values sums;
  for (auto &row : patch)
    sums.append(row.begin(), row.end());
  int64_t fours = (columnsOf(chunk) + each - 1) / each;
  sums = loop(integer(0), integer(fours), sums, [&](Value four, ValueRange before) {
    Values after(before), a, b;
    for (int64_t i = 0; i < each; ++i) {
      a.push_back(fromTile(left, add(mul(y, integer(each)), integer(i)), four));
      b.push_back(fromTile(right, add(x, integer(i * side)), four));
    }
    for (int64_t k = 0; k < each; ++k)
      for (int64_t i = 0; i < each; ++i)
        for (int64_t j = 0; j < each; ++j)
          after[i * each + j] = fma(lane(a[i], k), lane(b[j], k), after[i * each + j]);
    return after;
  });
  for (int64_t i = 0; i < each; ++i)
    std::copy_n(sums.begin() + i * each, each, patch[i].begin());
}

GpuPatch GpuTiles::products(const GpuRows &a, Value firstA, const GpuRows &b, Value firstB) {
  needTiles();
  GpuPatch patch;
  for (auto &row : patch)
    row.fill(real(0));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    barrier();
    loadTile(left, a, firstA, chunk, /*spread=*/false);
    loadTile(right, b, firstB, chunk, /*spread=*/true);
    barrier();
    addTile(patch, chunk);
  }
  return patch;
}

void GpuTiles::storeWeights(const GpuPatch &weights) {
  barrier();
  for (int64_t i = 0; i < each; ++i)
    toTile(join(weights[i]), left, add(mul(y, integer(each)), integer(i)), x);
}

GpuTiles::Values GpuTiles::noSums() { return Values(chunks * each, splat4(real(0))); }

void GpuTiles::addProduct(MutableArrayRef<Value> sums, const GpuRows &matrix, Value first) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    // What was there before has been read: storeWeights began with a barrier.
    if (chunk > 0)
      barrier();
    loadTile(right, matrix, first, chunk, /*spread=*/false);
    barrier();
    MutableArrayRef<Value> part = sums.slice(chunk * each, each);
    Values after = loop(integer(0), integer(side), ValueRange(part), [&](Value four, ValueRange before) {
      Values sums(before), weights, rows;
      for (int64_t i = 0; i < each; ++i) {
        weights.push_back(fromTile(left, add(mul(y, integer(each)), integer(i)), four));
        rows.push_back(fromTile(right, add(mul(four, integer(each)), integer(i)), x));
      }
      for (int64_t k = 0; k < each; ++k)
        for (int64_t i = 0; i < each; ++i)
          sums[i] = fma(splat4(lane(weights[i], k)), rows[k], sums[i]);
      return sums;
    });
    llvm::copy(after, part.begin());
  }
}
