// What a config.json may say, and the errors for what it may not: each names the file and the key.
#include "dialect/IR/Attributes.h"
#include "frontends/Frontend.h"
#include "runtime/abi/error.h"
#include "runtime/checkpoint/family_defaults.h"
#include "runtime/checkpoint/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dtc;
using testing::ElementsAre;
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
/// A model of llama's kind.
std::string tinyDecoder(const std::string &family) {
  return "\"model_type\": \"" + family + R"(", "vocab_size": 11, "max_position_embeddings": 8, "hidden_size": 8,
    "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4)";
}
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
  std::filesystem::remove(directory / "config.json");
  std::filesystem::create_directory(directory / "config.json");
  EXPECT_THAT(error(""), HasSubstr("config.json': not a regular file"));
}

/// Nested objects and arrays as a value of `key`.
std::string nested(const std::string &key, const char *open, const char *close, int levels) {
  std::string text = ", \"" + key + "\": ";
  for (int i = 0; i < levels; ++i)
    text += open;
  text += "1";
  for (int i = 0; i < levels; ++i)
    text += close;
  return text + "}";
}

TEST_F(ConfigTest, NestingIsLimited) {
  for (const char *key : {"n_embd", "id2label", "unknown"}) {
    EXPECT_THAT(error("{" + tinyGpt2 + nested(key, "[", "]", 100000)), HasSubstr("more than 100 deep"));
    EXPECT_THAT(error("{" + tinyGpt2 + nested(key, "{\"a\":", "}", 100000)), HasSubstr("more than 100 deep"));
  }
  EXPECT_THAT(error(std::string(500000, '[')), HasSubstr("more than 100 deep"));
  EXPECT_THAT(error("{" + tinyGpt2 + nested("id2label", "[", "]", 100)), HasSubstr("more than 100 deep"));
  EXPECT_EQ(error("{" + tinyGpt2 + nested("id2label", "[", "]", 99)), "no error");
  EXPECT_EQ(error("{" + tinyGpt2 + ", \"prefix\": \"\\\"" + std::string(500, '[') + "\"}"), "no error")
      << "brackets in a string do not nest";
}

TEST_F(ConfigTest, KeysOfPublishedConfigsThatChangeNothing) {
  for (const char *keys : {R"("n_special": 0, "predict_special_tokens": true)", R"("output_past": true)",
                           R"("gradient_checkpointing": false)", R"("never_seen": null, "n_ctx": 1024)",
                           R"("do_sample": true, "max_length": 50, "torchscript": false)",
                           R"("_num_labels": 1, "attn_implementation": "sdpa", "tie_encoder_decoder": false)"})
    EXPECT_EQ(error("{" + tinyGpt2 + ", " + keys + "}"), "no error") << keys;
  EXPECT_EQ(error("{" + tinyLlama + R"(, "is_llama_config": true, "rope_interleaved": false,
                                         "transformers.js_config": {"dtype": "q4"}})"),
            "no error");
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rope_interleaved": true})"), HasSubstr("'rope_interleaved' is true"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "gradient_checkpointing": true})"), HasSubstr("not recomputed on request"));
}

TEST_F(ConfigTest, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "layer_norm_epsilon": -1e-5})"), HasSubstr("must not be negative"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "initializer_range": -0.02})"), HasSubstr("must not be negative"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rms_norm_eps": -1e-5})"), HasSubstr("must not be negative"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "initializer_range": -1})"), HasSubstr("must not be negative"));
  EXPECT_EQ(error("{" + tinyGpt2 + R"(, "layer_norm_epsilon": 0, "initializer_range": 0})"), "no error");
  EXPECT_THAT(error(R"({"model_type": "gpt2", "vocab_size": 1})"), HasSubstr("nothing to predict"));
  EXPECT_EQ(error(R"({"model_type": "gpt2", "vocab_size": 2, "n_layer": 1})"), "no error");
}

