#include "runtime/weights/model_directory.h"

#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/nesting.h"
#include "runtime/support/suggest.h"
#include "runtime/weights/config_rules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace fs = std::filesystem;
using nlohmann::json;

namespace dtc {

//===----------------------------------------------------------------------===//
// config.json
//===----------------------------------------------------------------------===//

[[noreturn]] static void refuse(const std::string &where, const std::string &why) {
  throw Error(ExitCode::BadInput, where + ": " + why);
}

static std::string readText(const std::string &path) {
  constexpr size_t limit = 1 << 20;
  std::error_code unreadable;
  if (!fs::exists(path, unreadable))
    refuse(path, "cannot be read; a model directory holds a config.json");
  MappedFile file(path);
  if (file.text().size() > limit)
    refuse(path, "is larger than 1 MB, which no model's configuration is");
  return std::string(file.text());
}

static json parseConfig(const std::string &text, const std::string &path) {
  if (jsonNestsDeeper(text))
    refuse(path, fmt::format(
                     "nests objects and arrays more than {} deep, which no model's configuration does; check the file",
                     jsonNestingLimit));
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception &error) {
    refuse(path, std::string("is not valid JSON: ") + error.what());
  }
  if (!root.is_object())
    refuse(path, std::string("must be a JSON object, is ") + root.type_name());
  return root;
}

ModelConfig ModelConfig::parse(std::string text, const std::string &path) {
  ModelConfig config;
  config.text = std::move(text);
  config.root = parseConfig(config.text, path);
  return config;
}

ModelConfig ModelConfig::read(const std::string &path) { return parse(readText(path), path); }

std::span<const std::string_view> harmlessConfigKeys() {
  static constexpr std::string_view keys[] = {
      "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "attn_implementation",
      "auto_map",
      // which tokens mean what
      "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "prefix", "sep_token_id",
      "tokenizer_class", "unk_token_id",
      // how it is stored and run
      "cache_implementation", "chunk_size_feed_forward", "dtype", "is_decoder", "is_llama_config", "n_ctx", "n_special",
      "output_attentions", "output_hidden_states", "output_past", "predict_special_tokens", "pretraining_tp",
      "reorder_and_upcast_attn", "return_dict", "torch_dtype", "torchscript", "transformers.js_config",
      "transformers_version", "use_cache",
      // heads that dtc does not train
      "_num_labels", "cross_attention_hidden_size", "finetuning_task", "id2label", "is_encoder_decoder", "label2id",
      "num_labels", "problem_type", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
      "summary_type", "summary_use_proj", "task_specific_params", "tie_encoder_decoder",
      // how text is generated
      "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
      "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
      "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
      "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
      "suppress_tokens", "temperature", "top_k", "top_p", "typical_p"};
  return keys;
}

//===----------------------------------------------------------------------===//
// Whether two models compute the same
//===----------------------------------------------------------------------===//

using Meaning = ConfigValues;

/// The entries of rope_scaling or rope_parameters: older files have the base and the share of a head's elements in
/// `theta` and `share`, and a default rotary has only these. Everything else goes to `rest`.
static void joinRotaryEntries(Meaning &meaning, json entries, const char *theta, const char *share, const char *rest) {
  for (auto [inside, outside] : {std::pair("rope_theta", theta), std::pair("partial_rotary_factor", share)})
    if (entries.contains(inside)) {
      meaning[outside] = entries[inside];
      entries.erase(inside);
    }
  json type = entries.value("rope_type", entries.value("type", json("default")));
  entries.erase("type");
  entries["rope_type"] = type;
  if (type == "default")
    entries.erase("rope_type");
  if (!entries.empty())
    meaning[rest] = entries;
}

