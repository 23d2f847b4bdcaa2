// Files that several ranks read. Each host may have its own files, so one path can name different files on different
// hosts. Ranks that see the same folder share the work of reading it, and data from different folders is compared.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/weights/safetensors.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

class Readers {
public:
  /// Groups the ranks by the folder that `directory`, which may differ between ranks, is on their hosts. Folders of
  /// different hosts count as different, even if hosts share them: each host checks what it reads. Collective.
  Readers(Communicator &communicator, const std::string &directory);

  /// The parts of a folder's files are dealt round-robin to its ranks.
  bool isMine(size_t part) const { return part % count == place; }
  /// Whether this rank does the work that is done once per folder.
  bool isFirst() const { return place == 0; }
  bool shareOneFolder() const { return count == folders.size(); }

  /// Takes one number from each rank; returns for each the sum over the ranks of its folder.
  std::vector<int64_t> sumByFolder(const std::vector<int64_t> &ofRanks) const;

private:
  std::vector<int64_t> folders; // of each rank: equal for the same folder
  size_t place = 0, count = 0;  // of this rank among those of its folder
};

/// A loaded tensor, by its name in the program, and where it was found.
struct LoadedTensor {
  std::string name;
  SafetensorsModel::Found found;
};

/// Compares what was loaded from different folders, tensor by tensor; within one folder there is nothing to compare.
/// `tensors` have the same names on all ranks; `hashOf` gives the checksum of one, and is called for this rank's part.
/// Collective. Throws Error (BadInput) if tensors differ: on rank 0 it names the first tensor, the lowest rank whose
/// tensor differs from rank 0's, and both hosts, files and checksums; on the others it has no message.
void requireSameTensors(Communicator &communicator, const Readers &readers, const std::vector<LoadedTensor> &tensors,
                        const std::function<uint64_t(const LoadedTensor &)> &hashOf);

} // namespace dtc