TEST_F(ConfigTest, ThePaddingTokenIsOneOfTheVocabulary) {
  for (const char *valid : {"0", "10", "-1", "-11", "null"})
    EXPECT_EQ(error("{" + tinyLlama + ", \"pad_token_id\": " + valid + "}"), "no error") << valid;
  write("{" + tinyLlama + ", \"pad_token_id\": -2}");
  Model model = loadIt();
  int64_t padding = -1;
  model.module->walk([&](mlir::Operation *op) {
    if (auto index = op->getAttrOfType<mlir::IntegerAttr>("dt.padding"))
      padding = index.getInt();
  });
  EXPECT_EQ(padding, 9) << "negative ids count from the end";
  for (const char *wrong : {"11", "-12", "18446744073709551615", "-9223372036854775808"})
    EXPECT_THAT(error("{" + tinyLlama + ", \"pad_token_id\": " + wrong + "}"), HasSubstr("no token of a vocabulary"))
        << wrong;
  EXPECT_THAT(error("{" + tinyLlama + ", \"pad_token_id\": \"0\"}"), HasSubstr("whole number"));
  EXPECT_EQ(error("{" + tinyGpt2 + ", \"pad_token_id\": 50257}"), "no error") << "gpt2 does not use it";
}

TEST_F(ConfigTest, RotarySettingsInTwoPlacesAreRefused) {
  EXPECT_THAT(
      error("{" + tinyLlama + R"(, "rope_scaling": {"type": "default"}, "rope_parameters": {"rope_theta": 5}})"),
      HasSubstr("leave one"));
  EXPECT_EQ(error("{" + tinyLlama + R"(, "rope_scaling": {}, "rope_parameters": {"rope_theta": 5}})"), "no error");
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
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_layer": 5001})"),
              HasSubstr("5001 layers; more than 5000 would not finish compiling"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": 1073741824, "n_head": 1})"), HasSubstr("10^15 elements"));
  EXPECT_THAT(error(R"({"model_type": "gpt2", "n_embd": 770})"), HasSubstr("is not a multiple of 12 heads (n_head)"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "num_key_value_heads": 3})"), HasSubstr("'num_key_value_heads' is 3"));
}

TEST_F(ConfigTest, UnsupportedFeaturesAreRefused) {
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "activation_function": "relu6"})"), HasSubstr("'activation_function'"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "activation_function": "gelu_now"})"), HasSubstr("did you mean 'gelu_new'?"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "add_cross_attention": true})"), HasSubstr("'add_cross_attention'"));
  EXPECT_THAT(error("{" + tinyGpt2 + R"(, "resid_pdrop": 1.0})"), HasSubstr("'resid_pdrop' must be a probability"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "sliding_window": 4096})"), HasSubstr("'sliding_window' is 4096"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})"),
              HasSubstr("rotary scaling \"llama3\""));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "rope_scaling": {"factor": 8.0}})"), HasSubstr("'factor': 8.0"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "head_dim": 3})"), HasSubstr("'head_dim' is 3"));
}

/// A window that holds the sequence hides nothing.
TEST_F(ConfigTest, WindowsMustHoldTheSequence) {
  std::string mistral = tinyDecoder("mistral"), qwen2 = tinyDecoder("qwen2");
  EXPECT_EQ(error("{" + mistral + R"(, "sliding_window": 8})"), "no error");
  EXPECT_EQ(error("{" + mistral + R"(, "sliding_window": 7})", {.batch = 2, .sequence = 7}), "no error");
  EXPECT_THAT(error("{" + mistral + R"(, "sliding_window": 7})"),
              HasSubstr("'sliding_window' is 7, shorter than the sequence of 8 tokens"));
  EXPECT_EQ(error("{" + qwen2 + R"(, "sliding_window": 7})"), "no error") << "qwen2 does not use it unasked";
  EXPECT_THAT(error("{" + qwen2 + R"(, "sliding_window": 7, "use_sliding_window": true})"), HasSubstr("shorter"));
  EXPECT_THAT(error("{" + tinyDecoder("llama") + R"(, "sliding_window": 4096})"),
              HasSubstr("'sliding_window' is 4096"));
  // Silent: the family's own, of 4096.
  std::string longer = R"("max_position_embeddings": 4097, "hidden_size": 8, "intermediate_size": 12,
                          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4)";
  EXPECT_THAT(error(R"({"model_type": "mistral", )" + longer + "}"), HasSubstr("is 4096, shorter than"));
  EXPECT_EQ(error(R"({"model_type": "mistral", "sliding_window": null, )" + longer + "}"), "no error");
  EXPECT_EQ(error(R"({"model_type": "qwen2", )" + longer + "}"), "no error");
}

