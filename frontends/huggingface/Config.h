// A model's config.json, read strictly: every key is either used, known not to change the computation, or an error.
#pragma once

#include "frontends/Frontend.h"
#include "frontends/ModelBuilder.h"
#include "runtime/support/error.h"
#include "runtime/weights/model_directory.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>

namespace dtc::huggingface {

class Config {
public:
  /// Reads a file as ModelConfig::read does.
  explicit Config(const std::string &path);
  /// Reads a text, which messages call `path`.
  Config(const std::string &text, const std::string &path);

  /// The file's text, unchanged.
  const std::string &text() const { return file.text; }

  /// The value of a key, or the family's default (familyDefaults) where the file lacks it or says null; where that has
  /// none either, `absent`; without `absent` the key is required. Sizes are positive and below 2^31.
  int64_t size(std::string_view key, std::optional<int64_t> absent = std::nullopt);
  /// A window over earlier positions: a size, or nothing where the file says null or there is no default.
  std::optional<int64_t> window(std::string_view key);
  double number(std::string_view key);
  double nonNegative(std::string_view key);
  double probability(std::string_view key); ///< in [0, 1)
  bool flag(std::string_view key);
  std::string word(std::string_view key);
  Activation activation(std::string_view key);
  /// The value itself where there is one, which must be a whole number, an object or a list.
  const nlohmann::json *integer(std::string_view key);
  const nlohmann::json *object(std::string_view key);
  /// Such an object, as a config of its own whose keys are read as strictly; nothing where it is absent or empty.
  std::optional<Config> nested(std::string_view key);
  const nlohmann::json *list(std::string_view key);

  /// Whether the file says null, for the keys where null does not mean the same as leaving them out.
  bool isNull(std::string_view key) const;
  /// Throws where the file says null: to get the default, a file must leave the key out.
  void mustNotBeNull(std::string_view key) const;

  bool has(std::string_view key) { return find(key) != nullptr; }

  /// Throws unless the key is absent, null or false: for features that are not supported.
  void mustBeUnset(std::string_view key, std::string_view why);

  /// Throws for the first key that was never asked for, unless it is null, among those known to change nothing in
  /// training (harmlessConfigKeys) or in `ignored`.
  void checkAllUsed(std::initializer_list<std::string_view> ignored = {});

  /// The keys that were asked for; those of them that may not be set; and those that checkAllUsed was given.
  struct Keys {
    std::set<std::string, std::less<>> used, refused, ignored;
  };
  const Keys &keys() const { return known; }

  /// An error about one key: "FILE: key 'KEY' …".
  [[noreturn]] void fail(std::string_view key, const std::string &problem) const;

private:
  Config(nlohmann::json root, std::string path);

  const nlohmann::json *find(std::string_view key);
  const nlohmann::json &require(std::string_view key);

  std::string path;
  ModelConfig file;
  const ConfigValues *defaults;
  Keys known;
};

} // namespace dtc::huggingface
