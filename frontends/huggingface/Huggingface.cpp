// Model directories in Hugging Face's layout: from config.json to a module.
#include "frontends/huggingface/Huggingface.h"

#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Weights.h"
#include "runtime/support/suggest.h"

#include <fmt/format.h>

using namespace dtc;
using namespace dtc::huggingface;

/// By model_type.
static const std::map<std::string, FamilyDefinition, std::less<>> &families() {
  static const auto byName = [] {
    std::map<std::string, FamilyDefinition, std::less<>> byName;
    for (const FamilyDefinition &family : {
#define DTC_FAMILY(file) define##file(),
#include "frontends/huggingface/families.inc"
#undef DTC_FAMILY
         })
      byName.emplace(family.modelType, family);
    return byName;
  }();
  return byName;
}

const ConfigValues &dtc::huggingface::familyDefaults(std::string_view modelType) {
  static const ConfigValues none;
  auto found = families().find(modelType);
  return found == families().end() ? none : found->second.defaults;
}

ConfigValues dtc::huggingface::joinDefaults(ConfigValues values, const ConfigValues &own) {
  for (const auto &[key, value] : own)
    values[key] = value;
  return values;
}

static std::vector<std::string> namesOfFamilies() {
  std::vector<std::string> names;
  names.reserve(families().size());
  for (const auto &[name, family] : families())
    names.push_back(name);
  return names;
}

std::string dtc::huggingface::familyNames() { return fmt::format("{}", fmt::join(namesOfFamilies(), ", ")); }

static std::unique_ptr<Family> readFamily(Config &config, const ModelOptions &options) {
  std::string type = config.word("model_type");
  if (auto found = families().find(type); found != families().end())
    return found->second.read(config, options);
  config.fail("model_type", fmt::format("is '{}', a family that is not supported{} (supported: {})", type,
                                        didYouMean(type, namesOfFamilies()), familyNames()));
}

/// A table's row about one key.
static std::string rowOf(const std::string &key, const ConfigValues &defaults) {
  auto value = defaults.find(key);
  return fmt::format("| `{}` | {} |\n", key, value == defaults.end() ? "" : "`" + value->second.dump() + "`");
}

static std::string listOf(const std::set<std::string, std::less<>> &keys) {
  return keys.empty() ? "none" : fmt::format("`{}`", fmt::join(keys, "`, `"));
}

std::string dtc::huggingface::describeFamilies() {
  std::string page;
  for (const auto &[name, family] : families()) {
    const ConfigValues &defaults = family.defaults;
    // With a window, so that the keys which belong to one are read.
    std::string window = defaults.contains("use_sliding_window") ? R"(, "use_sliding_window": true)" : "";
    Config config(fmt::format(R"({{"model_type": "{}"{}}})", name, window), name);
    config.word("model_type"); // as readFamily does
    family.read(config, {});
    Config::Keys keys = config.keys();
    for (const std::string &key : keys.refused)
      keys.used.erase(key);
    keys.used.erase("model_type");
    for (const std::string &key : keys.used) // with a window
      keys.ignored.erase(key);
    page += fmt::format("\n## {}\n\n`\"model_type\": \"{}\"`; {}.\n\n| key | default |\n|---|---|\n", family.title,
                        name, family.papers);
    for (const std::string &key : keys.used)
      page += rowOf(key, defaults);
    page += fmt::format("\nRefused unless false or null: {}. Read and without effect: {}.\n", listOf(keys.refused),
                        listOf(keys.ignored));
  }
  return page;
}

