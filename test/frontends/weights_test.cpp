// Weights next to a config.json have to be the model's. The models are those recorded with PyTorch.
#include "frontends/Frontend.h"
#include "frontends/huggingface/Families.h"
#include "runtime/support/error.h"
#include "runtime/weights/model_directory.h"
#include "test/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
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

  std::filesystem::path copy() const {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    return std::filesystem::temp_directory_path() / ("dtc_weights_" + std::string(info->name()));
  }
  void TearDown() override { std::filesystem::remove_all(copy()); }

  /// A copy of a recorded model's directory without its weights.
  void copyConfig(const std::string &model) {
    std::filesystem::remove_all(copy());
    std::filesystem::create_directories(copy());
    std::filesystem::copy_file(recorded(model) / "config.json", copy() / "config.json");
  }
  void copyWeights(const std::string &model, const std::string &name = "model.safetensors") {
    std::filesystem::copy_file(recorded(model) / "model.safetensors", copy() / name);
  }
  void setKey(const std::string &key, const nlohmann::json &value) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(copy() / "config.json"));
    config[key] = value;
    std::ofstream(copy() / "config.json") << config;
  }

  std::string error() {
    return dtc::test::refusalOf([&] { load(copy().string(), {}, context); });
  }

  /// What a program of this config.json carries.
  ProgramConfig programOf(const nlohmann::json &config) {
    const ConfigValues &defaults = huggingface::familyDefaults(config["model_type"].get<std::string>());
    return {config.dump(), nlohmann::json(defaults).dump()};
  }

  /// The error of loading a recorded model whose config says `value` for `key`.
  std::string errorWith(const std::string &model, const std::string &key, const nlohmann::json &value) {
    copyConfig(model);
    copyWeights(model);
    setKey(key, value);
    return error();
  }

  /// Adds a tensor with the values of another one, one of which is multiplied by `factor`, to the copy's weights.
  void addTensor(const std::string &name, const std::string &like, float factor = 1) {
    std::ifstream in(copy() / "model.safetensors", std::ios::binary);
    std::string file((std::istreambuf_iterator<char>(in)), {});
    uint64_t length;
    std::memcpy(&length, file.data(), 8);
    nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
    std::string data = file.substr(8 + length);
    uint64_t begin = header[like]["data_offsets"][0], end = header[like]["data_offsets"][1];
    std::string values = data.substr(begin, end - begin);
    float last;
    std::memcpy(&last, values.data() + values.size() - 4, 4);
    last *= factor;
    std::memcpy(values.data() + values.size() - 4, &last, 4);
    header[name] = {{"dtype", "F32"},
                    {"shape", header[like]["shape"]},
                    {"data_offsets", {data.size(), data.size() + values.size()}}};
    std::string text = header.dump();
    length = text.size();
    std::ofstream out(copy() / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char *>(&length), 8);
    out << text << data << values;
  }

  mlir::MLIRContext context;
};

TEST_P(WeightsTest, WhatTransformersSavesFits) {
  Model model = load(recorded(GetParam()).string(), {.sequence = 16}, context);
  EXPECT_EQ(model.weightsDirectory, recorded(GetParam()).string());
}

TEST_P(WeightsTest, AShrunkModelDoesNotUseThem) {
  EXPECT_EQ(load(recorded(GetParam()).string(), {.sequence = 16, .symbols = {{"vocab", 7}}}, context).weightsDirectory,
            "");
}

INSTANTIATE_TEST_SUITE_P(Recorded, WeightsTest,
                         testing::Values("gpt2", "llama", "llama_biases", "llama_tied", "mistral", "qwen2", "qwen3",
                                         "olmo2", "phi3", "gemma2", "gemma3_text", "gpt_neox", "gpt_neox_serial",
                                         "smollm3", "granite"),
                         [](const auto &info) { return std::string(info.param); });

using WeightErrorsTest = WeightsTest;

