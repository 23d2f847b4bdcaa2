// How ranks exchange data. One interface; today's transports are the arenas of ranks on one host, as threads of one
// process (in_process.h) or as processes (shared_memory.h), both through the algorithms of peer_memory.h.
//
// Every call is collective and blocking: all ranks concerned make it, in one order for any two ranks that meet in it.
// One thread at a time uses a communicator; asynchrony is the matter of the stream it is called from (device/stream.h).
//
// A call returns when the data are there, or throws PeerLostError naming the rank that died, left or gave up, on every
// rank that waits for anything, within seconds. After an exception the communicator can only be destroyed.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/comm/mesh.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dtc {

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Runs one collective over `group`, which was made for this rank. Shapes and semantics: message Collective in
  /// manifest.proto; offsets are into each rank's own arena and may differ between ranks. What other ranks read (the
  /// input, and an all-reduce's output, which they write) must lie in the arena's shared part.
  virtual void run(const Group &group, const abi::Collective &collective) = 0;

  /// Gathers one number from every rank, for decisions of the host (stop now? whose value was not finite?). Doubles as
  /// a barrier over all ranks.
  virtual std::vector<int64_t> exchange(int64_t value) = 0;

  void barrier() { exchange(0); }

  /// Tells all ranks that this one gives up and why; those that wait, now or later, throw PeerLostError. May be called
  /// from any thread, also after an exception; the first call of any rank stands.
  virtual void poison(std::string_view why) noexcept = 0;
};

} // namespace dtc
