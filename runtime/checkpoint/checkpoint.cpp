#include "runtime/checkpoint/checkpoint.h"

#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/checkpoint/readers.h"
#include "runtime/comm/run_together.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"
#include "runtime/weights/model_directory.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
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
  requireOwnLink(root);
  bool isNew = !fs::exists(root, ignored);
  createDirectories(root);
  fs::path attempt =
      fs::path(root) / fmt::format("step-try.{}.tmp", getpid()); // if we die here, the next run removes it
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

/// A tensor that only the checkpoint has would otherwise be lost silently.
static void refuseUnknownTensors(const RankState &state, const SafetensorsModel &model, const std::string &directory) {
  std::set<std::string> known;
  for (const StateTensor &tensor : state.allParameters())
    known.insert(state.fileName(tensor));
  for (const std::string &name : model.names())
    if (!known.contains(name))
      throw Error(ExitCode::BadInput,
                  fmt::format("'{}' does not fit the program: it has a tensor '{}', which the "
                              "program does not train; was the program compiled from another model?",
                              directory, name));
}

/// Refuses a folder that was renamed or that holds another checkpoint's files: folder names decide which is the newest.
static void requireOwnName(const std::string &directory, const TrainerState &trainer) {
  std::optional<int64_t> named = checkpointStep(directory);
  if (named && *named != trainer.step)
    throw Error(ExitCode::BadInput,
                fmt::format("cannot resume from '{}': its {} is of step {}, not of the step that the folder is named "
                            "after; give the folder its name back, 'step-{:06}'",
                            directory, TrainerStateFile, trainer.step, trainer.step));
}

/// Hosts may have different files under the same name, but all must continue the same run.
static void requireSameState(Communicator &communicator, const TrainerState &trainer, const std::string &directory) {
  auto hash = static_cast<int64_t>(checksum(printTrainerState(trainer, "")));
  size_t rank = firstOther(communicator.exchange(hash));
  if (rank == 0)
    return;
  std::vector<std::string> said = exchangeText(communicator, fmt::format("step {} of '{}'", trainer.step, directory));
  refuseTogether(communicator, fmt::format("rank {} would continue after {}, rank 0 after {}, and these are not from "
                                           "the same run; give all hosts the same checkpoint",
                                           rank, said[rank], said[0]));
}

static void addTensors(std::vector<LoadedTensor> &all, const RankState &state, const std::vector<StateTensor> &tensors,
                       const SafetensorsModel &model) {
  for (const StateTensor &tensor : tensors)
    all.push_back({state.fileName(tensor), model.find(state.fileName(tensor))});
}

/// The checksum of the tensor's bytes in the file.
static uint64_t hashOfBytes(const LoadedTensor &tensor) {
  const SafetensorsFile &file = *tensor.found.file;
  return checksum(file.bytes(*tensor.found.entry), [&](std::span<const std::byte> part) { file.release(part); });
}

/// The checksum in the list of a verified checkpoint, so that nothing need be read again.
static uint64_t listedHash(const ChecksumList &list, const LoadedTensor &tensor) {
  std::string file = fs::path(tensor.found.file->path()).filename();
  auto found = list.find({file, tensor.found.entry->name});
  return found == list.end() ? hashOfBytes(tensor) : found->second;
}

TrainerState loadCheckpoint(const RankState &state, Communicator &communicator, const std::string &directory,
                            bool verified) {
  Readers readers(communicator, directory);
  TrainerState trainer;
  std::optional<SafetensorsModel> model, slots;
  std::vector<LoadedTensor> tensors;
  ChecksumList list;
  runTogether(communicator, [&] {
    trainer = readTrainerState(fs::path(directory) / TrainerStateFile);
    requireOwnName(directory, trainer);
    int64_t length = state.manifest().training().sequence_length();
    if (trainer.sequenceLength != length)
      throw Error(ExitCode::BadInput,
                  fmt::format("cannot resume from '{}': it was trained with sequence_length {}, the "
                              "program has {}",
                              directory, trainer.sequenceLength, length));
    model.emplace(directory);
    state.load(state.parameters(), *model, directory);
    addTensors(tensors, state, state.allParameters(), *model);
    refuseUnknownTensors(state, *model, directory);
    if (!state.allMoments().empty()) {
      slots.emplace(directory, "optimizer");
      state.load(state.moments(), *slots, directory);
      addTensors(tensors, state, state.allMoments(), *slots);
    }
    if (verified)
      list = readChecksums(directory);
  });
  requireSameState(communicator, trainer, directory);
  requireSameTensors(communicator, readers, tensors,
                     [&](const LoadedTensor &tensor) { return listedHash(list, tensor); });
  return trainer;
}

void loadWeights(const RankState &state, Communicator &communicator, const std::string &directory, bool verify) {
  // A checkpoint's weights are verified against its checksums; other models have none. Hosts may differ in whether
  // theirs has checksums, but the weights must be the same.
  Readers readers(communicator, directory);
  std::error_code ignored;
  bool has = verify && fs::exists(fs::path(directory) / ChecksumFile, ignored);
  std::optional<SafetensorsModel> weights;
  std::vector<LoadedTensor> tensors;
  ChecksumList list;
  runTogether(communicator, [&] {
    if (has) {
      verifyShare(directory, readers);
      list = readChecksums(directory);
    }
    std::vector<ParameterNames> names;
    for (const abi::Parameter &parameter : state.manifest().parameters())
      names.push_back({parameter.name(), {parameter.tied_names().begin(), parameter.tied_names().end()}});
    weights.emplace(openWeights(directory, ProgramConfig::of(state.manifest()), names));
    state.load(state.parameters(), *weights, directory);
    addTensors(tensors, state, state.allParameters(), *weights);
  });
  requireSameTensors(communicator, readers, tensors,
                     [&](const LoadedTensor &tensor) { return listedHash(list, tensor); });
}

} // namespace dtc
