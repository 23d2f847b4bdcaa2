#include "runtime/checkpoint/checkpoint.h"

#include "runtime/abi/error.h"
#include "runtime/checkpoint/output_file.h"
#include "runtime/comm/agree.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace fs = std::filesystem;

namespace dtc {

static constexpr const char *Weights = "model.safetensors";
static constexpr const char *Moments = "optimizer.safetensors";
static constexpr const char *State = "trainer_state.json";

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// The file that holds these tensors whole.
static SafetensorsLayout layoutOf(const RankState &state, const std::vector<StateTensor> &tensors) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  for (const StateTensor &tensor : tensors)
    shapes.push_back(
        {state.fileName(tensor), {tensor.parameter->file_shape().begin(), tensor.parameter->file_shape().end()}});
  return layoutSafetensors(shapes, {{"format", "pt"}});
}

/// Reserves the file's space and writes its header. One rank does.
static void createTensorFile(const std::string &path, const SafetensorsLayout &layout) {
  OutputFile file = OutputFile::create(path, layout.fileBytes);
  std::memcpy(file.bytes().data(), layout.header.data(), layout.header.size());
}

/// Writes this rank's shards into a file that another may have created. Of ranks that store the same, one writes.
static void writeShards(const RankState &state, const std::vector<StateTensor> &tensors,
                        const SafetensorsLayout &layout, const std::string &path) {
  OutputFile file = OutputFile::open(path);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].shard.owner)
      continue;
    const float *values = state.data(tensors[i]);
    std::byte *target = file.bytes().data() + layout.fileOffset(i);
    tensors[i].forEachRun([&](const FileRun &run) {
      for (int64_t element = 0; element < run.count; ++element)
        std::memcpy(target + 4 * (run.file + element * run.stride), &values[run.local + element], 4);
    });
  }
}

static std::string trainerJson(const RankState &state, const TrainerState &trainer) {
  nlohmann::ordered_json json = {{"format_version", TrainerState::FormatVersion},
                                 {"model", state.manifest().model_name()},
                                 {"step", trainer.step},
                                 {"samples", trainer.samples},
                                 {"seed", trainer.seed},
                                 {"sequence_length", trainer.sequenceLength}};
  return json.dump(2) + "\n";
}

static void removeUnfinished(const fs::path &root) {
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(root, ignored))
    if (entry.path().filename().string().starts_with("step-") && entry.path().extension() == ".tmp")
      fs::remove_all(entry.path(), ignored);
}

std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer) {
  fs::path final = fs::path(root) / fmt::format("step-{:06}", trainer.step), unfinished = final.string() + ".tmp";
  SafetensorsLayout weights = layoutOf(state, state.parameters()), moments = layoutOf(state, state.moments());
  bool first = communicator.rank() == 0, hasMoments = !state.moments().empty();
  try {
    agree(communicator, [&] {
      if (!first)
        return;
      createDirectories(root);
      removeUnfinished(root);
      createDirectories(unfinished);
      createTensorFile(unfinished / Weights, weights);
      if (hasMoments)
        createTensorFile(unfinished / Moments, moments);
      const std::string &config = state.manifest().model_config_json();
      writeFile(unfinished / "config.json", config.empty() ? "{}\n" : config);
      writeFile(unfinished / State, trainerJson(state, trainer));
    });
    agree(communicator, [&] {
      writeShards(state, state.parameters(), weights, unfinished / Weights);
      if (hasMoments)
        writeShards(state, state.moments(), moments, unfinished / Moments);
    });
    agree(communicator, [&] {
      if (first)
        publishDirectory(unfinished, final);
    });
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &) {
    if (first)
      removeUnfinished(root);
    throw;
  }
  return final;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static TrainerState readTrainerState(const RankState &state, const std::string &directory) {
  fs::path path = fs::path(directory) / State;
  auto refuse = [&](const std::string &why) {
    throw Error(ExitCode::BadInput, fmt::format("cannot resume from '{}': {}", path.string(), why));
  };
  std::ifstream file(path);
  if (!file)
    refuse("it cannot be read; is this a checkpoint?");
  auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  TrainerState trainer;
  if (!json.is_object())
    refuse("it is no JSON object");
  auto read = [&](const char *key) -> int64_t {
    if (!json.contains(key) || !json[key].is_number_integer())
      refuse(fmt::format("it has no whole number '{}'", key));
    return json[key];
  };
  if (int64_t version = read("format_version"); version != TrainerState::FormatVersion)
    refuse(fmt::format("format version {}; this program reads version {}", version, TrainerState::FormatVersion));
  trainer.step = read("step");
  trainer.samples = read("samples");
  trainer.seed = static_cast<uint64_t>(read("seed"));
  trainer.sequenceLength = read("sequence_length");
  if (trainer.step < 0 || trainer.samples < 0)
    refuse(fmt::format("step {} and samples {} cannot be negative", trainer.step, trainer.samples));
  int64_t length = state.manifest().training().sequence_length();
  if (trainer.sequenceLength != length)
    refuse(fmt::format("it was trained with sequence_length {}, the program has {}", trainer.sequenceLength, length));
  return trainer;
}

/// A tensor that only the checkpoint has would be lost silently.
static void refuseUnknownTensors(const RankState &state, const SafetensorsModel &model, const std::string &directory) {
  std::set<std::string> known;
  for (const StateTensor &tensor : state.parameters())
    known.insert(state.fileName(tensor));
  for (const std::string &name : model.names())
    if (!known.contains(name))
      throw Error(ExitCode::BadInput,
                  fmt::format("'{}' does not fit the program: it has a tensor '{}', which the "
                              "program does not train; was the program compiled from another model?",
                              directory, name));
}

TrainerState loadCheckpoint(const RankState &state, Communicator &communicator, const std::string &directory) {
  TrainerState trainer;
  agree(communicator, [&] {
    trainer = readTrainerState(state, directory);
    SafetensorsModel model(directory);
    state.load(state.parameters(), model, directory);
    refuseUnknownTensors(state, model, directory);
    if (!state.moments().empty())
      state.load(state.moments(), SafetensorsModel::file(fs::path(directory) / Moments), directory);
  });
  return trainer;
}

/// N of "step-N".
static std::optional<int64_t> stepOf(const std::string &name) {
  constexpr std::string_view prefix = "step-";
  int64_t step;
  if (!name.starts_with(prefix))
    return std::nullopt;
  auto [end, problem] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (problem != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

std::string resolveCheckpoint(const std::string &path) {
  std::error_code ignored;
  if (fs::exists(fs::path(path) / State, ignored))
    return path;
  for (const fs::path &folder : {fs::path(path), fs::path(path) / "checkpoints"}) {
    std::optional<int64_t> latest;
    fs::path found;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder, ignored))
      if (std::optional<int64_t> step = stepOf(entry.path().filename()); step && (!latest || *step > *latest)) {
        latest = step;
        found = entry.path();
      }
    if (latest)
      return found;
  }
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
