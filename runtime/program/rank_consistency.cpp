#include "runtime/program/rank_consistency.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/run_together.h"
#include "runtime/program/data_fingerprint.h"

#include <fmt/format.h>
#include <vector>

namespace dtc {

static int64_t hashOf(const std::string &text) { return static_cast<int64_t>(checksum(text)); }

void requireSameConfiguration(Communicator &communicator, const std::map<std::string, std::string> &values) {
  std::string names, all;
  for (const auto &[name, value] : values) {
    names += name + "\n";
    all += name + "=" + value + "\n";
  }
  if (firstOther(communicator.exchange(hashOf(all))) == 0)
    return;
  if (size_t rank = firstOther(communicator.exchange(hashOf(names))))
    refuseTogether(communicator,
                   fmt::format("rank {} runs another version of dtc's programs than rank 0; compile the program once "
                               "and start the same file everywhere",
                               rank));
  for (const auto &[name, value] : values)
    if (size_t rank = firstOther(communicator.exchange(hashOf(value)))) {
      std::vector<std::string> said = exchangeText(communicator, value);
      refuseTogether(communicator,
                     fmt::format("rank {} was started with {} = {}, rank 0 with {}; start all ranks with the same "
                                 "program and the same options",
                                 rank, name, said[rank], said[0]));
    }
}

void requireSameData(Communicator &communicator, const std::string &option, const DataFingerprint &mine) {
  std::vector<int64_t> bytes = communicator.exchange(static_cast<int64_t>(mine.bytes)),
                       hashes = communicator.exchange(static_cast<int64_t>(mine.hash));
  for (size_t rank = 1; rank < bytes.size(); ++rank)
    if (bytes[rank] != bytes[0] || hashes[rank] != hashes[0]) {
      DataFingerprint other{static_cast<uint64_t>(bytes[rank]), static_cast<uint64_t>(hashes[rank])};
      refuseTogether(communicator,
                     fmt::format("{}: rank {} has {}, rank 0 has {}; all hosts need the same files, in the same order",
                                 option, rank, describe(other), describe(mine)));
    }
}

} // namespace dtc
