// A model's config.json, read strictly.
#include "frontends/huggingface/Config.h"

#include "runtime/abi/suggest.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

using namespace dtc;
using namespace dtc::huggingface;
using nlohmann::json;

/// Keys that Hugging Face writes into every config.json and that change nothing in training.
static constexpr std::string_view harmlessKeys[] = {"_attn_implementation_autoset",
                                                    "_commit_hash",
                                                    "_name_or_path",
                                                    "architectures",
                                                    "auto_map",
                                                    "bos_token_id",
                                                    "chunk_size_feed_forward",
                                                    "decoder_start_token_id",
                                                    "dtype",
                                                    "eos_token_id",
                                                    "finetuning_task",
                                                    "id2label",
                                                    "is_decoder",
                                                    "is_encoder_decoder",
                                                    "label2id",
                                                    "n_ctx",
                                                    "output_attentions",
                                                    "output_hidden_states",
                                                    "pad_token_id",
                                                    "prefix",
                                                    "problem_type",
                                                    "reorder_and_upcast_attn",
                                                    "return_dict",
                                                    "sep_token_id",
                                                    "summary_activation",
                                                    "summary_first_dropout",
                                                    "summary_proj_to_labels",
                                                    "summary_type",
                                                    "summary_use_proj",
                                                    "task_specific_params",
                                                    "tokenizer_class",
                                                    "torch_dtype",
                                                    "transformers_version",
                                                    "unk_token_id",
                                                    "use_cache"};

static std::string readText(const std::string &path) {
  constexpr std::streamsize limit = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ExitCode::BadInput, path + ": cannot be read; a model directory holds a config.json");
  std::string text(limit + 1, '\0');
  file.read(text.data(), limit + 1);
  if (file.gcount() > limit)
    throw Error(ExitCode::BadInput, path + ": is larger than 1 MB, which no model's configuration is");
  text.resize(file.gcount());
  return text;
}

Config::Config(const std::string &path) : path(path), fileText(readText(path)) {
  try {
    root = json::parse(fileText);
  } catch (const json::exception &error) {
    throw Error(ExitCode::BadInput, path + ": is not valid JSON: " + error.what());
  }
  if (!root.is_object())
    throw Error(ExitCode::BadInput, path + ": must be a JSON object, is " + root.type_name());
}

void Config::fail(std::string_view key, const std::string &problem) const {
  throw Error(ExitCode::BadInput, path + ": key '" + std::string(key) + "' " + problem);
}

const json *Config::find(std::string_view key) {
  asked.emplace(key);
  auto found = root.find(std::string(key));
  return found == root.end() || found->is_null() ? nullptr : &*found;
}

int64_t Config::size(std::string_view key, std::optional<int64_t> absent) {
  const json *value = find(key);
  if (!value && absent)
    return *absent;
  if (!value)
    fail(key, "is missing");
  // JSON numbers may exceed any integer type: what does not fit 64 bits is parsed as floating point and refused here.
  constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  if (!value->is_number_integer() || (!value->is_number_unsigned() && value->get<int64_t>() < 1) ||
      value->get<uint64_t>() < 1 || value->get<uint64_t>() > limit)
    fail(key, "must be a whole number between 1 and 2147483647, is " + value->dump());
  return value->get<int64_t>();
}

double Config::number(std::string_view key, std::optional<double> absent) {
  const json *value = find(key);
  if (!value && absent)
    return *absent;
  if (!value)
    fail(key, "is missing");
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    fail(key, "must be a number, is " + value->dump());
  return value->get<double>();
}

double Config::probability(std::string_view key, double absent) {
  double value = number(key, absent);
  if (!(value >= 0 && value < 1))
    fail(key, "must be a probability of at least 0 and below 1, is " + std::to_string(value));
  return value;
}

bool Config::flag(std::string_view key, bool absent) {
  const json *value = find(key);
  if (!value)
    return absent;
  if (!value->is_boolean())
    fail(key, "must be true or false, is " + value->dump());
  return value->get<bool>();
}

std::string Config::word(std::string_view key, std::optional<std::string> absent) {
  const json *value = find(key);
  if (!value && absent)
    return *absent;
  if (!value)
    fail(key, "is missing");
  if (!value->is_string())
    fail(key, "must be a string, is " + value->dump());
  return value->get<std::string>();
}

Activation Config::activation(std::string_view key, std::string_view absent) {
  static const std::map<std::string, Activation, std::less<>> known = {
      {"gelu_new", Activation::GeluTanh}, {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu", Activation::Gelu},         {"silu", Activation::Silu},
      {"swish", Activation::Silu},        {"tanh", Activation::Tanh}};
  std::string name = word(key, std::string(absent));
  auto found = known.find(name);
  if (found != known.end())
    return found->second;
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const auto &[knownName, function] : known)
    names.push_back(knownName);
  fail(key, "names the activation '" + name + "', which is not supported" + didYouMean(name, names) +
                " (supported: gelu_new, gelu_pytorch_tanh, gelu, silu, swish, tanh)");
}

const json *Config::object(std::string_view key) {
  const json *value = find(key);
  if (value && !value->is_object())
    fail(key, "must be an object or null, is " + value->dump());
  return value;
}

void Config::mustBeUnset(std::string_view key, std::string_view why) {
  const json *value = find(key);
  if (value && *value != false)
    fail(key, "is " + value->dump() + ": " + std::string(why));
}

void Config::checkAllUsed(std::initializer_list<std::string_view> ignored) {
  asked.insert(std::begin(harmlessKeys), std::end(harmlessKeys));
  asked.insert(ignored.begin(), ignored.end());
  for (const auto &item : root.items())
    if (!asked.contains(item.key()))
      fail(item.key(),
           "is not known for this model family, so what it changes would be ignored" + didYouMean(item.key(), asked));
}
