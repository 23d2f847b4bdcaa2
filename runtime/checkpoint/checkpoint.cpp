#include "runtime/checkpoint/checkpoint.h"

#include "runtime/abi/error.h"
#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/checkpoint/output_file.h"
#include "runtime/comm/agree.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <set>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

std::string saveCheckpoint(const RankState &state, Communicator &communicator, const std::string &root,
                           const TrainerState &trainer, int64_t keep) {
  Checkpointer checkpointer(state, communicator, root, {.keep = keep});
  checkpointer.beginInPlace(trainer);
  return *checkpointer.finish();
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
    trainer = readTrainerState(fs::path(directory) / TrainerStateFile);
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
      state.load(state.moments(), SafetensorsModel(directory, "optimizer"), directory);
  });
  return trainer;
}

std::vector<std::string> listCheckpoints(const std::string &folder) {
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
  for (const char *file : {TrainerStateFile, ChecksumFile})
    if (fs::exists(fs::path(path) / file, ignored))
      return {path};
  if (SafetensorsModel::present(path))
    return {path};
  for (const std::string &folder : {path, (fs::path(path) / "checkpoints").string()})
    if (std::vector<std::string> found = listCheckpoints(folder); !found.empty())
      return found;
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
