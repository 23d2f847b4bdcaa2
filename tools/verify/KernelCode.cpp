#include "tools/verify/KernelCode.h"

#include "dialect/IR/ElementTypes.h"
#include "passes/lower/KernelPlan.h"
#include "runtime/abi/random.h"
#include "tools/verify/PoisonedMemory.h"
#include "tools/verify/RoundingBounds.h"

#include <cmath>
#include <cstdio>

using namespace mlir::dt;

namespace dtc::verify {

static int64_t elementsIn(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}

KernelCode::KernelCode(KernelOp kernel, const KernelPlan &plan, LaunchShape shape, CodeFunction function,
                       std::vector<int64_t> scalars, RankContext rank)
    : kernel(kernel), plan(plan), shape(std::move(shape)), function(std::move(function)), scalars(std::move(scalars)),
      rank(std::move(rank)) {}

//===----------------------------------------------------------------------===//
// What is run
//===----------------------------------------------------------------------===//

/// Elements of the domain that one index of the grid takes, times the operations.
double KernelCode::workOfIndex() const {
  auto reduced = static_cast<double>(plan.product(plan.reduced));
  double elements = 1;
  if (plan.kind == KernelKind::Rows || (plan.kind == KernelKind::Flat && !plan.reductions.empty()))
    elements = static_cast<double>(plan.columns());
  else if (plan.kind == KernelKind::Columns)
    elements = reduced * static_cast<double>(shape.columnBlock);
  else if (plan.kind == KernelKind::Total)
    elements = reduced;
  return elements * static_cast<double>(plan.ops.size());
}

/// One index does all of a flat kernel that reduces: it is cut by the size that its launch tells. -1: of others.
int64_t KernelCode::flatSizeFor(double mostWork) const {
  if (plan.kind != KernelKind::Flat || (plan.reductions.empty() && plan.rank() > 0))
    return -1;
  constexpr int64_t tails = 4096; // what is left over of vectors and groups stays
  int64_t most = static_cast<int64_t>(mostWork / static_cast<double>(plan.ops.size())) / tails * tails;
  return plan.columns() <= most + tails ? plan.columns() : std::max(most, tails) + plan.columns() % tails;
}

/// The whole grid where that is not too much, else its beginning, its middle and its end.
std::vector<KernelCode::Stretch> KernelCode::chooseStretches(double mostWork) const {
  auto length = static_cast<int64_t>(std::max(1.0, mostWork / workOfIndex() / 3));
  if (3 * length >= shape.grid)
    return {{0, shape.grid}};
  int64_t middle = shape.grid / 2 - length / 2;
  return {{0, length}, {middle, middle + length}, {shape.grid - length, shape.grid}};
}

/// What indices of the grid write of an output; KernelDomain.h says what an index does.
std::vector<int64_t> KernelCode::elementsOf(unsigned output, const std::vector<Stretch> &stretches,
                                            int64_t flatSize) const {
  std::vector<int64_t> elements;
  int64_t columns = plan.columns();
  auto append = [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element)
      elements.push_back(element);
  };
  bool hasColumns = plan.hasColumns(plan.outputSpans[output]);
  for (auto [begin, end] : stretches) {
    if (plan.kind == KernelKind::Flat && flatSize >= 0)
      append(0, hasColumns ? flatSize : 1);
    else if (plan.kind == KernelKind::Rows && hasColumns)
      append(begin * columns, end * columns);
    else if (plan.kind == KernelKind::Columns) {
      int64_t blocks = (columns + shape.columnBlock - 1) / shape.columnBlock;
      for (int64_t index = begin; index < end; ++index) {
        int64_t from = index % blocks * shape.columnBlock, kept = index / blocks * columns;
        append(kept + from, kept + std::min(columns, from + shape.columnBlock));
      }
    } else
      append(begin, end);
  }
  return elements;
}

/// Of a block of columns over so many rows that it takes long, the first columns and the last.
bool KernelCode::isSampled(int64_t element) const {
  int64_t column = element % plan.columns(), inBlock = column % shape.columnBlock;
  int64_t rest = std::min(plan.columns() - column, shape.columnBlock - inBlock);
  constexpr int64_t first = 2, last = 18; // a vector and its tail
  return inBlock < first || rest <= last;
}

