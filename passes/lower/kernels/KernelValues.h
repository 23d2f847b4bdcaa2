// Code for the values of a kernel, one instance at a time, on demand: scalars once per call or once per row, vectors
// for each group of columns. KernelEmitter.cpp emits the loops around them.
#pragma once

#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <functional>

namespace dtc {

/// Short forms for building the code of kernels.
class CodeBuilder : public mlir::OpBuilder {
public:
  CodeBuilder(mlir::Operation *before, mlir::Location loc) : OpBuilder(before), loc(loc) {}
  CodeBuilder(const mlir::OpBuilder &builder, mlir::Location loc) : OpBuilder(builder), loc(loc) {}

  mlir::Value integer(int64_t value) { return constant(getI64IntegerAttr(value)); }
  mlir::Value constant(mlir::TypedAttr value) { return mlir::arith::ConstantOp::create(*this, loc, value); }
  mlir::Value splatConstant(mlir::Type type, mlir::TypedAttr element);
  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddIOp::create(*this, loc, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return mlir::arith::MulIOp::create(*this, loc, a, b); }
  /// A number, not negative, as an index.
  mlir::Value asIndex(mlir::Value number) {
    return mlir::arith::IndexCastUIOp::create(*this, loc, getIndexType(), number);
  }
  /// base + index elements of this type.
  mlir::Value element(mlir::Type type, mlir::Value base, mlir::Value index);
  /// Accesses an address that is a multiple of `alignment` bytes; 0: of the elements' size.
  mlir::Value load(mlir::Type type, mlir::Value pointer, unsigned alignment = 0);
  void store(mlir::Value value, mlir::Value pointer, unsigned alignment = 0);
  mlir::Value maskedLoad(mlir::VectorType type, mlir::Value pointer, mlir::Value mask);
  void maskedStore(mlir::Value value, mlir::Value pointer, mlir::Value mask);
  mlir::Value splat(mlir::Value scalar, unsigned lanes);
  /// Requests the cache line at an address, which need not be valid.
  void prefetch(mlir::Value pointer, bool toWrite);

  mlir::Location loc;
};

/// One row: its place in the outer dimensions and the values computed once for it.
struct RowContext {
  RowContext(CodeBuilder builder, llvm::ArrayRef<mlir::Value> index) : builder(builder), index(index) {}

  CodeBuilder builder;                  ///< inserts before the sweep being emitted
  llvm::SmallVector<mlir::Value> index; ///< in the outer merged dimensions; null where the row spans them
  llvm::DenseMap<Instance, mlir::Value> values, splats;
  llvm::DenseMap<std::pair<unsigned, Span>, mlir::Value> pointers; ///< of buffers
};

/// A group of neighbouring columns of a row.
struct ColumnContext {
  ColumnContext(RowContext &row, CodeBuilder builder, mlir::Value column, mlir::Value mask, unsigned sweep)
      : row(row), builder(builder), column(column), mask(mask), sweep(sweep) {}

  RowContext &row;
  CodeBuilder builder;
  mlir::Value column; ///< the first lane's column
  mlir::Value mask;   ///< which lanes exist; null: all
  unsigned sweep;
  llvm::DenseMap<Instance, mlir::Value> values;
};

/// The type in which a kernel computes with elements: f32 for 16-bit floating-point types.
mlir::Type computedType(mlir::Type element);

/// 0, stride, 2 stride, ... for the lanes of a vector of i32.
mlir::Value laneNumbers(CodeBuilder &builder, int64_t stride, unsigned lanes);

/// What a kernel is called with, and how a target's code accesses memory.
struct KernelEnvironment {
  llvm::SmallVector<mlir::Value> buffers; ///< addresses of inputs, then outputs
  /// Launch scalar number `index`, a 64-bit integer; called with a builder that inserts where it is needed.
  std::function<mlir::Value(CodeBuilder &builder, unsigned index)> launchScalar;
  unsigned lanes = 1;         ///< of vectors
  bool alignsVectors = false; ///< every vector is at a multiple of its own size
  bool convertsBf16 = false;  ///< the target has the type bf16; otherwise its bits are converted by integer arithmetic
  int64_t vectorsAhead = 0;   ///< how far ahead a stream's lines are requested; 0: processors prefetch by themselves
};

class KernelValues {
public:
  /// `kernelBuilder` inserts where values of the whole call are computed, before every row.
  KernelValues(const KernelPlan &plan, CodeBuilder kernelBuilder, KernelEnvironment environment);

  mlir::Value vector(mlir::Value value, Span span, ColumnContext &context);
  mlir::Value scalar(mlir::Value value, Span span, RowContext &context);

  void storeVector(unsigned output, ColumnContext &context);
  void storeScalar(unsigned output, RowContext &context);

  /// A number, computed in f32, in the form in which the kernel's operations read `value`: rounded where it is stored
  /// or converted to 16 bits, so that they get what memory gets.
  mlir::Value rounded(CodeBuilder &builder, mlir::Value number, mlir::Value value);

  /// Requests the same columns of an input's next row; the input has all dimensions.
  void prefetchNextRow(mlir::Value input, ColumnContext &context);

  /// The vector type in which elements are computed with.
  mlir::VectorType vectorType(mlir::Type element) const {
    return mlir::VectorType::get({lanes}, computedType(element));
  }
  const unsigned lanes;

private:
  unsigned inputBuffer(mlir::Value value) const;
  mlir::Type storedType(mlir::Type element) const;
  mlir::Value fromStored(CodeBuilder &builder, mlir::Value value, mlir::Type element);
  mlir::Value toStored(CodeBuilder &builder, mlir::Value value, mlir::Type element);
  mlir::Type bufferType(unsigned buffer) const;
  unsigned vectorAlignment(mlir::Type element) const;
  unsigned outputBuffer(unsigned output) const { return plan.inputs.size() + output; }
  mlir::Value computeVector(mlir::Value value, Span span, ColumnContext &context);
  mlir::Value computeScalar(mlir::Value value, Span span, RowContext &context);
  mlir::Value rowPointer(unsigned buffer, Span span, RowContext &context);
  void prefetchAhead(mlir::Type type, mlir::Value pointer, ColumnContext &context, bool toWrite);
  mlir::Value loadVector(mlir::Value value, unsigned buffer, Span span, ColumnContext &context);
  const mlir::dt::IndexedCode &onceOf(mlir::dt::IndexedOpInterface op);
  mlir::Value rowNumber(mlir::dt::IndexedOpInterface op, Span span, RowContext &context);
  llvm::SmallVector<int64_t> mergedStrides(mlir::dt::IndexedOpInterface op, Span span) const;

  const KernelPlan &plan;
  CodeBuilder kernel;
  KernelEnvironment environment;
  llvm::DenseMap<mlir::Operation *, unsigned> firstScalar; ///< of each numbered operation
  llvm::DenseMap<Instance, mlir::Value> kernelValues;
  llvm::DenseMap<mlir::Operation *, mlir::dt::IndexedCode> indexed;
  llvm::DenseMap<mlir::Value, mlir::Value> storedForms; ///< for numbers that were widened from 16 bits
};

} // namespace dtc
