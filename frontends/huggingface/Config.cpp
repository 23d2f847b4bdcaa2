// A model's config.json, read strictly.
#include "frontends/huggingface/Config.h"

#include "frontends/huggingface/Families.h"
#include "runtime/support/suggest.h"
#include "runtime/weights/config_rules.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <vector>

using namespace dtc;
using namespace dtc::huggingface;
using nlohmann::json;

/// The defaults of the family that the file names; the reader of "model_type" complains where it names none.
static const ConfigValues &defaultsOf(const json &config) {
  auto type = config.find("model_type");
  return familyDefaults(type != config.end() && type->is_string() ? type->get<std::string>() : "");
}

Config::Config(const std::string &path) : path(path), file(ModelConfig::read(path)), defaults(&defaultsOf(file.root)) {}

Config::Config(const std::string &text, const std::string &path)
    : path(path), file(ModelConfig::parse(text, path)), defaults(&defaultsOf(file.root)) {}

void Config::fail(std::string_view key, const std::string &problem) const {
  throw Error(ExitCode::BadInput, path + ": key '" + std::string(key) + "' " + problem);
}

Config::Config(json root, std::string path) : path(std::move(path)), defaults(&familyDefaults("")) {
  file.root = std::move(root);
}

std::optional<Config> Config::nested(std::string_view key) {
  const json *value = object(key);
  if (!value || value->empty())
    return std::nullopt;
  return Config(*value, path + ": " + std::string(key));
}

const json *Config::find(std::string_view key) {
  known.used.emplace(key);
  if (auto found = file.root.find(key); found != file.root.end() && !found->is_null())
    return &*found;
  auto usual = defaults->find(key);
  return usual == defaults->end() ? nullptr : &usual->second;
}

const json &Config::require(std::string_view key) {
  const json *value = find(key);
  if (!value)
    fail(key, "is missing");
  return *value;
}

int64_t Config::size(std::string_view key, std::optional<int64_t> absent) {
  if (absent && !find(key))
    return *absent;
  const json *value = &require(key);
  // JSON numbers may exceed any integer type: what does not fit 64 bits is parsed as floating point and refused here.
  constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  if (!value->is_number_integer() || (!value->is_number_unsigned() && value->get<int64_t>() < 1) ||
      value->get<uint64_t>() < 1 || value->get<uint64_t>() > limit)
    fail(key, "must be a whole number between 1 and 2147483647, is " + value->dump());
  return value->get<int64_t>();
}

std::optional<int64_t> Config::window(std::string_view key) {
  if (isNull(key) || !find(key))
    return std::nullopt;
  return size(key);
}

double Config::number(std::string_view key) {
  const json &value = require(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    fail(key, "must be a number, is " + value.dump());
  return value.get<double>();
}

double Config::nonNegative(std::string_view key) {
  double value = number(key);
  if (value < 0)
    fail(key, "must not be negative, is " + std::to_string(value));
  return value;
}

double Config::probability(std::string_view key) {
  double value = number(key);
  if (!(value >= 0 && value < 1))
    fail(key, "must be a probability of at least 0 and below 1, is " + std::to_string(value));
  return value;
}

bool Config::flag(std::string_view key) {
  const json &value = require(key);
  if (!value.is_boolean())
    fail(key, "must be true or false, is " + value.dump());
  return value.get<bool>();
}

std::string Config::word(std::string_view key) {
  const json &value = require(key);
  if (!value.is_string())
    fail(key, "must be a string, is " + value.dump());
  return value.get<std::string>();
}

Activation Config::activation(std::string_view key) {
  static const std::map<std::string, Activation, std::less<>> byCommonName = {{"gelu_new", Activation::GeluTanh},
                                                                              {"gelu", Activation::Gelu},
                                                                              {"silu", Activation::Silu},
                                                                              {"tanh", Activation::Tanh}};
  std::string name = word(key);
  auto found = byCommonName.find(config_rules::commonActivation(name));
  if (found != byCommonName.end())
    return found->second;
  std::vector<std::string_view> names;
  for (const config_rules::ActivationName &known : config_rules::activationNames)
    names.push_back(known.name);
  std::string supported = fmt::format("{}", fmt::join(names, ", "));
  std::ranges::sort(names); // of equally near ones the first is meant
  fail(key, "names the activation '" + name + "', which is not supported" + didYouMean(name, names) +
                " (supported: " + supported + ")");
}

const json *Config::integer(std::string_view key) {
  const json *value = find(key);
  if (value && !value->is_number_integer())
    fail(key, "must be a whole number or null, is " + value->dump());
  return value;
}

const json *Config::object(std::string_view key) {
  const json *value = find(key);
  if (value && !value->is_object())
    fail(key, "must be an object or null, is " + value->dump());
  return value;
}

const json *Config::list(std::string_view key) {
  const json *value = find(key);
  if (value && !value->is_array())
    fail(key, "must be a list or null, is " + value->dump());
  return value;
}

bool Config::isNull(std::string_view key) const {
  auto found = file.root.find(key);
  return found != file.root.end() && found->is_null();
}

void Config::mustNotBeNull(std::string_view key) const {
  if (isNull(key))
    fail(key, "is null, which this family does not take; give a value, or leave the key out");
}

void Config::mustBeUnset(std::string_view key, std::string_view why) {
  const json *value = find(key);
  known.refused.emplace(key);
  if (value && *value != false)
    fail(key, "is " + value->dump() + ": " + std::string(why));
}

void Config::checkAllUsed(std::initializer_list<std::string_view> ignored) {
  known.ignored.insert(ignored.begin(), ignored.end());
  std::set<std::string, std::less<>> expected = known.used;
  expected.insert(known.ignored.begin(), known.ignored.end());
  expected.insert(harmlessConfigKeys().begin(), harmlessConfigKeys().end());
  for (const auto &item : file.root.items())
    if (!item.value().is_null() && !expected.contains(item.key()))
      fail(item.key(), "is not known for this model family, so what it changes would be ignored" +
                           didYouMean(item.key(), expected));
}
