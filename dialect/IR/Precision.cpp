// What operations say about 16 bits, where the interface's defaults do not hold.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"

using namespace mlir::dt;

bool mlir::dt::isNarrowing(Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  return convert && bytesOf(convert.getType()) < bytesOf(convert.getOperand().getType());
}

Precision ContractOp::getPrecision() { return Precision::Narrow; }
bool ContractOp::narrowsResult(unsigned) { return true; }
bool ContractOp::canWidenResults() { return true; }

// Attention reads caches in 16 bits.
Precision WriteRowsOp::getPrecision() { return Precision::Narrow; }
bool WriteRowsOp::narrowsResult(unsigned) { return true; }
bool WriteRowsOp::canWidenResults() { return false; }

bool ReduceOp::canWidenResults() { return reductionOf(getKind()).isLinear; }

// The log-sum-exp shifts exponents: rounded to 16 bits it would scale all of a row's probabilities.
Precision AttentionOp::getPrecision() { return Precision::Narrow; }
bool AttentionOp::narrowsResult(unsigned result) { return result == 0; }
bool AttentionOp::canWidenResults() { return false; }
