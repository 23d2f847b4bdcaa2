#include "runtime/checkpoint/trainer_state.h"

#include "runtime/abi/optimizers.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

namespace dtc {

[[noreturn]] static void refuse(const std::string &path, const std::string &why) {
  throw Error(ExitCode::BadInput, fmt::format("cannot resume from '{}': {}", path, why));
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

std::map<std::string, std::string> settingsOf(const abi::Training &training) {
  const std::pair<const char *, Json> all[] = {
      {"steps", training.steps()},
      {"global_batch", training.global_batch()},
      {"sequence_length", training.sequence_length()},
      {"accumulation", training.accumulation()},
      {"seed", training.seed()},
      {"optimizer", training.optimizer()},
      {"learning_rate", training.learning_rate()},
      {"clip_norm", training.clip_norm()},
      {"schedule", training.schedule()},
      {"warmup_steps", training.warmup_steps()},
      {"minimum_learning_rate", training.minimum_learning_rate()},
      {"compute", training.compute()},
      {"gradients", training.gradients()},
      {"loss_scale", training.loss_scale()},
      {"loss_scale_window", training.loss_scale_window()},
      {"dropout", training.dropout()},
      {"eval_every", training.eval_every()},
      {"eval_batches", training.eval_batches()},
      {"checkpoint_every", training.checkpoint_every()},
      {"keep", training.keep()},
      {"validation_fraction", training.validation_fraction()},
  };
  std::map<std::string, std::string> settings;
  for (const auto &[name, value] : all)
    settings[name] = value.dump();
  for (const abi::OptimizerSetting *setting : abi::optimizerSettings())
    settings[std::string(setting->key)] = Json(abi::settingOf(training, setting->key)).dump();
  if (training.dropout() < 0) // the model's default
    settings.erase("dropout");
  return settings;
}

std::string printTrainerState(const TrainerState &trainer, const std::string &model) {
  Json settings = Json::object();
  for (const auto &[name, value] : trainer.settings)
    settings[name] = Json::parse(value);
  Json json = {{"format_version", TrainerState::FormatVersion},
               {"model", model},
               {"step", trainer.step},
               {"samples", trainer.samples},
               {"seed", trainer.seed},
               {"sequence_length", trainer.sequenceLength},
               {"data_bytes", trainer.data.bytes},
               {"data_hash", fmt::format("{:016x}", trainer.data.hash)},
               {"program", trainer.program},
               {"settings", settings}};
  if (trainer.lossScale)
    json["loss_scale"] = {{"value", trainer.lossScale->value},
                          {"good_steps", trainer.lossScale->goodSteps},
                          {"skipped_steps", trainer.lossScale->skipped}};
  return json.dump(2) + "\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Json readJsonObject(const std::string &path) {
  constexpr size_t MostBytes = 10'000'000;
  constexpr int MostDepth = 64;
  MappedFile file(path);
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (text.size() > MostBytes)
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' has {} bytes; at most {} are accepted", path, text.size(), MostBytes));
  auto limitDepth = [&](int depth, Json::parse_event_t, Json &) {
    if (depth > MostDepth)
      throw Error(ExitCode::BadInput, fmt::format("'{}' is nested more than {} deep", path, MostDepth));
    return true;
  };
  Json json = Json::parse(text, limitDepth, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw Error(ExitCode::BadInput, fmt::format("'{}' is not a JSON object", path));
  return json;
}

static LossScale readLossScale(const std::string &path, const Json &json) {
  LossScale scale;
  auto isCount = [&](const char *key) { return json.contains(key) && json[key].is_number_unsigned(); };
  bool isWhole = json.is_object() && json.contains("value") && json["value"].is_number() && isCount("good_steps") &&
                 isCount("skipped_steps");
  if (isWhole) {
    scale.value = json["value"];
    scale.goodSteps = json["good_steps"];
    scale.skipped = json["skipped_steps"];
  }
  constexpr int64_t most = 1'000'000'000'000;
  if (!isWhole || !(scale.value >= LossScale::Floor / 2 && scale.value <= 2 * LossScale::Most) || scale.goodSteps < 0 ||
      scale.goodSteps > most || scale.skipped < 0 || scale.skipped > most)
    refuse(path, "its 'loss_scale' is not a 'value' with counts of 'good_steps' and 'skipped_steps'");
  return scale;
}

TrainerState readTrainerState(const std::string &path) {
  Json json = readJsonObject(path);
  // Positions in the data are computed from these numbers. The limits keep their products far from overflow.
  constexpr int64_t MostSteps = 1'000'000'000'000, MostSamples = 1'000'000'000'000'000, MostLength = 1'000'000'000;
  auto member = [&](const char *key) -> const Json & {
    if (!json.contains(key))
      refuse(path, fmt::format("it has no '{}'", key));
    return json[key];
  };
  auto shown = [](const Json &value) { return value.is_structured() ? std::string("a list or object") : value.dump(); };
  auto number = [&](const char *key, uint64_t most) -> uint64_t {
    const Json &value = member(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
      refuse(path,
             fmt::format("its '{}' is {}, not a whole number from 0 to {}", key, shown(value).substr(0, 80), most));
    return value;
  };
  auto word = [&](const char *key) -> std::string {
    const Json &value = member(key);
    if (!value.is_string())
      refuse(path, fmt::format("its '{}' is {}, not a string", key, shown(value).substr(0, 80)));
    return value;
  };
  uint64_t version = number("format_version", INT32_MAX);
  if (version < TrainerState::OldestVersion || version > TrainerState::FormatVersion)
    refuse(path,
           fmt::format("format version {}; this program reads versions {} to {}. Its weights can still be given to "
                       "--weights",
                       version, TrainerState::OldestVersion, TrainerState::FormatVersion));
  TrainerState trainer;
  trainer.formatVersion = static_cast<int>(version);
  trainer.step = static_cast<int64_t>(number("step", MostSteps));
  trainer.samples = static_cast<int64_t>(number("samples", MostSamples));
  trainer.seed = number("seed", INT64_MAX);
  trainer.sequenceLength = static_cast<int64_t>(number("sequence_length", MostLength));
  trainer.data.bytes = number("data_bytes", INT64_MAX);
  std::string hash = word("data_hash");
  auto [end, problem] = std::from_chars(hash.data(), hash.data() + hash.size(), trainer.data.hash, 16);
  if (problem != std::errc() || end != hash.data() + hash.size())
    refuse(path, fmt::format("its 'data_hash' is '{}', not a hexadecimal number", hash.substr(0, 80)));
  trainer.program = word("program");
  if (json.contains("loss_scale"))
    trainer.lossScale = readLossScale(path, json["loss_scale"]);
  const Json &settings = member("settings");
  if (!settings.is_object())
    refuse(path, "its 'settings' are not an object");
  for (const auto &[name, value] : settings.items()) {
    if (value.is_structured())
      refuse(path, fmt::format("its setting '{}' is {}", name, shown(value)));
    trainer.settings[name] = value.dump();
  }
  return trainer;
}

} // namespace dtc