TEST_F(ConfigTest, LayersAreOfAKnownType) {
  std::string qwen2 = tinyDecoder("qwen2");
  EXPECT_EQ(error("{" + qwen2 + R"(, "layer_types": ["full_attention"]})"), "no error");
  EXPECT_THAT(error("{" + qwen2 + R"(, "layer_types": ["sliding_attention"]})"), HasSubstr("\"sliding_attention\""));
  EXPECT_EQ(error("{" + qwen2 + R"(, "layer_types": ["sliding_attention"], "use_sliding_window": true})"), "no error");
  EXPECT_THAT(error("{" + qwen2 + R"(, "layer_types": ["chunked_attention"], "use_sliding_window": true})"),
              HasSubstr("\"chunked_attention\""));
  EXPECT_THAT(error("{" + qwen2 + R"(, "layer_types": []})"), HasSubstr("0 entries for 1 layers"));
  EXPECT_THAT(error("{" + qwen2 + R"(, "layer_types": "full_attention"})"), HasSubstr("must be a list"));
}

/// Which tensors the families' files have.
TEST_F(ConfigTest, BiasesAreWhereTheFamilyHasThem) {
  auto biases = [&](const std::string &config) {
    write("{" + config + "}");
    std::vector<std::string> names;
    Model model = loadIt();
    for (auto param :
         (*model.module)->getAttrOfType<mlir::ArrayAttr>("dt.parameters").getAsRange<mlir::dt::ParamAttr>())
      if (llvm::StringRef name = param.getName().getValue(); name.consume_back("_proj.bias"))
        names.push_back(name.rsplit('.').second.str());
    return names;
  };
  EXPECT_THAT(biases(tinyDecoder("llama")), ElementsAre());
  EXPECT_THAT(biases(tinyDecoder("llama") + R"(, "attention_bias": true)"), ElementsAre("q", "k", "v", "o"));
  EXPECT_THAT(biases(tinyDecoder("llama") + R"(, "mlp_bias": true)"), ElementsAre("gate", "up", "down"));
  EXPECT_THAT(biases(tinyDecoder("mistral")), ElementsAre());
  EXPECT_THAT(biases(tinyDecoder("qwen2")), ElementsAre("q", "k", "v"));
  EXPECT_THAT(error("{" + tinyDecoder("qwen2") + R"(, "attention_bias": true})"), HasSubstr("'attention_bias'"));
}

/// test/e2e/oracle/make_defaults.py has asked transformers.
TEST_F(ConfigTest, FamiliesAssumeWhatTransformersDoes) {
  std::ifstream file(std::string(DTC_SOURCE_DIR) + "/test/e2e/oracle/defaults.json");
  std::set<std::string_view> passedOver = {"pretraining_tp", "max_window_layers"};
  passedOver.insert(harmlessConfigKeys().begin(), harmlessConfigKeys().end());
  nlohmann::json recorded = nlohmann::json::parse(file);
  for (const auto &[family, theirs] : recorded.items()) {
    if (family == "transformers") // its version
      continue;
    const ConfigValues &ours = familyDefaults(family);
    EXPECT_FALSE(ours.empty()) << family;
    for (const auto &[key, value] : ours)
      EXPECT_EQ(value, theirs.value(key, nlohmann::json(false))) << family << ": " << key;
    for (const auto &[key, value] : theirs.items())
      EXPECT_TRUE(ours.contains(key) || value.is_null() || value == false || passedOver.contains(key))
          << family << ": " << key << " is " << value;
  }
}

/// Not the same as to be silent.
TEST_F(ConfigTest, NullKeyValueHeadsAreAsManyAsQueryHeads) {
  std::string sizes = R"("vocab_size": 11, "max_position_embeddings": 8, "hidden_size": 8, "intermediate_size": 12,
                         "num_hidden_layers": 1, "num_attention_heads": 4)";
  for (std::string family : {"llama", "qwen2"})
    EXPECT_EQ(error("{\"model_type\": \"" + family + R"(", "num_key_value_heads": null, )" + sizes + "}"), "no error");
  EXPECT_THAT(error(R"({"model_type": "mistral", "num_key_value_heads": null, )" + sizes + "}"), HasSubstr("is null"));
  EXPECT_EQ(error(R"({"model_type": "llama", "head_dim": null, )" + sizes + "}"), "no error");
  EXPECT_THAT(error(R"({"model_type": "qwen2", "head_dim": null, "num_key_value_heads": 4, )" + sizes + "}"),
              HasSubstr("'head_dim' is null"));
  EXPECT_THAT(error(R"({"model_type": "mistral", )" + sizes + "}"), HasSubstr("'num_key_value_heads' is 8"));
  EXPECT_THAT(error(R"({"model_type": "qwen2", )" + sizes + "}"), HasSubstr("'num_key_value_heads' is 32"));
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
