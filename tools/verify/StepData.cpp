#include "tools/verify/StepData.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/random.h"
#include "runtime/support/error.h"

#include <cmath>
#include <functional>

using namespace mlir::dt;

namespace dtc::verify {

/// A stream of random numbers for one use in one tensor.
static uint32_t streamOf(const std::string &tensor, uint64_t draw, uint32_t use) {
  uint32_t name = 0;
  for (char c : tensor)
    name = random::mix(name + static_cast<unsigned char>(c));
  return random::stream(static_cast<uint32_t>(draw), name, use);
}

HostTensor makeState(const LogicalProgram::Port &port, uint64_t draw) {
  uint32_t stream = streamOf(port.key.kindName() + "/" + port.key.name, draw, 0);
  HostTensor tensor(port.type.getShape());
  // Vectors are scales and biases: close to one, so that norms neither vanish nor explode.
  bool isVector = port.type.getRank() <= 1;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double normal = random::normal(stream, uint64_t(i));
    if (port.key.kind == PortKind::Slot) // some are means of squares
      tensor[i] = 0.01 + 0.01 * normal * normal;
    else if (port.key.kind == PortKind::Parameter)
      tensor[i] = isVector ? 1 + 0.1 * normal : 0.1 * normal;
    else
      tensor[i] = 0.01 * normal;
  }
  return tensor;
}

static double tokenAt(uint32_t stream, int64_t sample, int64_t position, int64_t vocabulary) {
  return std::floor(random::uniform(stream, uint64_t(sample) << 32 | uint64_t(position)) * double(vocabulary));
}

/// Targets are the next tokens; the higher a sample's number, the more of them it leaves out.
static void fillSamples(HostTensor &tensor, bool areTargets, int64_t microBatch, int64_t samples, int64_t vocabulary,
                        uint64_t draw) {
  uint32_t tokens = streamOf("/text", draw, 0), ignored = streamOf("/text", draw / 2, 1);
  int64_t shift = areTargets ? 1 : 0, sequence = tensor.shape[1];
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t row = i / sequence, sample = microBatch * samples + row;
    double ignoredShare = 0.5 * double(row + 1) / double(samples);
    // The share is at most half: a number below it is not above one minus it.
    double number = random::uniform(ignored, uint64_t(microBatch * tensor.size() + i));
    bool ignore = areTargets && (draw % 2 == 0 ? number : 1 - number) < ignoredShare;
    tensor[i] = ignore ? -100 : tokenAt(tokens, sample, i % sequence + shift, vocabulary);
  }
}

/// Documents begin at random columns: in about one of five.
static void fillDocumentStarts(HostTensor &tensor, int64_t microBatch, uint64_t draw) {
  uint32_t stream = streamOf("/documents", draw, 0);
  int64_t sequence = tensor.shape[1];
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t column = i % sequence;
    bool begins = random::uniform(stream, uint64_t(microBatch * tensor.size() + i)) < 0.2;
    tensor[i] = column == 0 ? 0 : begins ? double(column) : tensor[i - 1];
  }
}

/// Any value will do, but settings should be distinguishable.
static double valueOf(mlir::StringAttr setting) {
  const abi::OptimizerSetting *known = abi::findOptimizerSetting(setting.getValue());
  return known ? known->initial : 0.5;
}

HostTensor makeInput(const LogicalProgram::Port &port, int64_t microBatch, int64_t samples, int64_t vocabulary,
                     uint64_t draw) {
  double step = 3 + double(draw); // any
  HostTensor tensor(port.type.getShape());
  if (!port.source)
    throw Error(ExitCode::BadInput, "verify knows no values for the input '" + port.key.name + "' of no source");
  switch (port.source.getKind()) {
  case SourceKind::Tokens:
  case SourceKind::NextTokens:
    fillSamples(tensor, port.source.getKind() == SourceKind::NextTokens, microBatch, samples, vocabulary, draw);
    break;
  case SourceKind::DocumentStarts:
    fillDocumentStarts(tensor, microBatch, draw);
    break;
  case SourceKind::Key:
    tensor[0] = double(draw + 1); // a seed
    tensor[1] = step;
    tensor[2] = double(microBatch * samples);
    break;
  case SourceKind::Positions:
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor[i] = double(i) + (tensor.size() == 1 ? step : 0); // a single position comes after others
    break;
  case SourceKind::LastPosition:
    tensor[0] = double(draw);
    break;
  case SourceKind::LossScale:
    tensor[0] = 512 * step;
    break;
  case SourceKind::LearningRate:
    tensor[0] = 0.01 * step / 3;
    break;
  case SourceKind::BiasCorrection:
    tensor[0] = 1 - std::pow(valueOf(port.source.getSetting()), step);
    break;
  }
  return tensor;
}

} // namespace dtc::verify
