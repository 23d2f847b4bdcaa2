#include "runtime/checkpoint/integrity.h"

#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/comm/run_together.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

namespace fs = std::filesystem;

namespace dtc {

static void compare(const ChecksumEntry &entry, const std::string &path, uint64_t found) {
  if (found == entry.hash)
    return;
  std::string what = entry.tensor.empty()          ? ""
                     : entry.tensor == HeaderEntry ? ": its header"
                                                   : fmt::format(": tensor '{}'", entry.tensor);
  throw Error(ExitCode::BadInput, fmt::format("'{}'{} has the checksum {} where {} was written: it was damaged or "
                                              "changed since",
                                              path, what, checksumText(found), checksumText(entry.hash)));
}

static std::vector<ChecksumEntry> readList(const std::string &directory) {
  MappedFile list(fs::path(directory) / ChecksumFile);
  return parseChecksums(list.text(), list.path());
}

ChecksumList readChecksums(const std::string &directory) {
  ChecksumList hashes;
  for (const ChecksumEntry &entry : readList(directory))
    hashes[{entry.file, entry.tensor}] = entry.hash;
  return hashes;
}

/// Refuses unlisted files under a name that is read: they could be loaded instead of the listed ones.
static void refuseUnlisted(const std::string &directory, const std::vector<ChecksumEntry> &entries) {
  std::set<std::string> listed;
  for (const ChecksumEntry &entry : entries)
    listed.insert(entry.file);
  auto isRead = [](const std::string &name) {
    return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") || name == ConfigFile ||
           name == TrainerStateFile;
  };
  for (const fs::directory_entry &file : fs::directory_iterator(directory)) {
    std::string name = file.path().filename();
    if (isRead(name) && !listed.contains(name))
      throw Error(ExitCode::BadInput, fmt::format("'{}' is not listed in {}: it was not written with the checkpoint, "
                                                  "but would be read as a part of it; remove it",
                                                  file.path().string(), ChecksumFile));
  }
}

/// One rank's part: the first rank of a folder reads the files that are covered as a whole; tensors go round-robin.
void verifyShare(const std::string &directory, const Readers &readers) {
  std::vector<ChecksumEntry> entries = readList(directory);
  if (readers.isFirst())
    refuseUnlisted(directory, entries);
  std::map<std::string, std::unique_ptr<SafetensorsFile>> opened;
  size_t turn = 0;
  for (const ChecksumEntry &entry : entries) {
    std::string path = fs::path(directory) / entry.file;
    bool isTensor = !entry.tensor.empty() && entry.tensor != HeaderEntry;
    if (!(isTensor ? readers.isMine(turn++) : readers.isFirst()))
      continue;
    if (entry.tensor.empty()) {
      compare(entry, path, checksum(MappedFile(path).bytes()));
      continue;
    }
    std::unique_ptr<SafetensorsFile> &file = opened[entry.file];
    if (!file)
      file = std::make_unique<SafetensorsFile>(path);
    if (!isTensor) {
      compare(entry, path, checksum(file->headerBytes()));
      continue;
    }
    const SafetensorsEntry *tensor = file->find(entry.tensor);
    if (!tensor)
      throw Error(ExitCode::BadInput, fmt::format("'{}' lacks the tensor '{}', which was written", path, entry.tensor));
    auto release = [&](std::span<const std::byte> part) { file->release(part); };
    compare(entry, path, checksum(file->bytes(*tensor), release));
  }
}

void verifyCheckpoint(Communicator &communicator, const std::string &directory) {
  Readers readers(communicator, directory);
  runTogether(communicator, [&] { verifyShare(directory, readers); });
}

//===----------------------------------------------------------------------===//
// Choosing one
//===----------------------------------------------------------------------===//

/// The path on this rank's host of the checkpoint that rank 0 has chosen, made after `step` steps; -1 for one whose
/// name does not say. A network file system may take a moment to show another host's files.
static std::string findChosen(const std::string &path, int64_t step, int rank) {
  std::vector<std::string> found;
  auto isChosen = [&](const std::string &candidate) { return checkpointStep(candidate).value_or(-1) == step; };
  for (int attempt = 0; attempt < 30; ++attempt) {
    try {
      found = findCheckpoints(path);
    } catch (const Error &) { // none
    }
    if (auto chosen = std::ranges::find_if(found, isChosen); chosen != found.end())
      return *chosen;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error(ExitCode::BadInput,
              fmt::format("--resume {}: rank 0 chose {}, but rank {}'s host has {} there; all hosts "
                          "need the same checkpoints",
                          path, step < 0 ? "a checkpoint" : fmt::format("the one of step {}", step), rank,
                          found.empty() ? "none" : "'" + found.front() + "'"));
}

std::string chooseCheckpoint(Communicator &communicator, const std::string &path, bool verify,
                             const std::function<void(const std::string &)> &warn) {
  bool chooses = communicator.rank() == 0;
  std::vector<std::string> candidates; // rank 0's: its host may be the first to see the newest checkpoint
  runTogether(communicator, [&] {
    if (chooses)
      candidates = findCheckpoints(path);
  });
  int64_t count = communicator.exchange(static_cast<int64_t>(candidates.size())).front();
  bool given = communicator.exchange(chooses && candidates.front() == path).front() != 0;
  for (int64_t turn = 0; turn < count; ++turn) {
    std::string candidate = chooses ? candidates[static_cast<size_t>(turn)] : "";
    int64_t step = communicator.exchange(checkpointStep(candidate).value_or(-1)).front();
    try {
      runTogether(communicator, [&] {
        if (!chooses)
          candidate = findChosen(path, step, communicator.rank());
      });
      if (verify)
        verifyCheckpoint(communicator, candidate);
      return candidate;
    } catch (const PeerLostError &) {
      throw;
    } catch (const Error &error) { // on all ranks; the one that found it has a message
      if (!verify)
        throw;
      std::string message = error.what();
      if (!message.empty() && !candidate.empty())
        message = fmt::format("checkpoint '{}' is damaged: {}", candidate, message);
      bool last = turn + 1 == count;
      if (last && !message.empty())
        message += fmt::format("; {}, or load it as it is with --no-verify-checkpoint",
                               given ? "give the folder that holds it to go on from the newest intact one"
                                     : "no other one is intact");
      if (last)
        throw Error(ExitCode::BadInput, message);
      if (!message.empty())
        warn(message + "; trying the one before it");
    }
  }
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