/// As it lies in memory: magnitudes and signs depend on the argument, indices are within the columns.
double KernelCode::inputValue(unsigned draw, unsigned argument, int64_t element) const {
  const abi::ElementType &type = elementTypeOf(plan.inputs[argument].getType());
  double uniform = random::uniform(random::stream(draw, argument, 1), static_cast<uint64_t>(element));
  if (type.type == abi::MASK)
    return uniform < 0.5;
  if (!type.isFloating())
    return std::floor(uniform * static_cast<double>(std::max<int64_t>(8, plan.columns())));
  constexpr double scales[] = {1, 1, 0.01, 20}, offsets[] = {0, 0, -30, 30};
  uint32_t bits = random::bits(random::stream(draw, argument, 2), 0);
  bool isPositive = draw % 2 == 1; // so that roots and logarithms of all are numbers
  double value = isPositive ? 0.05 + 2 * uniform : 4 * uniform - 2;
  value = value * scales[bits % std::size(scales)] + (isPositive ? 0 : offsets[(bits >> 16) % std::size(offsets)]);
  return abi::roundTo(type, value);
}

//===----------------------------------------------------------------------===//
// One run
//===----------------------------------------------------------------------===//

/// "output 0 over input 1, grid in 3 parts, draw 2".
static std::string describe(const CodeTrial &trial) {
  std::string text;
  for (size_t output = 0; output < trial.inPlace.size(); ++output)
    if (trial.inPlace[output] >= 0)
      text += "output " + std::to_string(output) + " over input " + std::to_string(trial.inPlace[output]) + ", ";
  return text + "grid in " + std::to_string(trial.parts) + (trial.parts == 1 ? " part" : " parts") + ", draw " +
         std::to_string(trial.draw);
}

