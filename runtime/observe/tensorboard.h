// Metrics as an event file, which TensorBoard shows: a sequence of records, each of its length, a checksum of that, an
// Event (tensorboard.proto) and a checksum of it.
#pragma once

#include "runtime/observe/log_file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc {

/// Writes one file of a run, with a unique name; TensorBoard reads all files of a folder. Its functions are those of
/// LogFile.
class EventWriter {
public:
  explicit EventWriter(const std::string &folder);

  /// Makes the file this run's. Entries for steps after `after` in the folder's other files become void.
  void goOnAfter(int64_t after);
  /// Makes the file this run's, in addition to all others.
  void begin();
  /// Adds numbers of a step by their tags; `time` in seconds since 1970.
  [[nodiscard]] std::string append(int64_t step, double time,
                                   const std::vector<std::pair<std::string, double>> &values);
  void close() { file.close(); }

private:
  LogFile file;
  std::string head; // the records before the first numbers
};

/// A record with its length and checksums.
std::string eventRecord(std::string_view event);
/// CRC-32C (Castagnoli), as RFC 3720 has it.
uint32_t crc32c(std::string_view bytes);

} // namespace dtc
