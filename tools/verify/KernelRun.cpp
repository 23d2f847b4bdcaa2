#include "tools/verify/KernelRun.h"

#include "dialect/IR/ElementTypes.h"
#include "passes/lower/kernels/KernelPlan.h"
#include "runtime/abi/random.h"

#include <cmath>
#include <numeric>

using namespace mlir::dt;

namespace dtc::verify {

KernelRun::KernelRun(KernelOp kernel, const KernelPlan &plan, const RankContext &rank, RunPlaces places,
                     int64_t flatSize)
    : plan(plan), places(std::move(places)), read(plan.inputs.size()),
      meaning(
          kernel, rank, [this](unsigned argument, int64_t element) { return input(argument, element); }, flatSize) {}

//===----------------------------------------------------------------------===//
// What is expected
//===----------------------------------------------------------------------===//

void KernelRun::expect(std::vector<int64_t> elements, std::vector<int64_t> chosen) {
  size_t output = written.size();
  auto count = static_cast<int64_t>(chosen.size());
  written.push_back(std::make_shared<std::vector<int64_t>>(std::move(elements)));
  compared.push_back(std::make_shared<std::vector<int64_t>>(std::move(chosen)));
  for (const Bounds &bounds : meaning.of(plan.outputs[output], compared.back()))
    result.unbounded += bounds.areOfAnything();
  result.compared += count;
  result.isWhole &= count == elementsOf(plan.inputs.size() + output);
}

void KernelRun::expectAll() {
  for (size_t output = 0; output < plan.outputs.size(); ++output) {
    std::vector<int64_t> all(elementsOf(plan.inputs.size() + output));
    std::iota(all.begin(), all.end(), 0);
    expect(all, all);
  }
}

double KernelRun::input(unsigned argument, int64_t element) {
  read[argument].push_back(element);
  return inputValue(argument, element);
}

/// The stored value: magnitudes and signs depend on the argument, indices are within the columns.
double KernelRun::inputValue(unsigned argument, int64_t element) const {
  const abi::ElementType &type = typeOf(argument);
  double uniform = random::uniform(random::stream(places.draw, argument, 1), static_cast<uint64_t>(element));
  if (type.type == abi::MASK)
    return uniform < 0.5;
  if (!type.isFloating())
    return std::floor(uniform * static_cast<double>(std::max<int64_t>(8, plan.columns())));
  constexpr double scales[] = {1, 1, 0.01, 20}, offsets[] = {0, 0, -30, 30};
  uint32_t bits = random::bits(random::stream(places.draw, argument, 2), 0);
  bool isPositive = places.draw % 2 == 1; // so that square roots and logarithms are always defined
  double value = isPositive ? 0.05 + 2 * uniform : 4 * uniform - 2;
  value = value * scales[bits % std::size(scales)] + (isPositive ? 0 : offsets[(bits >> 16) % std::size(offsets)]);
  return abi::roundTo(type, value);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static mlir::Value valueOf(const KernelPlan &plan, size_t buffer) {
  size_t inputs = plan.inputs.size();
  return buffer < inputs ? plan.inputs[buffer] : plan.outputs[buffer - inputs];
}

const abi::ElementType &KernelRun::typeOf(size_t buffer) const {
  return elementTypeOf(valueOf(plan, buffer).getType());
}

int64_t KernelRun::elementsOf(size_t buffer) const {
  return mlir::cast<mlir::RankedTensorType>(valueOf(plan, buffer).getType()).getNumElements();
}

CalledBuffer KernelRun::bufferOf(size_t number) const {
  size_t inputs = plan.inputs.size(), output = number - inputs;
  const abi::ElementType &type = typeOf(number);
  bool isInput = number < inputs;
  std::string name = isInput ? "input " + std::to_string(number) : "output " + std::to_string(output);
  int64_t shift = places.alignment ? places.alignment / int64_t(type.bytes) : int64_t(places.draw % 3);
  CalledBuffer buffer{std::move(name), type, elementsOf(number), shift};
  if (!isInput && output < places.inPlace.size())
    buffer.over = places.inPlace[output];
  return buffer;
}

std::vector<CalledBuffer> KernelRun::layOut() {
  std::vector<CalledBuffer> buffers;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    CalledBuffer &buffer = buffers.emplace_back(bufferOf(i));
    llvm::sort(read[i]);
    read[i].erase(llvm::unique(read[i]), read[i].end());
    buffer.read = read[i];
    for (int64_t element : buffer.read)
      buffer.values.push_back(inputValue(unsigned(i), element));
  }
  for (size_t output = 0; output < plan.outputs.size(); ++output) {
    CalledBuffer &buffer = buffers.emplace_back(bufferOf(plan.inputs.size() + output));
    buffer.written = *written[output], buffer.compared = *compared[output];
    buffer.bounds = meaning.of(plan.outputs[output], compared[output]);
  }
  return buffers;
}

//===----------------------------------------------------------------------===//
// The call and its results
//===----------------------------------------------------------------------===//

/// "output 0 over input 1, grid in 3 parts, draw 2".
std::string KernelRun::describe() const {
  std::string text;
  for (size_t output = 0; output < places.inPlace.size(); ++output)
    if (places.inPlace[output] >= 0)
      text += "output " + std::to_string(output) + " over input " + std::to_string(places.inPlace[output]) + ", ";
  return text + places.manner + (places.manner.empty() ? "" : ", ") + "draw " + std::to_string(places.draw);
}

CodeResult KernelRun::call(const KernelCall &call) {
  CallResult done = callOnPoison(layOut(), call);
  if (!done.failure.empty())
    result.failure = done.failure + " (" + describe() + ")";
  result.stored = done.stored;
  return result;
}

} // namespace dtc::verify
