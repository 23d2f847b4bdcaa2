// The table of training settings, and how a file and assignments set them.
#include "runtime/config/training_config.h"

#include "runtime/abi/bucket_size.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/recompute.h"
#include "runtime/config/habits.h"
#include "runtime/support/error.h"
#include "runtime/support/interval.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/suggest.h"
#include "runtime/support/toml.h"
#include "runtime/support/toml_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>

using namespace dtc;
using abi::Training;

namespace {

constexpr abi::Interval share{"[0, 1)", 0, 1}, notNegative{"[0, inf)", 0, std::numeric_limits<double>::infinity()};

/// One key of the file. `set` returns what is wrong with a value, or an empty string. `isOpen`: it can still be changed
/// after compilation.
struct Setting {
  std::string_view section, key;
  std::function<std::string(Training &, const toml::node &)> set;
  std::function<std::string(const Training &)> print;
  bool isOpen = false;

  std::string name() const { return fmt::format("{}.{}", section, key); }
};

Setting open(Setting setting) {
  setting.isOpen = true;
  return setting;
}

template <typename Number>
Setting integer(std::string_view section, std::string_view key, Number (Training::*get)() const,
                void (Training::*set)(Number), int64_t minimum) {
  auto assign = [=](Training &training, const toml::node &node) -> std::string {
    std::optional<int64_t> value = node.is_integer() ? node.value<int64_t>() : std::nullopt;
    if (!value || *value < minimum)
      return fmt::format("must be a whole number of at least {}", minimum);
    (training.*set)(static_cast<Number>(*value));
    return "";
  };
  return {section, key, assign, [=](const Training &training) { return fmt::format("{}", (training.*get)()); }};
}

Setting flag(std::string_view section, std::string_view key, bool (Training::*get)() const,
             void (Training::*set)(bool)) {
  auto assign = [=](Training &training, const toml::node &node) -> std::string {
    std::optional<bool> value = node.is_boolean() ? node.value<bool>() : std::nullopt;
    if (!value)
      return "must be true or false";
    (training.*set)(*value);
    return "";
  };
  return {section, key, assign, [=](const Training &training) { return fmt::format("{}", (training.*get)()); }};
}

/// A number within an interval.
Setting real(std::string_view section, std::string_view key, const std::function<double(const Training &)> &get,
             const std::function<void(Training &, double)> &set, const abi::Interval &interval) {
  auto assign = [=](Training &training, const toml::node &node) -> std::string {
    std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !interval.contains(*value))
      return fmt::format("must be a number in {}", interval.text);
    set(training, *value);
    return "";
  };
  auto print = [=](const Training &training) {
    std::string text = fmt::format("{}", get(training));
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  };
  return {section, key, assign, print};
}

Setting ofOptimizer(const abi::OptimizerSetting &setting) {
  std::string_view key = setting.key;
  return real(
      "optimizer", key, [key](const Training &training) { return abi::settingOf(training, key); },
      [key](Training &training, double value) { abi::setSetting(training, key, value); }, setting.interval);
}

Setting choice(std::string_view section, std::string_view key, const std::string &(Training::*get)() const,
               std::string *(Training::*mutate)(), const std::vector<std::string> &choices) {
  auto assign = [=](Training &training, const toml::node &node) -> std::string {
    std::optional<std::string> value = node.is_string() ? node.value<std::string>() : std::nullopt;
    if (!value || std::find(choices.begin(), choices.end(), *value) == choices.end())
      return fmt::format("must be one of \"{}\"{}", fmt::join(choices, "\", \""),
                         value ? didYouMean(*value, choices) : "");
    *(training.*mutate)() = *value;
    return "";
  };
  return {section, key, assign, [=](const Training &training) { return fmt::format("\"{}\"", (training.*get)()); }};
}

/// The setting of what layers keep for their backward pass.
Setting recomputeSetting() {
  auto assign = [](Training &training, const toml::node &node) -> std::string {
    std::string value = node.is_string() ? *node.value<std::string>() : std::string();
    if (value != abi::recomputeAuto && !abi::parseRecompute(value))
      return fmt::format("must be {}, or {}", abi::recomputeAuto, abi::recomputeNames);
    training.set_recompute(value);
    return "";
  };
  auto print = [](const Training &training) { return fmt::format("\"{}\"", training.recompute()); };
  return {"memory", "recompute", assign, print};
}