TEST_F(WeightErrorsTest, AnotherShapeNamesTheTensor) {
  EXPECT_THAT(errorWith("gpt2", "n_inner", 48), HasSubstr("tensor 'h.0.mlp.c_fc.weight' has shape [16, 64]; "
                                                          "config.json makes it [16, 48]"));
  EXPECT_THAT(errorWith("llama", "num_key_value_heads", 1), HasSubstr("'model.layers.0.self_attn.k_proj.weight'"));
}

/// Older files say the same by other keys, and leave to the family what newer ones list.
TEST_F(WeightErrorsTest, OldAndNewConfigsAreTheSame) {
  using nlohmann::json;
  auto older = [&](const std::string &model, const json &changes) {
    json config = json::parse(std::ifstream(recorded(model) / "config.json"));
    for (const char *key : {"rope_parameters", "layer_types", "no_rope_layers", "_sliding_window_pattern"})
      config.erase(key);
    config.update(changes);
    copyConfig(model);
    return dtc::test::refusalOf([&] { requireSameModel(programOf(config), copy().string()); });
  };
  EXPECT_EQ(older("llama_llama3", {{"rope_theta", 100.0},
                                   {"rope_scaling",
                                    {{"type", "llama3"},
                                     {"factor", 8.0},
                                     {"low_freq_factor", 1.0},
                                     {"high_freq_factor", 4.0},
                                     {"original_max_position_embeddings", 64}}}}),
            "no error");
  EXPECT_EQ(older("qwen3", {{"rope_theta", 100.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}}),
            "no error");
  EXPECT_EQ(older("phi3", {{"rope_theta", 100.0}, {"partial_rotary_factor", 0.5}}), "no error");
  EXPECT_EQ(older("gpt_neox", {{"rotary_emb_base", 100.0}, {"rotary_pct", 0.5}}), "no error");
  EXPECT_EQ(older("gemma2", {{"rope_theta", 100.0}}), "no error");
  json gemma3 = {{"rope_theta", 1000.0},
                 {"rope_local_base_freq", 50.0},
                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  EXPECT_EQ(older("gemma3_text", gemma3), "no error");
  EXPECT_EQ(older("smollm3", {{"rope_theta", 100.0}}), "no error");
  // And real differences are found.
  EXPECT_THAT(older("qwen3", {{"rope_theta", 100.0}}), HasSubstr("rope_parameters"));
  EXPECT_THAT(older("gpt_neox", {{"rotary_emb_base", 100.0}}), HasSubstr("rotary_pct"));
  gemma3["rope_local_base_freq"] = 60.0;
  EXPECT_THAT(older("gemma3_text", gemma3), HasSubstr("rope_local_base_freq"));
  EXPECT_THAT(older("gemma3_text", {{"sliding_window_pattern", 3}}), HasSubstr("layer_types"));
  EXPECT_THAT(older("smollm3", {{"no_rope_layer_interval", 3}}), HasSubstr("layer_types"));
  EXPECT_THAT(older("gemma2", {{"rope_theta", 100.0}, {"final_logit_softcapping", nullptr}}), HasSubstr("softcapping"));
}

/// A missing window equals none, and an unused one has no effect.
TEST_F(WeightErrorsTest, WindowsAreCompared) {
  auto differs = [&](const std::string &model, const nlohmann::json &one, const nlohmann::json &other) {
    nlohmann::json program = nlohmann::json::parse(std::ifstream(recorded(model) / "config.json"));
    program.update(one);
    copyConfig(model);
    for (const auto &[key, value] : other.items())
      setKey(key, value);
    return dtc::test::refusalOf([&] { requireSameModel(programOf(program), copy().string()); });
  };
  using nlohmann::json;
  EXPECT_EQ(differs("mistral", json::object(), json::object()), "no error");
  EXPECT_EQ(differs("mistral", {{"sliding_window", nullptr}}, {{"sliding_window", nullptr}}), "no error");
  EXPECT_THAT(differs("mistral", {{"sliding_window", nullptr}}, {{"sliding_window", 4096}}),
              HasSubstr("sliding_window"));
  EXPECT_THAT(differs("qwen2", {{"num_key_value_heads", nullptr}}, {{"num_key_value_heads", 2}}),
              HasSubstr("num_key_value_heads"));
  EXPECT_EQ(differs("qwen2", {{"num_key_value_heads", nullptr}}, {{"num_key_value_heads", 4}}), "no error");
  EXPECT_EQ(differs("qwen2", {{"sliding_window", 4}}, {{"max_window_layers", 1}}), "no error");
  EXPECT_THAT(differs("qwen2", {{"use_sliding_window", true}, {"sliding_window", 4}}, {{"sliding_window", 4}}),
              HasSubstr("would compute something else"));
}

TEST_F(WeightErrorsTest, AMissingTensorIsNamed) {
  EXPECT_THAT(errorWith("gpt2", "n_layer", 3), HasSubstr("no tensor 'h.2.ln_1.weight'"));
  EXPECT_THAT(errorWith("llama_tied", "tie_word_embeddings", false), HasSubstr("no tensor 'lm_head.weight'"));
}

TEST_F(WeightErrorsTest, ATensorTooManyIsNamed) {
  EXPECT_THAT(errorWith("gpt2", "n_layer", 1), HasSubstr("a tensor 'h.1."));
}

TEST_F(WeightErrorsTest, BuffersThatSomeWritersStoreArePassedOver) {
  copyConfig("gpt2");
  copyWeights("gpt2");
  addTensor("h.0.attn.bias", "ln_f.weight");
  addTensor("h.0.attn.masked_bias", "ln_f.weight");
  EXPECT_EQ(error(), "no error");
  addTensor("h.0.attn.q_proj.bias", "ln_f.weight");
  EXPECT_THAT(error(), HasSubstr("a tensor 'h.0.attn.q_proj.bias' that the model lacks"));
}

TEST_F(WeightErrorsTest, AnOutputProjectionOfItsOwnIsNotDroppedWhereTheConfigTiesIt) {
  for (auto [model, embedding] :
       {std::pair("gpt2", "wte.weight"), std::pair("llama_tied", "model.embed_tokens.weight")}) {
    copyConfig(model);
    copyWeights(model);
    addTensor("lm_head.weight", embedding);
    EXPECT_EQ(error(), "no error") << model;
    copyConfig(model);
    copyWeights(model);
    addTensor("lm_head.weight", embedding, 1.0001f);
    EXPECT_THAT(error(), HasSubstr("tensor 'lm_head.weight' is not equal to '" + std::string(embedding)));
    copyConfig(model);
    copyWeights(model);
    addTensor("lm_head.weight", model == std::string("gpt2") ? "ln_f.weight" : "model.norm.weight");
    EXPECT_THAT(error(), HasSubstr("tensor 'lm_head.weight' is not equal to")) << "another shape";
  }
}

TEST_F(WeightErrorsTest, WeightsThatWouldBeIgnoredAreRefused) {
  for (const char *name : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "tf_model.h5", "flax_model.msgpack",
                           "model-00001-of-00001.safetensors", "weights.safetensors", "gpt.gguf",
                           "pytorch_model.bin.index.json", "consolidated.00.pth"}) {
    copyConfig("gpt2");
    copyWeights("gpt2", name);
    EXPECT_THAT(error(), HasSubstr((copy() / name).string() + ": these weights would be ignored")) << name;
  }
  EXPECT_THAT(error(), HasSubstr("save_pretrained"));
  copyConfig("gpt2");
  std::filesystem::create_symlink("no/such/blob", copy() / "model.safetensors");
  EXPECT_THAT(error(), HasSubstr("link to a file that is not there"));
}

