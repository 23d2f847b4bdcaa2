#include "runtime/checkpoint/checkpoint.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/abi/mapped_file.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/checkpoint/output_file.h"
#include "runtime/comm/agree.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

static constexpr const char *Weights = "model.safetensors";
static constexpr const char *Moments = "optimizer.safetensors";
static constexpr const char *Config = "config.json";
static constexpr const char *State = "trainer_state.json";

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// The file that holds these tensors whole.
static SafetensorsLayout layoutOf(const RankState &state, const std::vector<StateTensor> &tensors) {
  std::vector<SafetensorsTensor> whole;
  for (const StateTensor &tensor : tensors)
    whole.push_back({state.fileName(tensor),
                     {tensor.parameter->file_shape().begin(), tensor.parameter->file_shape().end()},
                     tensor.tensor->type()});
  return layoutSafetensors(whole, {{"format", "pt"}});
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
    constexpr uint64_t width = abi::elementType(abi::F32).bytes; // file_layout.cpp: all state is f32
    std::byte *target = file.bytes().data() + layout.fileOffset(i);
    size_t held = 0;
    state.read(tensors[i], [&](const FileRun &run, std::span<const float> values) {
      for (int64_t element = 0; element < run.count; ++element)
        std::memcpy(target + width * (run.file + element * run.stride), &values[element], width);
      held += holdsOn(run) ? 0 : width * run.count;
      if (held > HeldFileBytes) {
        file.release();
        held = 0;
      }
    });
    file.release(); // a rank needs its arena and a part of a tensor, not its arena and the file
  }
}

/// The model's config.json, true of what lies beside it: state is f32 (file_layout.cpp), whatever the weights came as.
static std::string configOf(const abi::Manifest &manifest) {
  constexpr std::string_view stored = abi::elementType(abi::F32).config;
  if (manifest.model_config_json().empty())
    return "{}\n";
  auto config = nlohmann::ordered_json::parse(manifest.model_config_json(), nullptr, /*allow_exceptions=*/false);
  bool changed = false;
  for (const char *key : {"dtype", "torch_dtype"})
    if (config.is_object() && config.contains(key) && config[key] != stored) {
      config[key] = stored;
      changed = true;
    }
  return changed ? config.dump(2) + "\n" : manifest.model_config_json();
}

/// Everything but tensors, with checksums. One rank does.
static std::vector<ChecksumEntry> writeTexts(const abi::Manifest &manifest, const TrainerState &trainer,
                                             const fs::path &directory) {
  std::vector<ChecksumEntry> entries;
  auto write = [&](const std::string &name, const std::string &text) {
    writeFile(directory / name, text);
    entries.push_back({name, "", checksum(text)});
  };
  write(Config, configOf(manifest));
  write(State, printTrainerState(trainer, manifest.model_name()));
  for (const abi::ModelFile &file : manifest.model_files()) {
    if (file.name().empty() || file.name().find('/') != std::string::npos || file.name() == "..")
      throw Error(ExitCode::BadInput, fmt::format("damaged program: it carries a file named '{}'", file.name()));
    write(file.name(), file.content());
  }
  return entries;
}

/// Unfinished and half-removed checkpoints, of whichever process.
static void removeUnfinished(const fs::path &root) {
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(root, ignored))
    if (entry.path().filename().string().starts_with("step-") && entry.path().extension() == ".tmp")
      fs::remove_all(entry.path(), ignored);
}

/// The checkpoints in a folder, newest first.
static std::vector<std::string> listCheckpoints(const fs::path &folder) {
  std::error_code ignored;
  std::vector<std::pair<int64_t, std::string>> found;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, ignored))
    if (std::optional<int64_t> step = checkpointStep(entry.path()))
      found.push_back({*step, entry.path()});
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> paths;
  for (auto &[step, path] : found)
    paths.push_back(path);
  return paths;
}

/// Leaves the `keep` newest up to `latest`, which was just written: the last good one is never at risk. A checkpoint is
/// renamed before it is removed, so that a part of one never looks like one.
static void removeOld(const fs::path &root, int64_t latest, int64_t keep) {
  int64_t left = keep;
  std::error_code ignored;
  for (const std::string &path : listCheckpoints(root))
    if (*checkpointStep(path) <= latest && left-- <= 0) {
      fs::path removed = path + ".tmp";
      fs::rename(path, removed, ignored);
      fs::remove_all(removed, ignored);
    }
}

namespace {
/// The files of one checkpoint under way.
struct Writing {
  const RankState &state;
  Communicator &communicator;
  fs::path unfinished;
  SafetensorsLayout weights = layoutOf(state, state.parameters()), moments = layoutOf(state, state.moments());
  std::vector<ChecksumEntry> checksums = {};

