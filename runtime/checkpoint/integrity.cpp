#include "runtime/checkpoint/integrity.h"

#include "runtime/abi/error.h"
#include "runtime/abi/mapped_file.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/agree.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>

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

/// One rank's part: the first rank reads the files that are covered as a whole, tensors go round.
static void verifyShare(const std::string &directory, int rank, int ranks) {
  MappedFile list(fs::path(directory) / ChecksumFile);
  std::string_view text(reinterpret_cast<const char *>(list.bytes().data()), list.bytes().size());
  std::map<std::string, std::unique_ptr<SafetensorsFile>> opened;
  int turn = 0;
  for (const ChecksumEntry &entry : parseChecksums(text, list.path())) {
    std::string path = fs::path(directory) / entry.file;
    bool isTensor = !entry.tensor.empty() && entry.tensor != HeaderEntry;
    if (rank != (isTensor ? turn++ % ranks : 0))
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
  agree(communicator, [&] { verifyShare(directory, communicator.rank(), communicator.size()); });
}

std::string chooseCheckpoint(Communicator &communicator, const std::string &path, bool verify,
                             const std::function<void(const std::string &)> &warn) {
  std::vector<std::string> candidates;
  agree(communicator, [&] { candidates = findCheckpoints(path); });
  if (!verify)
    return candidates.front();
  bool given = candidates.front() == path;
  for (const std::string &candidate : candidates)
    try {
      verifyCheckpoint(communicator, candidate);
      return candidate;
    } catch (const PeerLostError &) {
      throw;
    } catch (const Error &error) { // on all ranks; the one that found it has words
      std::string message = *error.what() ? fmt::format("checkpoint '{}' is damaged: {}", candidate, error.what()) : "";
      bool last = candidate == candidates.back();
      if (last && !message.empty())
        message += fmt::format("; {}, or load it as it is with --no-verify-checkpoint",
                               given ? "give the folder that it lies in to go on from the newest one that is whole"
                                     : "no other one is whole");
      if (last)
        throw Error(ExitCode::BadInput, message);
      if (!message.empty())
        warn(message + "; trying the one before it");
    }
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
