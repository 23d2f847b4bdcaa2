// Losses and gradients of small models of each family against what PyTorch and transformers computed for them in f64
// (test/e2e/oracle/make_oracle.py), also of packed documents (make_documents.py): tests the frontend, differentiation
// and decomposition, run by the interpreter.
#include "dialect/IR/Names.h"
#include "dialect/reference/Interpreter.h"
#include "frontends/Frontend.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/pipelines/What.h"
#include "test/e2e/published_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

using namespace mlir;
using namespace mlir::dt;

namespace {

const std::string root = std::string(DTC_SOURCE_DIR) + "/test/e2e/oracle/";

/// All models whose gradients make_oracle.py and make_documents.py have recorded, by folder.
std::vector<std::string> recordedModels() {
  std::vector<std::string> names;
  for (const auto &folder : std::filesystem::directory_iterator(root))
    if (std::string name = folder.path().filename();
        std::filesystem::exists(folder.path() / "expected.safetensors") && !name.starts_with("exported_"))
      names.push_back(name);
  std::ranges::sort(names);
  return names;
}

struct Oracle : testing::TestWithParam<std::string> {
  Oracle()
      : hasDocuments(modelName.consume_front("documents_")), directory(root + modelName.str()), weights(directory),
        expected(root + GetParam() + "/expected.safetensors") {
    DialectRegistry registry;
    dtc::registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    model = dtc::load(directory, {.batch = 2, .sequence = 16, .separateDocuments = hasDocuments}, context);
  }

  void compile(const dtc::WhatOptions &options) {
    PassManager manager(&context);
    dtc::buildWhatPipeline(manager, options);
    ASSERT_TRUE(succeeded(manager.run(*model.module)));
    for (auto param : (*model.module)->getAttrOfType<ArrayAttr>(module_attr::parameters).getAsRange<ParamAttr>())
      params[param.getName()] = param;
  }

  func::FuncOp function(StringRef name) { return model.module->lookupSymbol<func::FuncOp>(name); }

  static std::vector<double> read(const dtc::SafetensorsModel::Found &found, StringRef name) {
    if (!found) {
      ADD_FAILURE() << "no tensor " << name.str();
      return {};
    }
    if (found.entry->type != "I32")
      return dtc::floatsOf(found);
    std::vector<int32_t> integers(found.entry->elements());
    auto bytes = found.file->bytes(*found.entry);
    std::memcpy(integers.data(), bytes.data(), bytes.size());
    return {integers.begin(), integers.end()};
  }

  std::vector<double> expectedValues(const std::string &name) {
    const dtc::SafetensorsEntry *entry = expected.find(name);
    dtc::SafetensorsModel::Found found{&expected, entry};
    return read(found, name);
  }

  /// The arguments of a function of parameters and inputs; other roles stay zero.
  HostTensors makeArguments(func::FuncOp callee) {
    HostTensors arguments;
    for (unsigned i = 0; i < callee.getNumArguments(); ++i) {
      PortAttr port = argumentPort(callee, i);
      StringRef name = port.getName();
      HostTensor argument(cast<RankedTensorType>(callee.getArgumentTypes()[i]).getShape());
      if (port.getKind() == PortKind::Parameter)
        argument = dtc::toLogical(params.lookup(name), read(weights.find(name.str()), name));
      else if (name == "tokens" || name == "targets" || name == "document_starts")
        *argument.elements = expectedValues(name.str());
      arguments.push_back(argument);
    }
    return arguments;
  }

  HostTensors call(StringRef name, const HostTensors &arguments) {
    FailureOr<HostTensors> results = interpret(function(name), arguments);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : HostTensors();
  }

