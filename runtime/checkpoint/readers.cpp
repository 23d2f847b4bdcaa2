#include "runtime/checkpoint/readers.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/run_together.h"
#include "runtime/liveness/control_block.h"

#include <array>
#include <fmt/format.h>
#include <map>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc {

static int64_t hashOfNumbers(std::array<uint64_t, 3> numbers) {
  return static_cast<int64_t>(checksum(std::as_bytes(std::span(numbers))));
}

/// A folder's device and inode numbers are meaningful on one host only; a host is identified by its lowest rank.
static int64_t identityOf(const Communicator &communicator, const std::string &directory) {
  const ControlBlock *host = communicator.meetingPlace();
  struct stat status = {};
  if (stat(directory.c_str(), &status) != 0)
    status = {};
  return hashOfNumbers(
      {static_cast<uint64_t>(host ? host->nameOf(0) : communicator.rank()), status.st_dev, status.st_ino});
}

Readers::Readers(Communicator &communicator, const std::string &directory)
    : folders(communicator.exchange(identityOf(communicator, directory))) {
  auto self = static_cast<size_t>(communicator.rank());
  for (size_t rank = 0; rank < folders.size(); ++rank)
    if (folders[rank] == folders[self]) {
      place += rank < self;
      ++count;
    }
}

std::vector<int64_t> Readers::sumByFolder(const std::vector<int64_t> &ofRanks) const {
  std::map<int64_t, uint64_t> sums;
  for (size_t rank = 0; rank < folders.size(); ++rank)
    sums[folders[rank]] += static_cast<uint64_t>(ofRanks[rank]);
  std::vector<int64_t> result;
  for (int64_t folder : folders)
    result.push_back(static_cast<int64_t>(sums[folder]));
  return result;
}

/// Only for the message, so it may take one exchange per tensor. `mine`: the checksums, 0 for other ranks' parts.
static void refuseFirstDifference(Communicator &communicator, const Readers &readers,
                                  const std::vector<LoadedTensor> &tensors, const std::vector<int64_t> &mine) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<int64_t> hashes = readers.sumByFolder(communicator.exchange(mine[i]));
    size_t rank = firstOther(hashes);
    if (rank == 0)
      continue;
    std::vector<std::string> places =
        exchangeText(communicator, fmt::format("(on {}) '{}'", host, tensors[i].found.file->path()));
    auto shown = [&](size_t which) { return checksumText(static_cast<uint64_t>(hashes[which])); };
    refuseTogether(communicator,
                   fmt::format("tensor '{}' is not the same on all ranks: rank {} loads it from {} with the checksum "
                               "{}, rank 0 from {} with {}; give all hosts the same files",
                               tensors[i].name, rank, places[rank], shown(rank), places[0], shown(0)));
  }
}

void requireSameTensors(Communicator &communicator, const Readers &readers, const std::vector<LoadedTensor> &tensors,
                        const std::function<uint64_t(const LoadedTensor &)> &hashOf) {
  if (readers.shareOneFolder())
    return;
  std::vector<int64_t> mine(tensors.size());
  uint64_t sum = 0;
  runTogether(communicator, [&] {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (readers.isMine(i)) {
        uint64_t hash = hashOf(tensors[i]);
        mine[i] = static_cast<int64_t>(hash);
        sum += static_cast<uint64_t>(hashOfNumbers({i, hash, 0}));
      }
  });
  if (firstOther(readers.sumByFolder(communicator.exchange(static_cast<int64_t>(sum)))) != 0)
    refuseFirstDifference(communicator, readers, tensors, mine);
}

} // namespace dtc
