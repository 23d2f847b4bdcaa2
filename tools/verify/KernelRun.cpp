#include "tools/verify/KernelRun.h"

#include "dialect/IR/ElementTypes.h"
#include "passes/lower/KernelPlan.h"
#include "runtime/abi/random.h"

#include <cmath>
#include <cstdio>
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

static bool mayBeAnything(Bounds bounds) {
  return std::isinf(bounds.low) && std::isinf(bounds.high) && bounds.low < bounds.high;
}

void KernelRun::expect(std::vector<int64_t> elements, std::vector<int64_t> chosen) {
  size_t output = written.size();
  auto count = static_cast<int64_t>(chosen.size());
  written.push_back(std::make_shared<std::vector<int64_t>>(std::move(elements)));
  compared.push_back(std::make_shared<std::vector<int64_t>>(std::move(chosen)));
  for (const Bounds &bounds : meaning.of(plan.outputs[output], compared.back()))
    result.unbounded += mayBeAnything(bounds);
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

/// As it lies in memory: magnitudes and signs depend on the argument, indices are within the columns.
double KernelRun::inputValue(unsigned argument, int64_t element) const {
  const abi::ElementType &type = typeOf(argument);
  double uniform = random::uniform(random::stream(places.draw, argument, 1), static_cast<uint64_t>(element));
  if (type.type == abi::MASK)
    return uniform < 0.5;
  if (!type.isFloating())
    return std::floor(uniform * static_cast<double>(std::max<int64_t>(8, plan.columns())));
  constexpr double scales[] = {1, 1, 0.01, 20}, offsets[] = {0, 0, -30, 30};
  uint32_t bits = random::bits(random::stream(places.draw, argument, 2), 0);
  bool isPositive = places.draw % 2 == 1; // so that roots and logarithms of all are numbers
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

void KernelRun::layOut() {
  size_t inputs = plan.inputs.size();
  for (std::vector<int64_t> &elements : read) {
    llvm::sort(elements);
    elements.erase(llvm::unique(elements), elements.end());
  }
  for (size_t i = 0; i < inputs + plan.outputs.size(); ++i) {
    int over = i >= inputs && i - inputs < places.inPlace.size() ? places.inPlace[i - inputs] : -1;
    if (over < 0) {
      int64_t shift = places.alignment ? places.alignment / int64_t(typeOf(i).bytes) : int64_t(places.draw % 3);
      owned.push_back(std::make_unique<PoisonedMemory>(elementsOf(i), typeOf(i), shift));
    }
    buffers.push_back(over < 0 ? owned.back().get() : buffers[over]);
    buffers.back()->poison(i < inputs ? read[i] : *written[i - inputs], typeOf(i));
  }
  for (unsigned i = 0; i < inputs; ++i)
    for (int64_t element : read[i])
      buffers[i]->write(element, typeOf(i), inputValue(i, element));
  for (auto &buffer : owned)
    buffer->remember();
}

//===----------------------------------------------------------------------===//
// The call and what comes of it
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
  layOut();
  std::vector<void *> addresses;
  for (PoisonedMemory *buffer : buffers)
    addresses.push_back(buffer->data());
  std::string failure = call(addresses);
  if (failure.empty())
    failure = findWrong();
  if (failure.empty())
    failure = findChanged();
  if (!failure.empty())
    result.failure = failure + " (" + describe() + ")";
  result.stored = hashStored();
  return result;
}

/// Whether a stored value may come of these bounds.
static bool isWithin(double value, Bounds bounds, const abi::ElementType &type) {
  if (std::isnan(bounds.low))
    return std::isnan(value);
  return mayBeAnything(bounds) || (value >= abi::roundTo(type, bounds.low) && value <= abi::roundTo(type, bounds.high));
}

static std::string findWrongElement(const PoisonedMemory &memory, const std::vector<int64_t> &elements,
                                    const std::vector<Bounds> &bounds, const abi::ElementType &type) {
  for (size_t i = 0; i < elements.size(); ++i)
    if (double value = memory.read(elements[i], type); !isWithin(value, bounds[i], type)) {
      char text[128];
      std::snprintf(text, sizeof text, " is %.9g; its meaning lies between %.9g and %.9g", value, bounds[i].low,
                    bounds[i].high);
      return std::to_string(elements[i]) + text;
    }
  return "";
}

std::string KernelRun::findWrong() {
  size_t inputs = plan.inputs.size();
  for (unsigned output = 0; output < plan.outputs.size(); ++output) {
    const std::vector<Bounds> &bounds = meaning.of(plan.outputs[output], compared[output]);
    std::string wrong = findWrongElement(*buffers[inputs + output], *compared[output], bounds, typeOf(inputs + output));
    if (!wrong.empty())
      return "output " + std::to_string(output) + ": element " + wrong;
  }
  return "";
}

/// Every byte but those of outputs is as it was.
std::string KernelRun::findChanged() {
  size_t inputs = plan.inputs.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i < inputs && llvm::is_contained(places.inPlace, int(i)))
      continue; // seen as the output
    bool isInput = i < inputs;
    auto changed = buffers[i]->findChange(isInput ? std::vector<int64_t>() : *written[i - inputs], typeOf(i));
    if (changed)
      return (isInput ? "input " + std::to_string(i) : "output " + std::to_string(i - inputs)) + ": byte " +
             std::to_string(*changed) + " changes, which is not the kernel's";
  }
  return "";
}

/// FNV-1a.
uint64_t KernelRun::hashStored() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t output = 0; output < written.size(); ++output) {
    size_t buffer = plan.inputs.size() + output, bytes = typeOf(buffer).bytes;
    for (int64_t element : *written[output])
      for (size_t i = 0; i < bytes; ++i)
        hash = (hash ^ uint64_t(buffers[buffer]->data()[element * bytes + i])) * 0x100000001b3;
  }
  return hash;
}

} // namespace dtc::verify