TEST_F(WeightErrorsTest, OtherFilesAreNoWeights) {
  copyConfig("gpt2");
  for (const char *name : {"tokenizer.json", "merges.txt", "training_args.bin", "optimizer.pt", "README.md"})
    std::ofstream(copy() / name) << "x";
  EXPECT_EQ(load(copy().string(), {}, context).weightsDirectory, "");
  copyWeights("gpt2");
  std::ofstream(copy() / "pytorch_model.bin") << "x";
  EXPECT_EQ(load(copy().string(), {}, context).weightsDirectory, copy().string()) << "the same weights twice";
}

/// The parameters of a program that starts from the weights of a directory.
struct SameModelTest : WeightsTest {
  std::string errorBetween(const std::string &model, const nlohmann::json &program, const nlohmann::json &weights) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(recorded(model) / "config.json")), theirs = config;
    config.merge_patch(program);
    theirs.merge_patch(weights);
    copyConfig(model);
    std::ofstream(copy() / "config.json") << theirs;
    return dtc::test::refusalOf([&] { requireSameModel(programOf(config), copy().string()); });
  }
};

TEST_F(SameModelTest, EveryKeyThatMattersIsCompared) {
  using nlohmann::json;
  for (const json &change : std::vector<json>{{{"layer_norm_epsilon", 1e-6}},
                                              {{"activation_function", "gelu"}},
                                              {{"scale_attn_weights", false}},
                                              {{"scale_attn_by_inverse_layer_idx", true}},
                                              {{"tie_word_embeddings", false}},
                                              {{"n_head", 2}},
                                              {{"n_inner", 65}},
                                              {{"a_new_key", 1}},
                                              {{"model_type", "llama"}}}) {
    std::string key = change.begin().key();
    EXPECT_THAT(errorBetween("gpt2", json::object(), change), HasSubstr("config.json: key '" + key + "' is "))
        << change;
    EXPECT_THAT(errorBetween("gpt2", change, json::object()), HasSubstr("config.json: key '" + key + "' is "))
        << change;
  }
  for (const json &change : std::vector<json>{{{"rms_norm_eps", 1e-6}},
                                              {{"hidden_act", "gelu"}},
                                              {{"rope_parameters", {{"factor", 8}, {"rope_type", "llama3"}}}},
                                              {{"num_key_value_heads", nullptr}},
                                              {{"head_dim", 8}},
                                              {{"attention_bias", true}}}) {
    std::string key = change.begin().key();
    EXPECT_THAT(errorBetween("llama", json::object(), change), HasSubstr("key '" + key + "' is ")) << change;
  }
  for (const json &change : std::vector<json>{{{"rope_parameters", {{"rope_theta", 500000}}}},
                                              {{"rope_theta", 500000}, {"rope_parameters", nullptr}}})
    EXPECT_THAT(errorBetween("llama", json::object(), change),
                HasSubstr("key 'rope_theta' is 500000, but the program was compiled with 10000"));
}

