// What one kernel can hold, and how it is called.
//
// All tensors of a kernel relate to one iteration domain, the shape of its tensors of highest rank. Each of its values
// spans a subset of the domain's dimensions: a bias [last], a mean [outer...], a scalar []. dt.broadcast adds
// dimensions and dt.reduce removes them; everything else keeps them (see FusibleOpInterface). Neighbouring dimensions
// that every value treats alike are merged before code is generated, so [batch, sequence, embed] with a bias over embed
// runs as a matrix and a purely elementwise kernel as a vector.
//
// What is reduced decides how a kernel runs:
//
//   Flat      the merged domain has one dimension. Its size is a launch scalar, so that one function serves every
//             shape. Without reductions threads divide the elements; with them, one thread does the whole.
//   Rows      reductions, if any, are over the last merged dimension. Threads divide the rows (all other dimensions).
//             A row is swept several times where results of reductions are broadcast back into it (norms, softmax).
//   Columns   reductions are over other dimensions than the last, which is left ([R, C] -> [C]). Threads divide blocks
//             of columns. Only values without the reduced dimensions may follow the reduction and be outputs.
//   Total     reductions are over the last and further dimensions, but a merge is prevented ([R, C] -> [] with
//             operands over R or C alone). Threads divide what is left. Outputs as for Columns.
//
// Every single dt.reduce is one of these. A kernel's reductions must all be over the same dimensions.
//
// The plan of a kernel says which part of the iteration domain each value spans, how dimensions merge, which sweeps
// over the columns are made and what each reduces and stores. A kernel's interface (KernelInterface.h) and the code
// emitters read this plan, so what the interface promises is what is generated.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/analysis/KernelOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <string>

namespace dtc {

/// A set of domain dimensions, bit d for dimension d. A value of rank r that spans r dimensions has them in order.
using Span = uint32_t;

/// A value seen at some dimensions of the domain. A value broadcast in two ways has two instances.
using Instance = std::pair<mlir::Value, Span>;

enum class KernelKind { Flat, Rows, Columns, Total };

/// How often a value is computed: once a call, once a row, or for every column.
enum class Scope { Kernel, Row, Column };

struct KernelPlan {
  KernelKind kind = KernelKind::Flat;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs, outputs;

  llvm::SmallVector<int64_t> domain; ///< shape of the values of highest rank
  llvm::SmallVector<int> mergedDim;  ///< for each domain dimension its merged one, or -1 where the size is 1
  llvm::SmallVector<int64_t> sizes;  ///< of the merged dimensions
  Span reduced = 0;                  ///< merged dimensions that the reductions remove

  llvm::SmallVector<Span> outputSpans;                          ///< domain dimensions of each output
  llvm::SmallVector<mlir::dt::ReductionOpInterface> reductions; ///< those that reduce a merged dimension
  llvm::SmallVector<Span> reductionSpans;                       ///< domain dimensions of their results
  llvm::SmallVector<unsigned> reductionSweep;                   ///< the sweep that computes each
  llvm::SmallVector<unsigned> outputSweep;                      ///< the sweep that stores each output that has columns
  unsigned numSweeps = 0;                                       ///< passes over the columns of a row
  llvm::MapVector<Instance, unsigned> lastLoad; ///< instances of inputs, and the last sweep that loads them

  unsigned rank() const { return sizes.size(); }
  Span fullSpan() const { return (Span(1) << domain.size()) - 1; }
  /// The merged dimensions of a set of domain dimensions.
  Span merge(Span span) const;
  bool hasColumns(Span span) const { return rank() > 0 && merge(span) >> (rank() - 1) & 1; }
  bool isInput(mlir::Value value) const { return llvm::is_contained(inputs, value); }
  bool isReduction(mlir::Operation *op) const {
    return llvm::any_of(reductions, [&](mlir::Operation *reduction) { return reduction == op; });
  }
  Span reductionSpan(mlir::dt::ReductionOpInterface op) const {
    return reductionSpans[llvm::find(reductions, op) - reductions.begin()];
  }
  /// How often an instance is computed.
  Scope scopeOf(mlir::Value value, Span span) const;
  mutable llvm::DenseMap<Instance, Scope> scopes; ///< cache of scopeOf
  /// The output that has held `value` since a sweep before `sweep`, or -1: later sweeps read it back.
  int storedBefore(mlir::Value value, Span span, unsigned sweep) const;
  int64_t columns() const { return sizes.empty() ? 1 : sizes.back(); }
  /// Product of the merged sizes in `span` (a set of merged dimensions).
  int64_t product(Span span) const;
  /// Merged dimensions that are neither reduced nor the columns.
  Span gridSpan() const;
};

/// What an operation's operands must span for its result to span `span`; reductions read the whole domain.
Span operandSpan(mlir::Operation *op, Span span, const KernelPlan &plan);

/// The result's dimension that each dimension of an operand corresponds to; nothing for an operand that is read whole.
std::optional<llvm::SmallVector<int64_t>> operandDims(mlir::Operation *op, unsigned operand);

/// Operands that are tensors over the domain: all but those that are read whole.
llvm::SmallVector<mlir::Value> domainOperands(mlir::Operation *op);

/// Numbers of the dimensions in a set, in order.
llvm::SmallVector<unsigned> dimsOf(Span span);

/// For each dimension of the domain, by how much an operation's number grows along it: 0 outside `span`.
llvm::SmallVector<int64_t> domainStrides(mlir::dt::IndexedOpInterface op, Span span, const KernelPlan &plan);

/// Plans a kernel; when none is possible fails with the reason in `why`.
llvm::FailureOr<KernelPlan> planKernel(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> inputs,
                                       llvm::ArrayRef<mlir::Value> outputs, std::string &why);

/// Whether one kernel can compute `ops` (in an order in which definitions precede uses) and store `outputs`, which are
/// results of theirs. Values defined elsewhere are its inputs. When it cannot, `why` receives the reason.
bool canShareKernel(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs,
                    std::string *why = nullptr);

/// The plan of a kernel's body.
llvm::FailureOr<KernelPlan> planKernel(mlir::dt::KernelOp kernel, std::string &why);
/// The same, with an error of the kernel where there is none.
llvm::FailureOr<KernelPlan> planKernel(mlir::dt::KernelOp kernel);

} // namespace dtc