/// Whether a stored value may come of these bounds.
static bool isWithin(double value, Bounds bounds, const abi::ElementType &type) {
  if (std::isnan(bounds.low))
    return std::isnan(value);
  if (std::isinf(bounds.low) && std::isinf(bounds.high) && bounds.low < bounds.high)
    return true;
  return value >= abi::roundTo(type, bounds.low) && value <= abi::roundTo(type, bounds.high);
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

/// The values, the memory and the calls of one trial.
class KernelCode::Run {
public:
  Run(const KernelCode &code, const CodeTrial &trial)
      : code(code), plan(code.plan), trial(trial), flatSize(code.flatSizeFor(trial.mostWork)),
        stretches(code.chooseStretches(trial.mostWork)), read(plan.inputs.size()),
        meaning(
            code.kernel, code.rank, [this](unsigned argument, int64_t element) { return input(argument, element); },
            flatSize) {}

  CodeResult run() {
    evaluate();
    layOut();
    call();
    findWrong();
    if (result.failure.empty())
      findChanged();
    return result;
  }

private:
  double input(unsigned argument, int64_t element) {
    read[argument].push_back(element);
    return code.inputValue(trial.draw, argument, element);
  }
  const abi::ElementType &typeOf(size_t buffer) const {
    size_t inputs = plan.inputs.size();
    return elementTypeOf((buffer < inputs ? plan.inputs[buffer] : plan.outputs[buffer - inputs]).getType());
  }
  void evaluate();
  void layOut();
  void call();
  void findWrong();
  void findChanged();
  void fail(const std::string &what) { result.failure = what + " (" + describe(trial) + ")"; }

  const KernelCode &code;
  const KernelPlan &plan;
  const CodeTrial &trial;
  int64_t flatSize;
  std::vector<Stretch> stretches;
  std::vector<std::vector<int64_t>> read; ///< elements of each input
  RoundingBounds meaning;
  std::vector<Elements> written;  ///< elements of each output
  std::vector<Elements> compared; ///< those of them that are compared
  std::vector<std::unique_ptr<PoisonedMemory>> owned;
  std::vector<PoisonedMemory *> buffers; ///< inputs, then outputs
  CodeResult result;
};

void KernelCode::Run::evaluate() {
  bool thins = plan.kind == KernelKind::Columns && code.workOfIndex() > trial.mostWork;
  for (unsigned output = 0; output < plan.outputs.size(); ++output) {
    std::vector<int64_t> elements = code.elementsOf(output, stretches, flatSize);
    written.push_back(std::make_shared<std::vector<int64_t>>(elements));
    if (thins)
      llvm::erase_if(elements, [&](int64_t element) { return !code.isSampled(element); });
    auto count = static_cast<int64_t>(elements.size());
    compared.push_back(std::make_shared<std::vector<int64_t>>(std::move(elements)));
    meaning.of(plan.outputs[output], compared.back());
    result.compared += count;
    result.isWhole &= count == elementsIn(plan.outputs[output]);
  }
  for (std::vector<int64_t> &elements : read) {
    llvm::sort(elements);
    elements.erase(llvm::unique(elements), elements.end());
  }
}

void KernelCode::Run::layOut() {
  size_t inputs = plan.inputs.size();
  for (size_t i = 0; i < inputs + plan.outputs.size(); ++i) {
    int over = i >= inputs && i - inputs < trial.inPlace.size() ? trial.inPlace[i - inputs] : -1;
    if (over < 0) {
      int64_t elements = elementsIn(i < inputs ? plan.inputs[i] : plan.outputs[i - inputs]);
      owned.push_back(std::make_unique<PoisonedMemory>(elements, typeOf(i), int64_t(trial.draw % 3)));
    }
    buffers.push_back(over < 0 ? owned.back().get() : buffers[over]);
    buffers.back()->poison(i < inputs ? read[i] : *written[i - inputs], typeOf(i));
  }
  for (unsigned i = 0; i < inputs; ++i)
    for (int64_t element : read[i])
      buffers[i]->write(element, typeOf(i), code.inputValue(trial.draw, i, element));
  for (auto &buffer : owned)
    buffer->remember();
}

/// From the last part to the first: else what a part writes too much would be written over by the next.
void KernelCode::Run::call() {
  std::vector<void *> addresses;
  for (PoisonedMemory *buffer : buffers)
    addresses.push_back(buffer->data());
  std::vector<int64_t> scalars = code.scalars;
  if (flatSize >= 0)
    scalars[0] = flatSize;
  for (auto [begin, end] : llvm::reverse(stretches)) {
    int64_t part = (end - begin + trial.parts - 1) / trial.parts;
    for (int64_t from = begin + (end - begin - 1) / part * part; from >= begin; from -= part)
      code.function(addresses.data(), scalars.data(), from, std::min(end, from + part));
  }
}

void KernelCode::Run::findWrong() {
  size_t inputs = plan.inputs.size();
  for (unsigned output = 0; output < plan.outputs.size(); ++output) {
    const std::vector<Bounds> &bounds = meaning.of(plan.outputs[output], compared[output]);
    std::string wrong = findWrongElement(*buffers[inputs + output], *compared[output], bounds, typeOf(inputs + output));
    if (!wrong.empty())
      return fail("output " + std::to_string(output) + ": element " + wrong);
  }
}

/// Every byte but those of outputs is as it was.
void KernelCode::Run::findChanged() {
  size_t inputs = plan.inputs.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i < inputs && llvm::is_contained(trial.inPlace, int(i)))
      continue; // seen as the output
    bool isInput = i < inputs;
    auto changed = buffers[i]->findChange(isInput ? std::vector<int64_t>() : *written[i - inputs], typeOf(i));
    if (changed)
      return fail((isInput ? "input " + std::to_string(i) : "output " + std::to_string(i - inputs)) + ": byte " +
                  std::to_string(*changed) + " changes, which is not the kernel's");
  }
}

CodeResult KernelCode::run(const CodeTrial &trial) const {
  constexpr double byFar = 30;
  bool isCutBySize = flatSizeFor(trial.mostWork) >= 0;
  if (!isCutBySize && workOfIndex() > byFar * trial.mostWork)
    return {"", 0, false, true};
  return Run(*this, trial).run();
}

} // namespace dtc::verify
