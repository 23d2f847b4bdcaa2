// Reference semantics of norms, cross-entropy, dropout and rotary embedding. Attributes that decompositions and kernels
// hold in f32 (epsilon, rates) take part as f32 values, so that every form of a module means the same numbers.
#include "dialect/IR/Ops.h"
#include "dialect/reference/Random.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

using Operands = ArrayRef<HostTensor>;
using Results = SmallVectorImpl<HostTensor>;

static double asF32(const APFloat &value) { return double(float(value.convertToDouble())); }

static ArrayRef<int64_t> withoutLast(const HostTensor &tensor) { return ArrayRef(tensor.shape).drop_back(); }

LogicalResult LayerNormOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &x = operands[0], &scale = operands[1], &bias = operands[2];
  int64_t width = x.shape.back(), rows = x.size() / width;
  HostTensor y(x.shape), means(withoutLast(x)), rstds(withoutLast(x));
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i)
      mean += x[row * width + i] / double(width);
    for (int64_t i = 0; i < width; ++i)
      variance += std::pow(x[row * width + i] - mean, 2) / double(width);
    double rstd = 1 / std::sqrt(variance + asF32(getEpsilon()));
    for (int64_t i = 0; i < width; ++i)
      y[row * width + i] = (x[row * width + i] - mean) * rstd * scale[i] + bias[i];
    means[row] = mean;
    rstds[row] = rstd;
  }
  results.append({y, means, rstds});
  return success();
}

LogicalResult RmsNormOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &x = operands[0], &scale = operands[1];
  int64_t width = x.shape.back(), rows = x.size() / width;
  HostTensor y(x.shape), rstds(withoutLast(x));
  for (int64_t row = 0; row < rows; ++row) {
    double meanSquare = 0;
    for (int64_t i = 0; i < width; ++i)
      meanSquare += x[row * width + i] * x[row * width + i] / double(width);
    double rstd = 1 / std::sqrt(meanSquare + asF32(getEpsilon()));
    for (int64_t i = 0; i < width; ++i)
      y[row * width + i] = x[row * width + i] * rstd * scale[i];
    rstds[row] = rstd;
  }
  results.append({y, rstds});
  return success();
}

LogicalResult SoftmaxCrossEntropyOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &logits = operands[0], &targets = operands[1];
  int64_t classes = logits.shape.back();
  HostTensor nll(targets.shape), lse(targets.shape);
  for (int64_t row = 0; row < targets.size(); ++row) {
    const double *x = logits.elements->data() + row * classes;
    double largest = *std::max_element(x, x + classes), sum = 0;
    for (int64_t i = 0; i < classes; ++i)
      sum += std::exp(x[i] - largest);
    lse[row] = largest + std::log(sum);
    int64_t target = int64_t(targets[row]);
    if (target == int64_t(getIgnoreIndex()))
      continue;
    if (target < 0 || target >= classes)
      return emitOpError("target ") << target << " is neither one of " << classes << " classes nor the ignored "
                                    << int64_t(getIgnoreIndex());
    nll[row] = lse[row] - x[target];
  }
  results.append({nll, lse});
  return success();
}

LogicalResult DropoutOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &x = operands[0], &key = operands[1];
  double rate = asF32(getRate()), keptFactor = double(float(1 / (1 - getRate().convertToDouble())));
  int64_t first = keyWord(key, 2) * (x.size() / x.shape[0]); // dimension 0 counts samples of the global batch
  uint32_t stream = randomStream(key, getSite());
  HostTensor &y = results.emplace_back(x.shape);
  for (int64_t i = 0; i < x.size(); ++i)
    y[i] = dtc::random::uniform(stream, uint64_t(first + i)) >= rate ? x[i] * keptFactor : 0;
  return success();
}

LogicalResult RotaryOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &x = operands[0], &positions = operands[1];
  int64_t sequence = x.shape[1], width = x.shape.back(), pairs = countPairs(), rows = x.size() / width;
  int64_t inner = rows / (x.shape[0] * sequence); // rows that share a position
  double theta = getTheta().convertToDouble(), sign = getInverse() ? -1 : 1;
  dtc::abi::RotaryScaling scaling = getScalingOrNone();
  HostTensor &y = results.emplace_back(x.shape);
  for (int64_t row = 0; row < rows; ++row) {
    double position = positions[row / inner % sequence];
    const double *from = x.elements->data() + row * width;
    double *to = y.elements->data() + row * width;
    std::copy_n(from, width, to);
    for (int64_t i = 0; i < pairs; ++i) {
      double angle = position * dtc::abi::rotaryFrequency(theta, pairs, scaling, i);
      double cosine = scaling.amplitude * std::cos(angle), sine = scaling.amplitude * sign * std::sin(angle);
      to[i] = from[i] * cosine - from[i + pairs] * sine;
      to[i + pairs] = from[i + pairs] * cosine + from[i] * sine;
    }
  }
  return success();
}
