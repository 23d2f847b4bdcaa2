// What the tests of the reference interpreter share: modules from text, tensors from lists.
#pragma once

#include "dialect/IR/Ops.h"
#include "dialect/reference/Interpreter.h"
#include "dialect/reference/Shards.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace mlir::dt::test {

using testing::ElementsAre;
using testing::HasSubstr;

/// A context with the dialects, and the last error that was reported on it.
class ReferenceTest : public testing::Test {
protected:
  ReferenceTest() {
    context.loadDialect<DTDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) { error = diagnostic.str(); });
  }

  func::FuncOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << error;
    return *module->getOps<func::FuncOp>().begin();
  }

  /// The results of the only function of `text` on one rank.
  HostTensors run(StringRef text, ArrayRef<HostTensor> arguments, InterpreterOptions options = {}) {
    FailureOr<HostTensors> results = interpret(parse(text), arguments, options);
    EXPECT_TRUE(succeeded(results)) << error;
    return succeeded(results) ? *results : HostTensors(8, HostTensor(ArrayRef<int64_t>{0}));
  }

  template <typename Attr> Attr attribute(StringRef text) { return cast<Attr>(parseAttribute(text, &context)); }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string error;
};

inline HostTensor tensor(ArrayRef<int64_t> shape, const std::vector<double> &elements) {
  HostTensor result(shape);
  EXPECT_EQ(result.size(), int64_t(elements.size()));
  *result.elements = elements;
  return result;
}

inline HostTensor iota(ArrayRef<int64_t> shape) {
  HostTensor result(shape);
  for (int64_t i = 0; i < result.size(); ++i)
    result[i] = double(i);
  return result;
}

inline HostTensor randomTensor(ArrayRef<int64_t> shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  HostTensor result(shape);
  for (int64_t i = 0; i < result.size(); ++i)
    result[i] = normal(engine);
  return result;
}

} // namespace mlir::dt::test
