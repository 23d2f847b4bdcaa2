// What a config.json may say, and the errors for what it may not: each names the file and the key.
#include "frontends/Frontend.h"
#include "runtime/abi/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dtc;
using testing::HasSubstr;

namespace {

class ConfigTest : public testing::Test {
protected:
  void SetUp() override {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    directory = std::filesystem::temp_directory_path() / ("dtc_config_" + std::string(info->name()));
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  void write(const std::string &text, const std::string &name = "config.json") {
    std::ofstream(directory / name) << text;
  }

  Model loadIt(const ModelOptions &options = {}) { return load(directory.string(), options, context); }

  /// The message of the error that loading gives; every such error is bad input.
  std::string error(const std::string &config, const ModelOptions &options = {}) {
    write(config);
    try {
      loadIt(options);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path directory;
  mlir::MLIRContext context;
};

const std::string tinyGpt2 = R"("model_type": "gpt2", "vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 1,
                                "n_head": 2)";
const std::string tinyLlama = R"("model_type": "llama", "vocab_size": 11, "max_position_embeddings": 8,
    "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4)";

TEST_F(ConfigTest, MissingDirectoryIsNamed) {
  try {
    load("no/such/model", {}, context);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("no/such/model"));
  }
}

TEST_F(ConfigTest, DamagedFilesAreNamed) {
  EXPECT_THAT(error("{\"model_type\": "), HasSubstr("config.json: is not valid JSON"));
  EXPECT_THAT(error("[1, 2]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(error(std::string(2 << 20, ' ')), HasSubstr("larger than 1 MB"));
}

TEST_F(ConfigTest, UnknownFamilySuggestsTheNearest) {
  EXPECT_THAT(error(R"({"model_type": "gpt3"})"), HasSubstr("'model_type' is 'gpt3'"));
  EXPECT_THAT(error(R"({"model_type": "gpt3"})"), HasSubstr("did you mean 'gpt2'?"));
  EXPECT_THAT(error(R"({})"), HasSubstr("'model_type' is missing"));
}

TEST_F(ConfigTest, UnknownKeySuggestsTheNearest) {
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "n_lagers": 2})"), HasSubstr("key 'n_lagers' is not known"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "n_lagers": 2})"), HasSubstr("did you mean 'n_layer'?"));
}

TEST_F(ConfigTest, SizesAreCheckedBeforeAnythingIsBuilt) {
  EXPECT_THAT(error(R"({"model_type": "gpt2", "vocab_size": 9223372036854775808})"), HasSubstr("'vocab_size'"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": -768})"), HasSubstr("is -768"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": 1e300})"), HasSubstr("'n_embd' must be a whole number"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": "768"})"), HasSubstr("is \"768\""));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_layer": 2147483647})"), HasSubstr("2147483647 layers"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": 1073741824, "n_head": 1})"), HasSubstr("10^15 elements"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": 770})"), HasSubstr("12 heads (n_head) do not divide"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "num_key_value_heads": 3})"), HasSubstr("'num_key_value_heads' is 3"));
}

TEST_F(ConfigTest, UnsupportedFeaturesAreRefused) {
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "activation_function": "relu6"})"), HasSubstr("'activation_function'"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "activation_function": "gelu_now"})"), HasSubstr("did you mean 'gelu_new'?"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "add_cross_attention": true})"), HasSubstr("'add_cross_attention'"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "resid_pdrop": 1.0})"), HasSubstr("'resid_pdrop' must be a probability"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "attention_bias": true})"), HasSubstr("'attention_bias' is true"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "mlp_bias": true})"), HasSubstr("'mlp_bias' is true"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "sliding_window": 4096})"), HasSubstr("'sliding_window' is 4096"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})"),
              HasSubstr("rotary scaling \"llama3\""));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rope_scaling": {"factor": 8.0}})"), HasSubstr("'factor': 8.0"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "head_dim": 3})"), HasSubstr("'head_dim' is 3"));
}

TEST_F(ConfigTest, OptionsAreCheckedAgainstTheModel) {
  EXPECT_THAT(error("{" + tinyGpt2 + "}", {.batch = 2, .sequence = 9}), HasSubstr("a sequence of 9 tokens"));
  EXPECT_THAT(error("{" + tinyGpt2 + "}", {.batch = 0}), HasSubstr("size 'batch' is 0"));
  EXPECT_THAT(error("{" + tinyGpt2 + "}", {.symbols = {{"vocabulary", 3}}}), HasSubstr("did you mean 'vocab'?"));
}

TEST_F(ConfigTest, SymbolsReplaceSizes) {
  write("{" + tinyGpt2 + "}");
  Model model = loadIt({.batch = 2, .symbols = {{"vocab", 5}, {"sequence", 3}, {"layers", 2}}});
  auto symbols = (*model.module)->getAttrOfType<mlir::DictionaryAttr>("dt.symbols");
  EXPECT_EQ(symbols.getAs<mlir::IntegerAttr>("vocab").getInt(), 5);
  EXPECT_EQ(symbols.getAs<mlir::IntegerAttr>("sequence").getInt(), 3);
  EXPECT_EQ((*model.module)->getAttrOfType<mlir::ArrayAttr>("dt.parameters").size(), 2u + 2 * 12 + 2);
}

TEST_F(ConfigTest, TheConfigComesBackAsItStands) {
  write("{" + tinyGpt2 + "}");
  EXPECT_EQ(loadIt().configJson, "{" + tinyGpt2 + "}");
}

} // namespace