/// Older files have rope_theta and rope_scaling, newer ones put both into rope_parameters, per layer type if they
/// differ.
static void joinRotary(Meaning &meaning) {
  const char *theta = meaning.contains("rotary_emb_base") ? "rotary_emb_base" : "rope_theta",
             *share = meaning.contains("rotary_pct") ? "rotary_pct" : "partial_rotary_factor";
  for (const char *key : {"rope_scaling", "rope_parameters"}) {
    auto found = meaning.find(key);
    if (found == meaning.end() || !found->second.is_object())
      continue;
    json entries = found->second;
    meaning.erase(found);
    if (entries.contains("full_attention") || entries.contains("sliding_attention")) {
      if (json local = entries.value("sliding_attention", json::object()); local.is_object())
        joinRotaryEntries(meaning, local, "rope_local_base_freq", share, "rope_parameters of sliding_attention");
      entries = entries.value("full_attention", json::object());
    }
    if (entries.is_object())
      joinRotaryEntries(meaning, entries, theta, share, "rope_parameters");
  }
}

/// Sets each layer's kind if the lists of layers are absent.
static void fillLayers(Meaning &meaning) {
  auto number = [&](const char *key, int64_t absent) {
    return meaning.contains(key) && meaning[key].is_number_integer() ? meaning[key].get<int64_t>() : absent;
  };
  int64_t layers = number("num_hidden_layers", 0), interval = number("no_rope_layer_interval", 0);
  int64_t pattern = number("sliding_window_pattern", 0);
  constexpr int64_t most = 100000; // no real model has more
  if (layers > most)
    return;
  if (interval > 0 && !meaning.contains("no_rope_layers"))
    for (int64_t i = 0; i < layers; ++i)
      meaning["no_rope_layers"].push_back(config_rules::isNotEveryNth(i, interval) ? 1 : 0);
  if (meaning.contains("sliding_window") && !meaning.contains("layer_types")) {
    int64_t first = number("max_window_layers", layers);
    auto hasWindow = [&](int64_t i) {
      return pattern > 0    ? config_rules::isNotEveryNth(i, pattern)
             : interval > 0 ? meaning["no_rope_layers"][i] == 0
                            : config_rules::isUpperLayer(i, first);
    };
    bool isListed = pattern > 0 || interval > 0 || meaning.contains("max_window_layers");
    for (int64_t i = 0; isListed && i < layers; ++i)
      meaning["layer_types"].push_back(hasWindow(i) ? "sliding_attention" : "full_attention");
  }
  for (const char *key : {"no_rope_layer_interval", "sliding_window_pattern", "_sliding_window_pattern"})
    meaning.erase(key);
  if (meaning.contains("layer_types"))
    meaning.erase("max_window_layers");
}

/// Fills in absent keys that depend on other keys, and unifies synonyms of activations.
static void fillDerived(Meaning &meaning) {
  auto whole = [&](const char *key) { return meaning.contains(key) && meaning[key].is_number_integer(); };
  auto derive = [&](const char *key, std::optional<int64_t> value) {
    if (!meaning.contains(key) && value)
      meaning[key] = *value;
  };
  if (auto used = meaning.find("use_sliding_window"); used != meaning.end() && used->second == false)
    for (const char *key : {"sliding_window", "max_window_layers", "layer_types"})
      meaning.erase(key);
  if (whole("n_embd"))
    derive("n_inner", config_rules::innerSize(meaning["n_embd"].get<int64_t>()));
  if (whole("num_attention_heads") && whole("hidden_size")) {
    int64_t heads = meaning["num_attention_heads"].get<int64_t>();
    int64_t hidden = meaning["hidden_size"].get<int64_t>();
    derive("num_key_value_heads", config_rules::keyValueHeads(heads));
    derive("head_dim", heads > 0 ? std::optional(config_rules::headSize(hidden, heads)) : std::nullopt);
  }
  for (const char *key : {"activation_function", "hidden_act", "hidden_activation"})
    if (auto found = meaning.find(key); found != meaning.end() && found->second.is_string())
      if (std::string_view common = config_rules::commonActivation(found->second.get<std::string>()); !common.empty())
        found->second = common;
}

