// Files that several ranks read. A host may have files of its own, so one path can lead to other ones on each: ranks
// that see the same folder share the work of reading it, and what was read from different folders is compared.
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
  /// different hosts count as different, also where hosts share them: each host sees to what it reads. Collective.
  Readers(Communicator &communicator, const std::string &directory);

  /// The parts of a folder's files go round among its ranks.
  bool isMine(size_t part) const { return part % count == place; }
  /// Whether this rank does what is done once for each folder.
  bool isFirst() const { return place == 0; }
  bool shareOneFolder() const { return count == folders.size(); }

  /// One number of each rank in, the sum over the ranks of its folder out.
  std::vector<int64_t> sumByFolder(const std::vector<int64_t> &ofRanks) const;

private:
  std::vector<int64_t> folders; // of each rank: equal where it is the same one
  size_t place = 0, count = 0;  // of this rank among those of its folder
};

/// A tensor that was loaded, under its name in the program, and where it was found.
struct LoadedTensor {
  std::string name;
  SafetensorsModel::Found found;
};

/// Compares what was loaded from different folders, tensor by tensor; within one folder there is nothing to compare.
/// `tensors` have the same names on all ranks; `hashOf` gives the checksum of one, and is asked for this rank's part.
/// Collective. Throws Error (BadInput) where tensors differ: on rank 0 naming the first tensor, the lowest rank that
/// has another one than rank 0, both hosts, files and checksums; without words on the others.
void requireSameTensors(Communicator &communicator, const Readers &readers, const std::vector<LoadedTensor> &tensors,
                        const std::function<uint64_t(const LoadedTensor &)> &hashOf);

} // namespace dtc
