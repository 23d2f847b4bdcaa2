#include "test/gpu/stand_in/cudnn_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

using namespace dtc::cudnn;

namespace dtc::test {

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

abi::DataType GraphTensor::element() const {
  return type == BFloat16 ? abi::BF16 : type == Half ? abi::F16 : type == Int32 ? abi::I32 : abi::F32;
}

size_t GraphTensor::elementBytes() const { return abi::elementType(element()).bytes; }

int64_t GraphTensor::span() const {
  int64_t last = 0;
  for (size_t i = 0; i < 4; ++i)
    last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

int64_t GraphTensor::offsetOf(const Sizes4 &index) const {
  int64_t offset = 0;
  for (size_t i = 0; i < 4; ++i)
    offset += index[i] * strides[i];
  return offset;
}

namespace {

template <typename Body> void forEach(const Sizes4 &sizes, Body body) {
  Sizes4 i;
  for (i[0] = 0; i[0] < sizes[0]; ++i[0])
    for (i[1] = 0; i[1] < sizes[1]; ++i[1])
      for (i[2] = 0; i[2] < sizes[2]; ++i[2])
        for (i[3] = 0; i[3] < sizes[3]; ++i[3])
          body(i);
}

/// Elements in row-major order, whatever their strides are.
struct Values {
  Sizes4 sizes = {};
  std::vector<double> elements;

  explicit Values(const Sizes4 &sizes) : sizes(sizes), elements(size_t(sizes[0] * sizes[1] * sizes[2] * sizes[3])) {}
  Values() = default;

  double &at(const Sizes4 &i) {
    return elements[size_t(((i[0] * sizes[1] + i[1]) * sizes[2] + i[2]) * sizes[3] + i[3])];
  }
  /// Where a dimension is smaller than another's, one element serves several consecutive ones.
  double shared(Sizes4 i, const Sizes4 &others) {
    for (size_t d = 0; d < 4; ++d)
      i[d] /= others[d] / sizes[d];
    return at(i);
  }
};

double rounded(const GraphTensor &tensor, double value) {
  if (tensor.type == Boolean)
    return value != 0;
  return tensor.type == Int32 ? std::trunc(value) : abi::roundTo(abi::elementType(tensor.element()), value);
}

double readElement(const GraphTensor &tensor, const std::byte *place, int64_t offset) {
  return abi::readElement(abi::elementType(tensor.element()), place + offset * int64_t(tensor.elementBytes()));
}

void writeElement(const GraphTensor &tensor, std::byte *place, int64_t offset, double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (tensor.type == BFloat16)
    bits >>= 16;
  if (tensor.type == Half)
    bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  std::memcpy(place + offset * int64_t(tensor.elementBytes()), &bits, tensor.elementBytes());
}

} // namespace

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

/// How many operands a mode has; 0: there is none of that number here.
static size_t operandsOf(int mode) {
  switch (mode) {
  case Exponential:
  case Logarithm:
  case Identity:
  case GenerateIndex:
    return 1;
  case Add:
  case Multiply:
  case Divide:
  case Subtract:
  case GreaterOrEqual:
    return 2;
  case Select:
    return 3;
  default:
    return 0;
  }
}

static bool divides(const Sizes4 &sizes, const Sizes4 &others) {
  return std::equal(sizes.begin(), sizes.end(), others.begin(),
                    [](int64_t size, int64_t other) { return size > 0 && other % size == 0; });
}

/// One of a size, or as large as another.
static bool broadcasts(const Sizes4 &sizes, const Sizes4 &to) {
  return std::equal(sizes.begin(), sizes.end(), to.begin(), [](int64_t a, int64_t b) { return a == b || a == 1; });
}

static bool isNumeric(int type) { return type != Boolean && type != Int32; }

static std::string whyNoPointwise(const GraphOperation &op) {
  size_t count = operandsOf(op.mode);
  if (count == 0)
    return "a pointwise mode that is not known here";
  if (count != op.operands.size())
    return "a pointwise operation with too many or too few operands";
  for (const GraphTensor &operand : op.operands)
    if (!broadcasts(operand.sizes, op.result.sizes))
      return "an operand that is no part of the result's size";
  if (op.mode == GenerateIndex && (op.axis < 0 || op.axis > 3 || op.result.type != Int32))
    return "indices need an axis, and are of 32 bits";
  if ((op.mode == GreaterOrEqual) != (op.result.type == Boolean))
    return "comparisons give booleans, and nothing else does";
  if (op.mode == Select && (op.operands[2].type != Boolean || !isNumeric(op.operands[0].type)))
    return "a choice is between numbers, by a boolean";
  if (op.mode != GenerateIndex && op.mode != GreaterOrEqual && op.mode != Select)
    for (const GraphTensor &operand : op.operands)
      if (!isNumeric(operand.type) || !isNumeric(op.result.type))
        return "arithmetic on what is no number";
  return "";
}

std::string GraphOperation::whyNot() const {
  if (result.isByValue)
    return "a result that is a number of the host";
  if (kind == Pointwise)
    return whyNoPointwise(*this);
  const Sizes4 &a = operands[0].sizes, &to = result.sizes;
  if (!isNumeric(operands[0].type) || !isNumeric(result.type))
    return "arithmetic on what is no number";
  if (kind == Reduce)
    return mode != ReduceSum && mode != ReduceLargest ? "a reduction that is not known here"
           : a == to || !divides(to, a)               ? "a reduction to a size that is no part of its operand's"
                                                      : "";
  if (kind == Reshape)
    return !result.isVirtual                       ? "a reshaped tensor that is not virtual"
           : operands[0].count() != result.count() ? "a reshaped tensor of another size"
           : operands[0].span() != result.span()   ? "a reshaped tensor that does not lie as its operand does"
                                                   : "";
  const Sizes4 &b = operands[1].sizes;
  if (a[2] != to[2] || b[3] != to[3] || a[3] != b[2])
    return "matrices whose sizes do not fit";
  for (size_t i = 0; i < 2; ++i)
    if (a[i] != to[i] || to[i] % b[i] != 0)
      return "matrices of batches that do not fit";
  if (operands[1].type == Float)
    return "a second matrix of f32";
  return "";
}

std::string OperationsGraph::finish() {
  std::map<int64_t, GraphTensor> all;
  std::set<int64_t> written;
  for (const GraphOperation &op : operations) {
    std::vector<GraphTensor> tensors = op.operands;
    tensors.push_back(op.result);
    for (const GraphTensor &tensor : tensors)
      if (!(all.emplace(tensor.number, tensor).first->second == tensor))
        return "two tensors with the number " + std::to_string(tensor.number);
    if (!written.insert(op.result.number).second)
      return "a tensor that two operations write";
  }
  for (const auto &[number, tensor] : all) {
    if (!tensor.isVirtual)
      outside.emplace(number, tensor);
    else if (!written.contains(number))
      return "a virtual tensor that nobody writes";
  }
  std::vector<GraphOperation> rest = std::move(operations);
  operations.clear();
  while (!rest.empty()) {
    auto next = std::find_if(rest.begin(), rest.end(), [&](const GraphOperation &op) {
      return std::none_of(op.operands.begin(), op.operands.end(),
                          [&](const GraphTensor &operand) { return written.contains(operand.number); });
    });
    if (next == rest.end())
      return "operations that wait for each other";
    written.erase(next->result.number);
    operations.push_back(std::move(*next));
    rest.erase(next);
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

double pointwise(int mode, const std::vector<double> &x) {
  switch (mode) {
  case Exponential:
    return std::exp(x[0]);
  case Logarithm:
    return std::log(x[0]);
  case Identity:
    return x[0];
  case Add:
    return x[0] + x[1];
  case Multiply:
    return x[0] * x[1];
  case Divide:
    return x[0] / x[1];
  case Subtract:
    return x[0] - x[1];
  case GreaterOrEqual:
    return x[0] >= x[1];
  default:
    return x[2] != 0 ? x[0] : x[1];
  }
}

class Interpreter {
public:
  explicit Interpreter(const std::map<int64_t, std::byte *> &places) : places(places) {}

  void run(const GraphOperation &op) {
    std::vector<Values *> operands;
    for (const GraphTensor &operand : op.operands)
      operands.push_back(&valuesOf(operand));
    Values result(op.result.sizes);
    if (op.kind == GraphOperation::Matmul)
      multiply(*operands[0], *operands[1], result);
    else if (op.kind == GraphOperation::Reduce)
      reduce(op.mode, *operands[0], result);
    else if (op.kind == GraphOperation::Reshape)
      reshape(op, *operands[0], result);
    else
      map(op, operands, result);
    for (double &value : result.elements)
      value = rounded(op.result, value);
    if (!op.result.isVirtual)
      forEach(op.result.sizes, [&](const Sizes4 &i) {
        writeElement(op.result, places.at(op.result.number), op.result.offsetOf(i), result.at(i));
      });
    known[op.result.number] = std::move(result);
  }

private:
  Values &valuesOf(const GraphTensor &tensor) {
    auto [found, isNew] = known.try_emplace(tensor.number, tensor.sizes);
    if (isNew)
      forEach(tensor.sizes, [&](const Sizes4 &i) {
        found->second.at(i) = readElement(tensor, places.at(tensor.number), tensor.offsetOf(i));
      });
    return found->second;
  }

  static void multiply(Values &a, Values &b, Values &result) {
    const Sizes4 &sizes = result.sizes;
    int64_t depth = a.sizes[3];
    forEach(sizes, [&](const Sizes4 &i) {
      Sizes4 other = {i[0] / (sizes[0] / b.sizes[0]), i[1] / (sizes[1] / b.sizes[1]), 0, i[3]};
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        other[2] = k;
        sum += a.at({i[0], i[1], i[2], k}) * b.at(other);
      }
      result.at(i) = sum;
    });
  }

  static void reduce(int mode, Values &a, Values &result) {
    std::fill(result.elements.begin(), result.elements.end(), mode == ReduceSum ? 0.0 : -INFINITY);
    forEach(a.sizes, [&](const Sizes4 &i) {
      Sizes4 to = i;
      for (size_t d = 0; d < 4; ++d)
        to[d] /= a.sizes[d] / result.sizes[d];
      double &total = result.at(to);
      total = mode == ReduceSum ? total + a.at(i) : std::max(total, a.at(i));
    });
  }

  /// The same elements, by other indices.
  static void reshape(const GraphOperation &op, Values &a, Values &result) {
    std::vector<double> storage(size_t(op.result.span()), NAN);
    forEach(a.sizes, [&](const Sizes4 &i) { storage[size_t(op.operands[0].offsetOf(i))] = a.at(i); });
    forEach(result.sizes, [&](const Sizes4 &i) { result.at(i) = storage[size_t(op.result.offsetOf(i))]; });
  }

  static void map(const GraphOperation &op, const std::vector<Values *> &operands, Values &result) {
    std::vector<double> x(operands.size());
    forEach(result.sizes, [&](const Sizes4 &i) {
      for (size_t n = 0; n < x.size(); ++n)
        x[n] = operands[n]->shared(i, result.sizes);
      result.at(i) = op.mode == GenerateIndex ? double(i[size_t(op.axis)]) : pointwise(op.mode, x);
    });
  }

  const std::map<int64_t, std::byte *> &places;
  std::map<int64_t, Values> known;
};

} // namespace

void OperationsGraph::run(const std::map<int64_t, std::byte *> &places) const {
  Interpreter interpreter(places);
  for (const GraphOperation &op : operations)
    interpreter.run(op);
}

} // namespace dtc::test