/// The family's sizes, the user's batch and sequence, then the replacements.
static Symbols makeSymbols(const Family &family, const ModelOptions &options, const std::string &path) {
  auto fail = [&](const std::string &problem) {
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", path, problem));
  };
  Symbols symbols = family.symbols();
  symbols["batch"] = options.batch;
  symbols["sequence"] = options.sequence ? options.sequence : symbols.at("positions");
  std::vector<std::string> names;
  names.reserve(symbols.size());
  for (const auto &[name, size] : symbols)
    names.push_back(name);
  for (const auto &[name, size] : options.symbols) {
    if (!symbols.contains(name))
      fail(fmt::format("the model has no size named '{}'{}", name, didYouMean(name, names)));
    symbols[name] = size;
  }
  for (const auto &[name, size] : symbols)
    if (size < 1)
      fail(fmt::format("size '{}' is {}; it must be positive", name, size));
  if (symbols.at("vocab") < 2)
    fail("size 'vocab' is 1 (vocab_size): with a single token there is nothing to predict; it must be at least 2");
  if (options.generation && symbols.at("sequence") > symbols.at("positions"))
    fail(
        fmt::format("{} positions, of a prompt and the new tokens, do not fit the model's {}; ask for fewer new tokens "
                    "(--max-tokens), or for fewer positions (--generate)",
                    symbols.at("sequence"), symbols.at("positions")));
  if (symbols.at("sequence") > symbols.at("positions"))
    fail(
        fmt::format("a sequence of {} tokens does not fit the model's {} positions; set training.sequence_length to at "
                    "most that",
                    symbols.at("sequence"), symbols.at("positions")));
  return symbols;
}

/// Refuses models that would take for ever to build or overflow 64-bit byte counts, before anything is built.
static void checkPlausible(const Symbols &symbols, const std::string &path) {
  constexpr int64_t mostLayers = 5000;  // 1,000 compile in 5 s
  constexpr double mostElements = 1e15; // of one tensor: 4 petabytes
  auto size = [&](const char *name) {
    auto found = symbols.find(name);
    return found == symbols.end() ? 1.0 : static_cast<double>(found->second);
  };
  if (symbols.at("layers") > mostLayers)
    throw Error(ExitCode::BadInput, fmt::format("{}: the model has {} layers; more than {} would not finish compiling",
                                                path, symbols.at("layers"), mostLayers));
  double heads = size("heads") * size("kv_heads") * size("group") * size("head_dim") * 3; // 3: query, key and value
  double widest = std::max({size("vocab"), size("mlp"), size("embed"), heads});
  double rows = std::max({size("embed"), size("positions"), size("batch") * size("sequence")});
  if (widest * rows > mostElements)
    throw Error(ExitCode::BadInput, fmt::format("{}: the sizes make a tensor of more than 10^15 elements ({:.0f} x "
                                                "{:.0f}); check the configuration",
                                                path, rows, widest));
}

static void buildGeneration(const Family &family, const GenerationSizes &sizes, ModelBuilder &builder) {
  builder.beginPrompt(sizes.prompt, sizes.hasCaches ? std::optional(sizes.capacity) : std::nullopt);
  builder.endGeneration(family.build(builder));
  if (!sizes.hasCaches)
    return;
  builder.beginGenerate(sizes.capacity);
  builder.endGeneration(family.build(builder));
}

/// `name`: what messages call the model.
static Model build(Config &config, const std::string &name, const ModelOptions &options, mlir::MLIRContext &context) {
  std::unique_ptr<Family> family = readFamily(config, options);
  Symbols symbols = makeSymbols(*family, options, name);
  checkPlausible(symbols, name);

  ModelBuilder builder(context, config.word("model_type"), symbols);
  if (options.generation) {
    buildGeneration(*family, *options.generation, builder);
  } else {
    builder.beginLoss(options.separateDocuments);
    builder.endLoss(family->build(builder));
  }
  Model model;
  model.module = builder.take();
  model.configJson = config.text();
  model.configDefaults = nlohmann::json(familyDefaults(config.word("model_type"))).dump();
  return model;
}

Model dtc::huggingface::loadConfig(const std::string &text, const std::string &name, const ModelOptions &options,
                                   mlir::MLIRContext &context) {
  Config config(text, name);
  return build(config, name, options, context);
}

Model dtc::huggingface::load(const std::string &directory, const ModelOptions &options, mlir::MLIRContext &context) {
  Config config(directory + "/config.json");
  Model model = build(config, directory, options, context);
  if (options.symbols.empty() && checkWeights(directory, *model.module))
    model.weightsDirectory = directory;
  return model;
}