  MLIRContext context;
  std::string parameter = GetParam();
  StringRef modelName = parameter; ///< whose weights these are
  bool hasDocuments;
  std::string directory;
  dtc::SafetensorsModel weights;
  dtc::SafetensorsFile expected;
  dtc::Model model;
  llvm::StringMap<ParamAttr> params;
};

double norm(const HostTensor &tensor) {
  double sum = 0;
  for (double element : *tensor.elements)
    sum += element * element;
  return std::sqrt(sum);
}

double distance(const HostTensor &a, const HostTensor &b) {
  HostTensor difference(a.shape);
  for (int64_t i = 0; i < a.size(); ++i)
    difference[i] = a[i] - b[i];
  return norm(difference);
}

TEST_P(Oracle, LossAndEveryGradientAgree) {
  compile(dtc::WhatOptions());
  func::FuncOp micro = function("micro");
  HostTensors results = call("micro", makeArguments(micro));
  ASSERT_EQ(results.size(), 2 + params.size());
  double loss = expectedValues("loss_sum")[0];
  EXPECT_NEAR(results[0][0], loss, 1e-6 * loss);
  EXPECT_EQ(results[1][0], expectedValues("token_count")[0]);

  llvm::StringMap<HostTensor> gradients;
  double squares = 0;
  for (auto &entry : params) {
    auto values = expectedValues("gradient." + entry.getKey().str());
    gradients[entry.getKey()] = dtc::toLogical(entry.getValue(), values);
    squares += std::pow(norm(gradients[entry.getKey()]), 2);
  }
  // The tolerance of shared/design.md: some gradients, such as those of key biases, are mathematically zero.
  double typical = std::sqrt(squares / static_cast<double>(params.size()));
  for (unsigned i = 2; i < micro.getNumResults(); ++i) {
    StringRef name = resultPort(micro, i).getName();
    const HostTensor &exact = gradients[name];
    EXPECT_LE(distance(results[i], exact), 1e-5 * std::max(norm(exact), 1e-3 * typical)) << name.str();
  }
}

TEST_P(Oracle, EvaluationHasTheSameLoss) {
  compile(dtc::WhatOptions());
  HostTensors results = call("eval", makeArguments(function("eval")));
  ASSERT_EQ(results.size(), 2u);
  double loss = expectedValues("loss_sum")[0];
  EXPECT_NEAR(results[0][0], loss, 1e-6 * loss);
  EXPECT_EQ(results[1][0], expectedValues("token_count")[0]);
}

/// A second micro-batch equal to the first doubles every sum; reduction then finds the norm of the same mean gradient.
TEST_P(Oracle, AccumulationAddsMicroBatches) {
  dtc::WhatOptions options;
  options.accumulation = 2;
  compile(options);
  HostTensors first = call("micro", makeArguments(function("micro")));
  HostTensors arguments = makeArguments(function("micro_next"));
  ASSERT_GT(arguments.size(), first.size());
  std::copy(first.begin(), first.end(), arguments.end() - first.size());
  HostTensors second = call("micro_next", arguments);
  ASSERT_EQ(second.size(), first.size());
  for (size_t i = 0; i < first.size(); ++i)
    for (int64_t j = 0; j < first[i].size(); ++j)
      ASSERT_NEAR(second[i][j], 2 * first[i][j], 1e-9 * (1 + std::abs(first[i][j]))) << "result " << i;

  HostTensors one = call("reduce", first), both = call("reduce", second);
  ASSERT_FALSE(one.empty());
  EXPECT_NEAR(both.back()[0], one.back()[0], 1e-9 * one.back()[0]);
  double squares = 0;
  for (size_t i = 2; i < first.size(); ++i)
    squares += std::pow(norm(first[i]), 2);
  EXPECT_NEAR(one.back()[0], std::sqrt(squares) / first[1][0], 1e-9 * one.back()[0]);
}

/// The phase takes time linear in the operations: an accidental quadratic would show on 96 layers.
TEST(WhatPhase, TakesSecondsForNinetySixLayers) {
  DialectRegistry registry;
  dtc::registerFrontendDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  dtc::Model model =
      dtc::load(std::string(DTC_SOURCE_DIR) + "/examples/gpt3-175b", {.batch = 512, .sequence = 2048}, context);
  PassManager manager(&context);
  dtc::buildWhatPipeline(manager, dtc::WhatOptions());
  auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(succeeded(manager.run(*model.module)));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 10);
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, testing::ValuesIn(recordedModels()),
                         [](const auto &info) { return info.param; });

} // namespace
