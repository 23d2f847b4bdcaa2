#include "runtime/program/agreement.h"

#include "runtime/abi/error.h"
#include "runtime/checkpoint/checksums.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace dtc {

/// Each rank's words, in the order of ranks. Eight letters at a time: for short ones.
static std::vector<std::string> exchangeText(Communicator &communicator, const std::string &mine) {
  std::vector<int64_t> sizes = communicator.exchange(static_cast<int64_t>(mine.size()));
  auto longest = static_cast<size_t>(*std::ranges::max_element(sizes));
  std::vector<std::string> all(sizes.size());
  for (size_t begin = 0; begin < longest; begin += sizeof(int64_t)) {
    int64_t letters = 0;
    if (begin < mine.size())
      std::memcpy(&letters, &mine[begin], std::min(sizeof(letters), mine.size() - begin));
    std::vector<int64_t> parts = communicator.exchange(letters);
    for (size_t rank = 0; rank < all.size(); ++rank)
      all[rank].append(reinterpret_cast<const char *>(&parts[rank]), sizeof(int64_t));
  }
  for (size_t rank = 0; rank < all.size(); ++rank)
    all[rank].resize(static_cast<size_t>(sizes[rank]));
  return all;
}

/// The lowest rank whose number is not rank 0's; 0 when there is none.
static size_t firstOther(const std::vector<int64_t> &all) {
  auto other = std::ranges::find_if(all, [&](int64_t value) { return value != all.front(); });
  return other == all.end() ? 0 : static_cast<size_t>(other - all.begin());
}

static int64_t hashOf(const std::string &text) { return static_cast<int64_t>(checksum(text)); }

/// Every rank finds it; the first one says it.
[[noreturn]] static void refuse(const Communicator &communicator, const std::string &words) {
  throw Error(ExitCode::BadInput, communicator.rank() == 0 ? words : "");
}

void requireSameConfiguration(Communicator &communicator, const std::map<std::string, std::string> &values) {
  std::string names, all;
  for (const auto &[name, value] : values) {
    names += name + "\n";
    all += name + "=" + value + "\n";
  }
  if (firstOther(communicator.exchange(hashOf(all))) == 0)
    return;
  if (size_t rank = firstOther(communicator.exchange(hashOf(names))))
    refuse(communicator,
           fmt::format("rank {} runs another version of dtc's programs than rank 0; compile the program once "
                       "and start the same file everywhere",
                       rank));
  for (const auto &[name, value] : values)
    if (size_t rank = firstOther(communicator.exchange(hashOf(value)))) {
      std::vector<std::string> said = exchangeText(communicator, value);
      refuse(communicator,
             fmt::format("rank {} was started with {} = {}, rank 0 with {}; start all ranks with the same "
                         "program and the same options",
                         rank, name, said[rank], said[0]));
    }
}

DataFingerprint fingerprintOf(const TokenData &data, bool whole) {
  DataFingerprint found;
  std::vector<uint64_t> hashes; // of the files, or of the blocks of a large one
  for (const TokenFile &file : data.files())
    for (std::span<const std::byte> bytes : {file.bytes(), file.maskBytes()}) {
      found.bytes += bytes.size();
      if (whole)
        hashes.push_back(checksum(bytes));
      else
        for (std::span<const std::byte> block : sampleOf(bytes))
          hashes.push_back(checksum(block));
    }
  found.hash = checksum(std::as_bytes(std::span(hashes)));
  return found;
}

std::string describe(const DataFingerprint &data) {
  return fmt::format("{} bytes with the checksum {:016x}", data.bytes, data.hash);
}

void requireSameData(Communicator &communicator, const std::string &option, const DataFingerprint &mine) {
  std::vector<int64_t> bytes = communicator.exchange(static_cast<int64_t>(mine.bytes)),
                       hashes = communicator.exchange(static_cast<int64_t>(mine.hash));
  for (size_t rank = 1; rank < bytes.size(); ++rank)
    if (bytes[rank] != bytes[0] || hashes[rank] != hashes[0]) {
      DataFingerprint other{static_cast<uint64_t>(bytes[rank]), static_cast<uint64_t>(hashes[rank])};
      refuse(communicator,
             fmt::format("{}: rank {} has {}, rank 0 has {}; all hosts need the same files, in the same order", option,
                         rank, describe(other), describe(mine)));
    }
}

} // namespace dtc