/// The keys that decide what a model computes from its weights, each with a normalised value. False and null count as
/// absent.
static Meaning meaningOf(const json &config, const Meaning &defaults) {
  static const std::set<std::string_view> withoutEffect = {"attention_dropout",
                                                           "attn_pdrop",
                                                           "embd_pdrop",
                                                           "resid_pdrop",
                                                           "gradient_checkpointing",
                                                           "initializer_range",
                                                           "max_position_embeddings",
                                                           "hidden_dropout",
                                                           "classifier_dropout"};
  std::span<const std::string_view> harmless = harmlessConfigKeys();
  Meaning meaning = defaults;
  for (const auto &[key, value] : config.items())
    if (!value.is_null() && std::ranges::find(harmless, key) == harmless.end())
      meaning[key] = value;
    else if (value.is_null() &&
             (key == "sliding_window" || key == "num_key_value_heads" || key.ends_with("softcapping")))
      meaning.erase(key); // no window or cap, and as many as query heads: not the default
  std::erase_if(meaning, [](const auto &entry) { return withoutEffect.contains(entry.first); });
  joinRotary(meaning);
  fillDerived(meaning);
  fillLayers(meaning);
  std::erase_if(meaning, [](const auto &entry) { return entry.second == false; });
  return meaning;
}

ProgramConfig ProgramConfig::of(const abi::Manifest &manifest) {
  return {manifest.model_config_json(), manifest.model_defaults_json()};
}

