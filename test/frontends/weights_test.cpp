// Weights beside a config.json have to be the model's. The models are those recorded with PyTorch.
#include "frontends/Frontend.h"
#include "runtime/abi/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using namespace dtc;
using testing::HasSubstr;

namespace {

class WeightsTest : public testing::TestWithParam<const char *> {
protected:
  std::filesystem::path recorded(const std::string &model) const {
    return std::filesystem::path(DTC_SOURCE_DIR) / "test/e2e/oracle" / model;
  }

  /// The error of loading a recorded model whose config says `value` for `key`.
  std::string errorWith(const std::string &model, const std::string &key, const nlohmann::json &value) {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    std::filesystem::path copy = std::filesystem::temp_directory_path() / ("dtc_weights_" + std::string(info->name()));
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(recorded(model) / "model.safetensors", copy / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    nlohmann::json config = nlohmann::json::parse(std::ifstream(recorded(model) / "config.json"));
    config[key] = value;
    std::ofstream(copy / "config.json") << config;
    std::string message = "no error";
    try {
      load(copy.string(), {}, context);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      message = error.what();
    }
    std::filesystem::remove_all(copy);
    return message;
  }

  mlir::MLIRContext context;
};

TEST_P(WeightsTest, WhatTransformersSavesFits) {
  Model model = load(recorded(GetParam()).string(), {}, context);
  EXPECT_EQ(model.weightsDirectory, recorded(GetParam()).string());
}

TEST_P(WeightsTest, AShrunkModelDoesNotUseThem) {
  EXPECT_EQ(load(recorded(GetParam()).string(), {.symbols = {{"vocab", 7}}}, context).weightsDirectory, "");
}

INSTANTIATE_TEST_SUITE_P(Recorded, WeightsTest, testing::Values("gpt2", "llama", "llama_tied"),
                         [](const auto &info) { return std::string(info.param); });

using WeightErrorsTest = WeightsTest;

TEST_F(WeightErrorsTest, AnotherShapeNamesTheTensor) {
  EXPECT_THAT(errorWith("gpt2", "n_inner", 48), HasSubstr("tensor 'h.0.mlp.c_fc.weight' has shape [16, 64]; "
                                                          "config.json makes it [16, 48]"));
  EXPECT_THAT(errorWith("llama", "num_key_value_heads", 1), HasSubstr("'model.layers.0.self_attn.k_proj.weight'"));
}

TEST_F(WeightErrorsTest, AMissingTensorIsNamed) {
  EXPECT_THAT(errorWith("gpt2", "n_layer", 3), HasSubstr("no tensor 'h.2.ln_1.weight'"));
  EXPECT_THAT(errorWith("llama_tied", "tie_word_embeddings", false), HasSubstr("no tensor 'lm_head.weight'"));
}

TEST_F(WeightErrorsTest, ATensorTooManyIsNamed) {
  EXPECT_THAT(errorWith("gpt2", "n_layer", 1), HasSubstr("a tensor 'h.1."));
}

} // namespace