/// A negative value in the message means the model file's dropout; users get that only by leaving the key out.
Setting dropoutSetting() {
  Setting setting = real("model", "dropout", &Training::dropout, &Training::set_dropout, share);
  setting.print = [print = setting.print](const Training &training) {
    return training.dropout() < 0 ? std::string() : print(training);
  };
  return setting;
}

/// A setting that takes bytes or a word.
Setting bucketSetting() {
  auto assign = [](Training &training, const toml::node &node) -> std::string {
    std::string text = node.is_integer() ? std::to_string(*node.value<int64_t>()) : node.value_or<std::string>("");
    std::optional<abi::BucketSize> size = abi::parseBucketSize(text);
    if (!size)
      return "must be a number of bytes above 0, as in \"25MB\", or \"auto\" or \"none\"";
    training.set_bucket_bytes(abi::textOf(*size));
    return "";
  };
  return {"communication", "bucket_bytes", assign,
          [](const Training &training) { // programs from before buckets existed do not have it
            return training.bucket_bytes().empty() ? std::string() : fmt::format("\"{}\"", training.bucket_bytes());
          }};
}

std::vector<Setting> makeSettings() {
  using T = Training;
  std::vector<std::string> optimizers;
  for (const abi::Optimizer &optimizer : abi::optimizers())
    optimizers.emplace_back(optimizer.name);
  std::vector<Setting> table = {
      open(integer("training", "steps", &T::steps, &T::set_steps, 0)),
      integer("training", "global_batch", &T::global_batch, &T::set_global_batch, 1),
      integer("training", "sequence_length", &T::sequence_length, &T::set_sequence_length, 0),
      integer("training", "accumulation", &T::accumulation, &T::set_accumulation, 1),
      open(integer("training", "seed", &T::seed, &T::set_seed, 0)),
      choice("optimizer", "optimizer", &T::optimizer, &T::mutable_optimizer, optimizers),
      open(real("optimizer", "learning_rate", &T::learning_rate, &T::set_learning_rate, notNegative)),
  };
  for (const abi::OptimizerSetting *setting : abi::optimizerSettings())
    table.push_back(ofOptimizer(*setting));
  std::vector<Setting> rest = {
      real("optimizer", "clip_norm", &T::clip_norm, &T::set_clip_norm, notNegative),
      choice("schedule", "schedule", &T::schedule, &T::mutable_schedule, {"constant", "linear", "cosine"}),
      open(integer("schedule", "warmup_steps", &T::warmup_steps, &T::set_warmup_steps, 0)),
      open(real("schedule", "minimum_learning_rate", &T::minimum_learning_rate, &T::set_minimum_learning_rate,
                notNegative)),
      choice("precision", "compute", &T::compute, &T::mutable_compute, {"f32", "bf16", "f16"}),
      choice("precision", "gradients", &T::gradients, &T::mutable_gradients, {"f32", "bf16", "f16"}),
      open(real("precision", "loss_scale", &T::loss_scale, &T::set_loss_scale, {"[1, 1e30]", 1, 1e30})),
      open(integer("precision", "loss_scale_window", &T::loss_scale_window, &T::set_loss_scale_window, 1)),
      bucketSetting(),
      recomputeSetting(),
      dropoutSetting(),
      open(integer("evaluation", "eval_every", &T::eval_every, &T::set_eval_every, 0)),
      open(integer("evaluation", "eval_batches", &T::eval_batches, &T::set_eval_batches, 0)),
      open(integer("checkpoint", "checkpoint_every", &T::checkpoint_every, &T::set_checkpoint_every, 0)),
      open(integer("checkpoint", "keep", &T::keep, &T::set_keep, 0)),
      real("data", "validation_fraction", &T::validation_fraction, &T::set_validation_fraction, share),
      flag("data", "separate_documents", &T::separate_documents, &T::set_separate_documents),
  };
  std::ranges::move(rest, std::back_inserter(table));
  return table;
}