void requireSameModel(const ProgramConfig &carried, const std::string &directory) {
  if (carried.text.empty())
    return;
  std::string path = (fs::path(directory) / "config.json").string();
  Meaning defaults;
  if (!carried.defaults.empty())
    defaults = parseConfig(carried.defaults, "damaged program: the defaults of its family").get<Meaning>();
  Meaning program = meaningOf(parseConfig(carried.text, "damaged program: its config.json"), defaults);
  Meaning theirs = meaningOf(ModelConfig::read(path).root, defaults); // of another family: it is refused
  auto text = [](const Meaning &meaning, const std::string &key) {
    auto found = meaning.find(key);
    return found == meaning.end() ? "absent or false" : found->second.dump();
  };
  std::set<std::string> keys = {"model_type"};
  for (const Meaning *meaning : {&program, &theirs})
    for (const auto &[key, value] : *meaning)
      keys.insert(key);
  auto differs = [&](const std::string &key) {
    auto mine = program.find(key), other = theirs.find(key);
    bool has = mine != program.end(), otherHas = other != theirs.end();
    return has != otherHas || (has && mine->second != other->second);
  };
  auto key = differs("model_type") ? keys.find("model_type") : std::ranges::find_if(keys, differs);
  if (key != keys.end())
    refuse(path, fmt::format("key '{}' is {}, but the program was compiled with {}: it would compute something else "
                             "from these weights; compile it from this directory",
                             *key, text(theirs, *key), text(program, *key)));
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Buffers that some writers store although they are not parameters.
static bool isBuffer(std::string_view name) {
  for (std::string_view end :
       {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq"})
    if (name.ends_with(end))
      return true;
  return false;
}

static bool sameValues(const SafetensorsModel::Found &a, const SafetensorsModel::Found &b) {
  if (a.entry->shape != b.entry->shape)
    return false;
  if (a.entry->type == b.entry->type)
    return std::ranges::equal(a.file->bytes(*a.entry), b.file->bytes(*b.entry));
  constexpr int64_t block = 1 << 14;
  std::vector<double> left(block), right(block);
  for (int64_t first = 0; first < a.entry->elements(); first += block) {
    size_t count = static_cast<size_t>(std::min(block, a.entry->elements() - first));
    a.file->read(*a.entry, first, 1, std::span(left).first(count));
    b.file->read(*b.entry, first, 1, std::span(right).first(count));
    if (!std::equal(left.begin(), left.begin() + count, right.begin()))
      return false;
  }
  return true;
}

static void requireEqual(const SafetensorsModel::Found &other, const std::string &name,
                         const SafetensorsModel::Found &own, const std::string &parameter) {
  if (!sameValues(other, own))
    refuse(other.file->path(),
           fmt::format("tensor '{}' is not equal to '{}', but the model ties them (tie_word_embeddings) and would "
                       "ignore it; set tie_word_embeddings to false in config.json to train both, or remove the "
                       "tensor",
                       name, parameter));
}

void requireKnownTensors(const SafetensorsModel &weights, std::span<const ParameterNames> parameters,
                         const std::string &where) {
  std::set<const SafetensorsEntry *> used;
  std::map<const SafetensorsEntry *, const std::string *> tied; // to which parameter
  std::vector<std::string_view> names;
  for (const ParameterNames &parameter : parameters) {
    names.push_back(parameter.name);
    SafetensorsModel::Found own = weights.find(parameter.name);
    if (!own)
      continue; // reported when it is read
    used.insert(own.entry);
    for (const std::string &other : parameter.tied)
      tied.emplace(weights.find(other).entry, &parameter.name);
  }
  for (const std::string &name : weights.names()) {
    SafetensorsModel::Found found = weights.find(name);
    if (used.contains(found.entry) || isBuffer(name))
      continue;
    auto parameter = tied.find(found.entry);
    if (parameter == tied.end())
      refuse(where,
             fmt::format("the weights hold a tensor '{}' that the model lacks{}", name, didYouMean(name, names)));
    requireEqual(found, name, weights.find(*parameter->second), *parameter->second);
  }
}

/// How to convert an unsupported file to a supported one.
static std::string remedyFor(const fs::path &file) {
  if (file.filename() == "model.safetensors" || file.filename() == "model.safetensors.index.json")
    return "it cannot be opened; is it a link to a file that is not there?";
  if (file.extension() == ".safetensors")
    return "only model.safetensors and the files that model.safetensors.index.json lists are read; rename it to "
           "model.safetensors if it is the whole model";
  return "only safetensors are read; convert it, as by transformers' "
         "AutoModelForCausalLM.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)";
}

bool hasWeights(const std::string &directory) {
  if (SafetensorsModel::present(directory))
    return true;
  static const std::set<std::string> kinds = {".safetensors", ".bin",  ".pt",   ".pth",  ".ckpt", ".h5",
                                              ".msgpack",     ".gguf", ".ggml", ".onnx", ".npz",  ".index"};
  static const std::set<std::string> otherFiles = {"training_args.bin", "optimizer.pt",  "scheduler.pt",
                                                   "optimizer.bin",     "scheduler.bin", "optimizer.safetensors"};
  std::vector<fs::path> found;
  std::error_code unreadable;
  for (const fs::directory_entry &entry : fs::directory_iterator(directory, unreadable)) {
    std::string name = entry.path().filename();
    bool indexOfShards = name.ends_with(".index.json");
    if ((kinds.contains(entry.path().extension()) || indexOfShards) && !otherFiles.contains(name) &&
        !name.starts_with("rng_state"))
      found.push_back(entry.path());
  }
  if (unreadable)
    refuse(directory, "cannot be listed: " + unreadable.message());
  if (found.empty())
    return false;
  fs::path first = *std::ranges::min_element(found);
  refuse(first, fmt::format("these weights would be ignored: {}. To train from random weights instead, use a "
                            "directory that holds the config.json alone",
                            remedyFor(first)));
}

SafetensorsModel openWeights(const std::string &directory, const ProgramConfig &program,
                             std::span<const ParameterNames> parameters) {
  std::error_code unreadable;
  if (!fs::is_directory(directory, unreadable))
    refuse(directory, "is not a directory; give the one that holds config.json and model.safetensors");
  hasWeights(directory);
  SafetensorsModel weights(directory);
  requireSameModel(program, directory);
  requireKnownTensors(weights, parameters, directory);
  return weights;
}

} // namespace dtc
