#include "runtime/program/agreement.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/agree.h"

#include <bit>
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

DataFingerprint fingerprintOf(const TokenData &data, bool whole) {
  DataFingerprint found;
  std::vector<uint64_t> hashes; // of the files, or of the blocks of a large one
  auto add = [&](std::span<const std::byte> bytes) {
    found.bytes += bytes.size();
    if (whole)
      hashes.push_back(checksum(bytes));
    else
      for (std::span<const std::byte> block : sampleOf(bytes))
        hashes.push_back(checksum(block));
  };
  for (const TokenFile &file : data.files()) {
    add(file.bytes());
    add(file.maskBytes());
    if (const DocumentIndex *index = file.documents())
      add(index->bytes());
  }
  found.hash = checksum(std::as_bytes(std::span(hashes)));
  return found;
}

DataFingerprint fingerprintOf(const std::vector<Source> &sources, bool whole) {
  if (sources.size() == 1)
    return fingerprintOf(sources.front().data, whole);
  DataFingerprint all;
  std::vector<uint64_t> hashes;
  for (const Source &source : sources) {
    DataFingerprint one = fingerprintOf(source.data, whole);
    all.bytes += one.bytes;
    hashes.push_back(std::bit_cast<uint64_t>(source.weight));
    hashes.push_back(one.bytes);
    hashes.push_back(one.hash);
  }
  all.hash = checksum(std::as_bytes(std::span(hashes)));
  return all;
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
      refuseTogether(communicator,
                     fmt::format("{}: rank {} has {}, rank 0 has {}; all hosts need the same files, in the same order",
                                 option, rank, describe(other), describe(mine)));
    }
}

} // namespace dtc