  bool isFirst() const { return communicator.rank() == 0; }
  bool hasMoments() const { return !state.moments().empty(); }
  void create(const std::string &root, const TrainerState &trainer);
  void fill();
};
} // namespace

void Writing::create(const std::string &root, const TrainerState &trainer) {
  agree(communicator, [&] {
    if (!isFirst())
      return;
    createDirectories(root);
    removeUnfinished(root);
    createDirectories(unfinished);
    createTensorFile(unfinished / Weights, weights);
    if (hasMoments())
      createTensorFile(unfinished / Moments, moments);
    checksums = writeTexts(state.manifest(), trainer, unfinished);
  });
}

void Writing::fill() {
  agree(communicator, [&] {
    writeShards(state, state.parameters(), weights, unfinished / Weights);
    if (hasMoments())
      writeShards(state, state.moments(), moments, unfinished / Moments);
  });
  auto add = [&](const char *name, const SafetensorsLayout &layout) {
    std::vector<ChecksumEntry> entries = tensorChecksums(communicator, unfinished, name, layout);
    checksums.insert(checksums.end(), entries.begin(), entries.end());
  };
  add(Weights, weights);
  if (hasMoments())
    add(Moments, moments);
}

/// What is saved can be trained from: no checkpoint of NaN replaces a good one.
static void requireFinite(const RankState &state, Communicator &communicator, const TrainerState &trainer) {
  agree(communicator, [&] {
    try {
      state.requireFinite();
    } catch (const Error &error) {
      throw Error(error.exitCode(), fmt::format("after step {}: {}; no checkpoint was written, those before it are as "
                                                "they were. Lower the learning rate",
                                                trainer.step, error.what()));
    }
  });
}

std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer, int64_t keep) {
  requireFinite(state, communicator, trainer);
  fs::path final = fs::path(root) / fmt::format("step-{:06}", trainer.step);
  // A rank that outlives a killed job must not write into the files of the next one.
  int64_t process = communicator.exchange(getpid()).front();
  Writing writing{state, communicator, fmt::format("{}.{}.tmp", final.string(), process)};
  try {
    writing.create(root, trainer);
    writing.fill();
    agree(communicator, [&] {
      if (!writing.isFirst())
        return;
      writeFile(writing.unfinished / ChecksumFile, printChecksums(writing.checksums));
      publishDirectory(writing.unfinished, final);
      if (keep > 0)
        removeOld(root, trainer.step, keep);
    });
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &error) {
    std::error_code ignored;
    if (writing.isFirst()) {
      removeUnfinished(root);
      fs::remove(root, ignored); // where it is empty
    }
    // Without words: another rank has them.
    throw Error(error.exitCode(), *error.what() ? fmt::format("the checkpoint after step {}: {}; checkpoints before it "
                                                              "are as they were",
                                                              trainer.step, error.what())
                                                : "");
  }
  return final;
}

void tryCheckpoints(const std::string &root) {
  std::error_code ignored;
  bool isNew = !fs::exists(root, ignored);
  createDirectories(root);
  fs::path attempt =
      fs::path(root) / fmt::format("step-try.{}.tmp", getpid()); // if we die here, the next one removes it
  std::optional<Error> problem;
  try {
    createDirectories(attempt);
  } catch (const Error &error) {
    problem = error;
  }
  fs::remove(attempt, ignored);
  if (isNew)
    fs::remove(root, ignored);
  if (problem)
    throw *problem;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

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
    trainer = readTrainerState(fs::path(directory) / State);
    int64_t length = state.manifest().training().sequence_length();
    if (trainer.sequenceLength != length)
      throw Error(ExitCode::BadInput,
                  fmt::format("cannot resume from '{}': it was trained with sequence_length {}, the "
                              "program has {}",
                              directory, trainer.sequenceLength, length));
    SafetensorsModel model(directory);
    state.load(state.parameters(), model, directory);
    refuseUnknownTensors(state, model, directory);
    if (!state.moments().empty())
      state.load(state.moments(), SafetensorsModel::file(fs::path(directory) / Moments), directory);
  });
  return trainer;
}

std::optional<int64_t> checkpointStep(const std::string &path) {
  constexpr std::string_view prefix = "step-";
  std::string name = fs::path(path).filename();
  int64_t step;
  if (!name.starts_with(prefix))
    return std::nullopt;
  auto [end, problem] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (problem != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

std::vector<std::string> findCheckpoints(const std::string &path) {
  std::error_code ignored;
  for (const char *file : {State, ChecksumFile, Weights})
    if (fs::exists(fs::path(path) / file, ignored))
      return {path};
  for (const fs::path &folder : {fs::path(path), fs::path(path) / "checkpoints"})
    if (std::vector<std::string> found = listCheckpoints(folder); !found.empty())
      return found;
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
