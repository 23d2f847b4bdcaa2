// Reference semantics of attention and its gradient: one query of one head at a time, in the notation of Dao et al.,
// arXiv:2205.14135. P = softmax(scale Q Kᵀ), masked; D is 0 or 1 / (1 - dropout) for each pair; O = (P ∘ D) V.
#include "dialect/IR/Ops.h"
#include "dialect/reference/AttentionRows.h"
#include "dialect/reference/Random.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

using Operands = ArrayRef<HostTensor>;
using Results = SmallVectorImpl<HostTensor>;

/// The view of dense operands that an operation and its sharding describe.
template <typename Op> static AttentionRows describe(Op op, Operands operands, const RankContext &rank) {
  const HostTensor &q = operands[0], &k = operands[1];
  AttentionRows rows;
  rows.batch = q.shape[0], rows.queries = q.shape[1], rows.groups = q.shape[2], rows.repeats = q.shape[3];
  rows.width = q.shape[4], rows.keys = k.shape[1];
  auto first = [&](int64_t dim) {
    return op.getSharding() ? rank.indexIn(op.getSharding()->getDimAxes(dim)) * q.shape[dim] : 0;
  };
  rows.firstSample = first(0), rows.firstGroup = first(2), rows.firstRepeat = first(3);
  ArrayRef<int64_t> global = op.getGlobalShape(); // [B, G, R, L]
  rows.allGroups = global[1], rows.allRepeats = global[2], rows.length = global[3];
  rows.scale = op.getScale().convertToDouble(), rows.dropout = op.getDropout().convertToDouble();
  rows.causal = op.getCausal();
  rows.window = op.getWindow().value_or(0), rows.softcap = op.getSoftcapOrNone();
  rows.qPositions = operands[3].elements->data(), rows.kPositions = operands[4].elements->data();
  if (op.getStarts())
    rows.starts = operands[op.getStartsMutable().begin()->getOperandNumber()].elements->data();
  rows.key2 = keyWord(operands[5], 2);
  rows.stream = rows.dropout > 0 ? randomStream(operands[5], op.getSite()) : 0;
  return rows;
}

static AttentionRows::Strides queryStrides(const HostTensor &q) {
  int64_t e = q.shape[4], r = q.shape[3] * e, g = q.shape[2] * r;
  return {g * q.shape[1], g, r, e};
}

static AttentionRows::Strides keyStrides(const HostTensor &k) {
  int64_t e = k.shape[3], g = k.shape[2] * e;
  return {g * k.shape[1], g, e, 0};
}

LogicalResult AttentionOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  AttentionRows rows = describe(*this, operands, rank);
  HostTensor out(operands[0].shape), lse({rows.batch, rows.groups, rows.repeats, rows.queries});
  auto read = [&](int index) { return operands[index].elements->data(); };
  AttentionRows::Strides qs = queryStrides(operands[0]), ks = keyStrides(operands[1]);
  rows.forward({read(0), qs}, {read(1), ks}, {read(2), ks}, {out.elements->data(), qs}, lse.elements->data());
  results.append({out, lse});
  return success();
}

LogicalResult AttentionGradOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  AttentionRows rows = describe(*this, operands, rank);
  HostTensor dq(operands[0].shape), dk(operands[1].shape), dv(operands[2].shape);
  auto read = [&](int index) { return operands[index].elements->data(); };
  AttentionRows::Strides qs = queryStrides(operands[0]), ks = keyStrides(operands[1]);
  rows.backward({read(0), qs}, {read(1), ks}, {read(2), ks}, {read(6), qs}, read(7), {read(8), qs},
                {dq.elements->data(), qs}, {dk.elements->data(), ks}, {dv.elements->data(), ks});
  results.append({dq, dk, dv});
  return success();
}
