#include "runtime/program/data_fingerprint.h"

#include "runtime/checkpoint/checksums.h"

#include <bit>
#include <fmt/format.h>
#include <span>

namespace dtc {

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

} // namespace dtc