std::span<const Setting> settings() {
  static const std::vector<Setting> table = makeSettings();
  return table;
}

std::vector<std::string> names(auto projection) {
  std::vector<std::string> all;
  for (const Setting &setting : settings())
    all.emplace_back(std::invoke(projection, setting));
  return all;
}

const Setting *find(std::string_view section, std::string_view key) {
  for (const Setting &setting : settings())
    if (setting.section == section && setting.key == key)
      return &setting;
  return nullptr;
}

std::string valueText(const toml::node &node) {
  std::ostringstream stream;
  node.visit([&](const auto &value) { stream << value; });
  constexpr size_t shown = 80; // a value may be as long as the whole file
  std::string text = stream.str();
  return text.size() <= shown ? text : text.substr(0, shown) + "...";
}

// The file

[[noreturn]] void failAt(const std::string &path, const toml::node &node, const std::string &problem) {
  throw Error(ExitCode::BadInput, fmt::format("{}:{}: {}", path, node.source().begin.line, problem));
}

void readSection(Training &training, const std::string &path, std::string_view section, const toml::node &node) {
  std::vector<std::string> sections = names([](const Setting &setting) { return setting.section; });
  if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
    std::string hint = node.is_table() ? didYouMean(section, sections)
                                       : didYouMean(section, names([](const Setting &setting) { return setting.key; }));
    failAt(path, node, fmt::format("unknown {} '{}'{}", node.is_table() ? "section" : "key", section, hint));
  }
  const toml::table *table = node.as_table();
  if (!table)
    failAt(path, node, fmt::format("'{0}' is a section: write [{0}]", section));
  for (const auto &[key, value] : *table) {
    const Setting *setting = find(section, key.str());
    if (!setting)
      failAt(path, value,
             fmt::format("unknown key '{}' in section [{}]{}", key.str(), section,
                         didYouMean(fmt::format("{}.{}", section, key.str()), names(&Setting::name))));
    if (std::string problem = setting->set(training, value); !problem.empty())
      failAt(path, value, fmt::format("{} {}, is {}", setting->name(), problem, valueText(value)));
  }
}

void readFile(Training &training, const std::string &path) {
  MappedFile file(path);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (std::optional<TomlExcess> excess = findTomlExcess(text))
    throw Error(ExitCode::BadInput, fmt::format("{}:{}: {}", path, excess->line, excess->problem));
  toml::table root;
  try {
    root = toml::parse(text, path);
  } catch (const toml::parse_error &error) {
    uint32_t line = error.source().begin.line;
    throw Error(ExitCode::BadInput,
                fmt::format("{}{}: {}", path, line ? fmt::format(":{}", line) : "", error.description()));
  }
  for (const auto &[section, node] : root)
    readSection(training, path, section.str(), node);
}

// Assignments

/// The setting of "section.key", or of a key alone: keys are unique.
const Setting &findByName(std::string_view name) {
  for (const Setting &setting : settings())
    if (name == setting.key || name == setting.name())
      return setting;
  std::vector<std::string> known = names(&Setting::name);
  if (name.find('.') == std::string_view::npos)
    known = names([](const Setting &setting) { return setting.key; });
  std::string_view key = name.substr(name.rfind('.') + 1), ours = settingCalled(key);
  std::string hint = ours.empty() ? didYouMean(name, known) : fmt::format("; it is called '{}' here", ours);
  if (std::string advice = adviceOnOption(key); hint.empty() && !advice.empty())
    hint = "; " + advice;
  throw Error(ExitCode::Usage, fmt::format("--set {}: unknown setting{}", name, hint));
}

std::string keyOf(std::string_view assignment) { return std::string(assignment.substr(0, assignment.find('='))); }

/// A value as the file would write it; quotes around a word may be left out.
toml::table parseValue(const std::string &text) {
  if (findTomlExcess(text))
    return toml::table{{"value", text}};
  try {
    return toml::parse("value = " + text);
  } catch (const toml::parse_error &) {
    return toml::table{{"value", text}};
  }
}

