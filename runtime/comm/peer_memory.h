// The collectives of ranks that can read and write each other's arenas directly.
//
// Every collective is: publish my offsets, synchronise (all inputs are complete), move data, synchronise (nobody reads
// my input or writes my output any more). Nothing is packed or staged.
//   all-reduce      Each member reduces its slice of the elements over all members' inputs and writes it into every
//                   member's output. Each element is read once per member and written once per member, the least that
//                   any algorithm moves through memory; in place is safe because slices are disjoint.
//   reduce-scatter  Each member reduces its own part over all members' inputs.
//   all-gather, all-to-all: each member copies what it needs out of its peers' inputs.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/comm/control_block.h"

#include <memory>
#include <vector>

namespace dtc {

class PeerMemory final : public Communicator {
public:
  /// `bases[r]`: where offset 0 of rank r's arena is for this process. `resources` is kept until the end: mappings,
  /// descriptors, whatever the bootstrap needs.
  PeerMemory(ControlBlock control, std::vector<std::byte *> bases, std::shared_ptr<void> resources);
  ~PeerMemory() override;

  int rank() const override { return control.self(); }
  int size() const override { return control.ranks(); }
  void run(const Group &group, const abi::Collective &collective) override;
  std::vector<int64_t> exchange(int64_t value) override;
  void poison(std::string_view why) noexcept override;

private:
  void checkAgreement(const Group &group, const abi::Collective &collective);
  void allReduce(const Group &group, const abi::Collective &collective);
  void reduceScatter(const Group &group, const abi::Collective &collective);
  void allGather(const Group &group, const abi::Collective &collective);
  void allToAll(const Group &group, const abi::Collective &collective);

  std::byte *input(int rank) { return bases[rank] + control.ticket(rank).input; }
  std::byte *output(int rank) { return bases[rank] + control.ticket(rank).output; }

  std::shared_ptr<void> resources;
  ControlBlock control;
  std::vector<std::byte *> bases;
  std::vector<int> everybody;
};

} // namespace dtc
