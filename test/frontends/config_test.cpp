// What a config.json may say, and the errors for what it may not: each names the file and the key.
#include "dialect/IR/Ops.h"
#include "frontends/Frontend.h"
#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Huggingface.h"
#include "runtime/support/error.h"
#include "runtime/weights/model_directory.h"
#include "test/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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

  /// The message of the error that loading throws; every such error is bad input.
  std::string error(const std::string &config, const ModelOptions &options = {}) {
    write(config);
    return test::refusalOf([&] { loadIt(options); });
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
  EXPECT_THAT(test::refusalOf([&] { load("no/such/model", {}, context); }), HasSubstr("no/such/model"));
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

/// What the files of well-known checkpoints say besides names of tokens.
TEST_F(ConfigTest, PublishedConfigsAreRead) {
  const std::pair<const char *, const char *> published[] = {
      {"Llama 3.2 1B", R"("model_type": "llama", "attention_bias": false, "attention_dropout": 0.0, "head_dim": 64,
        "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
        "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
        "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true, "vocab_size": 128256)"},
      {"Mistral 7B", R"("model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000)"},
      {"Qwen2.5 0.5B", R"("model_type": "qwen2", "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 896,
        "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
        "max_window_layers": 24, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
        "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936)"},
      {"Qwen3 0.6B", R"("model_type": "qwen3", "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128,
        "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
        "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
        "sliding_window": null, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936)"},
      {"OLMo 2 1B", R"("model_type": "olmo2", "attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 100277,
        "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false,
        "vocab_size": 100352)"},
      {"Phi-3 mini", R"("model_type": "phi3", "attention_bias": false, "attention_dropout": 0.0, "embd_pdrop": 0.0,
        "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192,
        "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
        "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": false,
        "vocab_size": 32064)"},
      {"Gemma 2 2B", R"("model_type": "gemma2", "attention_bias": false, "attention_dropout": 0.0,
        "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid", "final_logit_softcapping": 30.0,
        "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 8192,
        "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
        "vocab_size": 256000)"},
      {"Gemma 3 1B", R"("model_type": "gemma3_text", "attention_bias": false, "attention_dropout": 0.0,
        "attn_logit_softcapping": null, "cache_implementation": "hybrid", "final_logit_softcapping": null,
        "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
        "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26,
        "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
        "sliding_window_pattern": 6, "vocab_size": 262144)"},
      {"Pythia 160M", R"("model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 12,
        "num_hidden_layers": 12, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
        "use_parallel_residual": true, "vocab_size": 50304)"},
      {"SmolLM3 3B", R"("model_type": "smollm3", "attention_bias": false, "attention_dropout": 0.0,
        "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
        "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4,
        "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4, "pad_token_id": 128004,
        "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0,
        "sliding_window": null, "use_sliding_window": false, "vocab_size": 128256)"},
      {"Granite 3.1 2B", R"("model_type": "granite", "attention_bias": false, "attention_dropout": 0.1,
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 131072,
        "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
        "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null,
        "rope_theta": 5000000.0, "tie_word_embeddings": true, "vocab_size": 49155)"}};
  for (auto [name, config] : published)
    EXPECT_EQ(error(std::string("{") + config + "}", {.batch = 1, .sequence = 16}), "no error") << name;
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
      HasSubstr("keep only one"));
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
  auto rope = [&](const std::string &entries) {
    return error("{" + tinyLlama + R"(, "rope_scaling": {)" + entries + "}}");
  };
  EXPECT_THAT(rope(R"("rope_type": "dynamic", "factor": 2.0)"),
              HasSubstr("rotary scaling 'dynamic', which is not supported for this model family (supported: default, "
                        "linear, llama3, yarn)"));
  EXPECT_THAT(rope(R"("type": "longrope")"), HasSubstr("'longrope'"));
  EXPECT_THAT(rope(R"("factor": 8.0)"), HasSubstr("rope_scaling: key 'factor' is not known"));
  EXPECT_THAT(rope(R"("rope_type": "linear")"), HasSubstr("rope_scaling: key 'factor' is missing"));
  EXPECT_THAT(rope(R"("rope_type": "linear", "factor": 0.5)"), HasSubstr("'factor' must be at least 1, is 0.5"));
  EXPECT_THAT(rope(R"("rope_type": "yarn", "factor": 2, "beta_fast": 0)"), HasSubstr("'beta_fast' must be greater"));
  EXPECT_THAT(rope(R"("rope_type": "yarn", "factor": 2, "low_freq_factor": 1)"), HasSubstr("'low_freq_factor'"));
  EXPECT_THAT(rope(R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4)"),
              HasSubstr("'high_freq_factor' must be greater than low_freq_factor, 4, is 4"));
  EXPECT_EQ(rope(R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4)"), "no error");
  EXPECT_EQ(rope(R"("rope_type": "yarn", "type": "linear", "factor": 4)"), "no error") << "rope_type counts";
  EXPECT_THAT(error("{" + tinyLlama + R"(, "partial_rotary_factor": 0.5})"), HasSubstr("'partial_rotary_factor'"));
  EXPECT_THAT(error("{" + tinyLlama + R"(, "head_dim": 3})"), HasSubstr("'head_dim' is 3"));
}

/// Each layer's window, as the module has it.
TEST_F(ConfigTest, WindowsAreThoseOfTheLayers) {
  using Windows = std::vector<std::optional<int64_t>>;
  auto windows = [&](const std::string &config, int64_t sequence = 0) {
    Windows result;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        loadConfig("{" + config + "}", "config", {.batch = 2, .sequence = sequence}, context).module;
    module->walk([&](mlir::dt::AttentionOp op) { result.push_back(op.getWindow()); });
    return result;
  };
  std::string mistral = tinyDecoder("mistral"), qwen2 = tinyDecoder("qwen2"), gemma2 = tinyDecoder("gemma2");
  EXPECT_EQ(windows(mistral + R"(, "sliding_window": 8)"), Windows{std::nullopt}) << "it hides nothing";
  EXPECT_EQ(windows(mistral + R"(, "sliding_window": 7)"), Windows{7});
  EXPECT_EQ(windows(mistral + R"(, "sliding_window": 7)", 7), Windows{std::nullopt});
  EXPECT_EQ(windows(qwen2 + R"(, "sliding_window": 7)"), Windows{std::nullopt}) << "not used unasked";
  std::string used = R"(, "sliding_window": 7, "use_sliding_window": true)";
  EXPECT_EQ(windows(qwen2 + used), Windows{std::nullopt}) << "below the layers that have one";
  EXPECT_EQ(windows(qwen2 + used + R"(, "max_window_layers": 0)"), Windows{7});
  EXPECT_EQ(windows(qwen2 + used + R"(, "layer_types": ["sliding_attention"])"), Windows{7});
  EXPECT_EQ(windows(gemma2 + R"(, "sliding_window": 7, "layer_types": ["full_attention"])"), Windows{std::nullopt});
  EXPECT_EQ(windows(gemma2 + R"(, "sliding_window": 7)"), Windows{7});
  // Not stated: the family's own, of 4096.
  std::string longer = R"("max_position_embeddings": 4097, "hidden_size": 8, "intermediate_size": 12,
                          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4)";
  EXPECT_EQ(windows(R"("model_type": "mistral", )" + longer), Windows{4096});
  EXPECT_EQ(windows(R"("model_type": "mistral", "sliding_window": null, )" + longer), Windows{std::nullopt});
  EXPECT_EQ(windows(R"("model_type": "qwen2", )" + longer), Windows{std::nullopt});
  EXPECT_THAT(error("{" + mistral + R"(, "sliding_window": 0})"), HasSubstr("'sliding_window' must be a whole number"));
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

/// The tensors in the families' files.
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

/// test/e2e/oracle/make_defaults.py has recorded these from transformers.
TEST_F(ConfigTest, FamiliesAssumeWhatTransformersDoes) {
  std::ifstream file(std::string(DTC_SOURCE_DIR) + "/test/e2e/oracle/defaults.json");
  std::set<std::string_view> passedOver = {"max_window_layers"};
  passedOver.insert(harmlessConfigKeys().begin(), harmlessConfigKeys().end());
  nlohmann::json recorded = nlohmann::json::parse(file);
  for (const auto &[family, theirs] : recorded.items()) {
    if (family == "transformers") // its version
      continue;
    const ConfigValues &ours = huggingface::familyDefaults(family);
    EXPECT_FALSE(ours.empty()) << family;
    for (const auto &[key, value] : ours)
      if (family != "gemma2" || key != "sliding_window_pattern") // gemma2's files cannot change it
        EXPECT_EQ(value, theirs.value(key, nlohmann::json(false))) << family << ": " << key;
    for (const auto &[key, value] : theirs.items())
      EXPECT_TRUE(ours.contains(key) || value.is_null() || value == false || passedOver.contains(key))
          << family << ": " << key << " is " << value;
  }
}

/// The generated part of docs/families.md. With DTC_WRITE_PAGES in the environment it is written.
TEST_F(ConfigTest, ThePageOfFamiliesIsWhatTheCodeReads) {
  const std::string path = std::string(DTC_SOURCE_DIR) + "/docs/families.md";
  const std::string mark = "<!-- What follows is made from the code: docs/families.md in CONTRIBUTING.md. -->\n";
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  std::string text = page.str(), made = huggingface::describeFamilies();
  size_t begin = text.find(mark);
  ASSERT_NE(begin, text.npos);
  begin += mark.size();
  if (std::getenv("DTC_WRITE_PAGES"))
    std::ofstream(path) << text.substr(0, begin) << made;
  else
    EXPECT_EQ(text.substr(begin), made) << "docs/families.md is stale; CONTRIBUTING.md says how to regenerate it";
  std::ifstream file(std::string(DTC_SOURCE_DIR) + "/test/e2e/oracle/defaults.json");
  EXPECT_THAT(text, HasSubstr("transformers " + nlohmann::json::parse(file)["transformers"].get<std::string>()));
  std::string family = "frontends/huggingface/families/Qwen3.cpp", diff = "+++ " + family + "\n";
  std::ifstream source(std::string(DTC_SOURCE_DIR) + "/" + family);
  for (std::string line; std::getline(source, line);)
    diff += "+" + line + "\n";
  EXPECT_THAT(text, HasSubstr(diff + "```"));
}

/// Differs from leaving it out.
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