void assign(Training &training, const std::string &assignment) {
  size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw Error(ExitCode::Usage, fmt::format("--set {}: write key=value, as in training.steps=100", assignment));
  const Setting &setting = findByName(keyOf(assignment));
  toml::table parsed = parseValue(assignment.substr(equals + 1));
  if (std::string problem = setting.set(training, *parsed.get("value")); !problem.empty())
    throw Error(ExitCode::Usage, fmt::format("--set {}: {} {}", assignment, setting.name(), problem));
}

void requireOpen(const std::string &assignment) {
  if (findByName(keyOf(assignment)).isOpen)
    return;
  std::vector<std::string> known = settingKeys(/*open=*/true);
  throw Error(ExitCode::Usage, fmt::format("--set {}: it is compiled in; a compiled program can still change {}",
                                           assignment, fmt::join(known, ", ")));
}

/// Checks that need several settings. An error is reported for the file, if there is one.
void checkTogether(const Training &training, const std::string &path) {
  auto fail = [&](const std::string &problem) {
    throw Error(ExitCode::BadInput, path.empty() ? problem : fmt::format("{}: {}", path, problem));
  };
  if (training.global_batch() % training.accumulation() != 0)
    fail(fmt::format("training.global_batch {} is not divisible by training.accumulation {}", training.global_batch(),
                     training.accumulation()));
  if (training.minimum_learning_rate() > training.learning_rate())
    fail(fmt::format("schedule.minimum_learning_rate {} exceeds optimizer.learning_rate {}",
                     training.minimum_learning_rate(), training.learning_rate()));
}

/// Without the optimizer's own settings, which depend on the optimizer.
abi::Training incompleteDefaults() {
  Training training;
  training.set_steps(100);
  training.set_global_batch(8);
  training.set_sequence_length(0); // as many as the model has positions
  training.set_accumulation(1);
  training.set_seed(0);
  training.set_optimizer("adamw");
  training.set_learning_rate(3e-4);
  training.set_clip_norm(1);
  training.set_schedule("cosine");
  training.set_warmup_steps(0);
  training.set_minimum_learning_rate(0);
  training.set_compute("f32");
  training.set_gradients("f32");
  training.set_loss_scale(65536);
  training.set_loss_scale_window(2000);
  training.set_bucket_bytes("auto");
  training.set_recompute("cheap");
  training.set_dropout(-1); // as the model file says
  training.set_eval_every(0);
  training.set_eval_batches(16);
  training.set_checkpoint_every(0);
  training.set_keep(0);
  training.set_validation_fraction(0.05);
  return training;
}

} // namespace

abi::Training dtc::defaultTraining() {
  Training training = incompleteDefaults();
  abi::completeSettings(training);
  return training;
}

abi::Training dtc::readTraining(const std::string &path, const std::vector<std::string> &assignments) {
  Training training = incompleteDefaults();
  if (!path.empty())
    readFile(training, path);
  for (const std::string &assignment : assignments)
    assign(training, assignment);
  abi::completeSettings(training);
  checkTogether(training, path);
  return training;
}

void dtc::changeTraining(abi::Training &training, const std::vector<std::string> &assignments) {
  for (const std::string &assignment : assignments) {
    requireOpen(assignment);
    assign(training, assignment);
  }
  checkTogether(training, "");
}

std::vector<std::string> dtc::settingKeys(bool open) {
  std::vector<std::string> keys;
  for (const Setting &setting : settings())
    if (setting.isOpen || !open)
      keys.emplace_back(setting.key);
  return keys;
}

bool dtc::assignsSetting(const std::vector<std::string> &assignments, std::string_view key) {
  return std::ranges::any_of(assignments,
                             [&](const std::string &assignment) { return findByName(keyOf(assignment)).key == key; });
}

std::vector<SettingValue> dtc::listSettings(const abi::Training &training) {
  std::vector<SettingValue> values;
  for (const Setting &setting : settings())
    if (std::string value = setting.print(training); !value.empty())
      values.push_back({std::string(setting.section), std::string(setting.key), value});
  return values;
}

std::string dtc::printTraining(const abi::Training &training) {
  std::string text, section;
  for (const SettingValue &setting : listSettings(training)) {
    if (setting.section != section)
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", setting.section);
    section = setting.section;
    text += fmt::format("{} = {}\n", setting.key, setting.value);
  }
  return text;
}