TEST_F(SameModelTest, WhatOnlyLooksDifferentIsAccepted) {
  using nlohmann::json;
  for (const json &change : std::vector<json>{{{"n_inner", 64}},
                                              {{"attn_pdrop", 0.5}},
                                              {{"initializer_range", 0.1}},
                                              {{"activation_function", "gelu_pytorch_tanh"}},
                                              {{"scale_attn_weights", nullptr}},
                                              {{"bos_token_id", 7}, {"dtype", "bfloat16"}},
                                              {{"add_cross_attention", nullptr}}})
    EXPECT_EQ(errorBetween("gpt2", json::object(), change), "no error") << change;
  for (const json &change : std::vector<json>{{{"rope_theta", 10000}, {"rope_parameters", nullptr}},
                                              {{"rope_scaling", {{"type", "default"}}}},
                                              {{"head_dim", nullptr}},
                                              {{"hidden_act", "swish"}},
                                              {{"max_position_embeddings", 4096}}})
    EXPECT_EQ(errorBetween("llama", json::object(), change), "no error") << change;
}

TEST_F(SameModelTest, AModelGivenAsTextIsComparedWithNothing) {
  EXPECT_NO_THROW(requireSameModel({}, "no/such/directory"));
  EXPECT_THAT(dtc::test::refusalOf([] {
                requireSameModel({"{}", ""}, "no/such/directory");
              }),
              HasSubstr("config.json: cannot be read"));
}

} // namespace
