// Which channel a group uses.
#pragma once

#include "runtime/abi/groups.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace dtc {

/// What meets in a group. It determines which groups may share a channel.
enum class Meeting {
  WithinStage,  ///< collectives of ranks of one stage
  AcrossStages, ///< collectives of several stages, which come when these are done with the step's last micro-batch
  Transfer      ///< sends and receives
};

/// `purpose` as in EmitCommands.h.
Meeting meetingOf(llvm::StringRef purpose, const abi::Group &group);

/// The channels of a program's groups, in their order. There are few (abi::MaximumChannels), and on each a command
/// waits for those before it:
///   transfers       have channels of their own, from the last back. A receive is begun a pass ahead: what was started
///                   behind it would wait until another stage sends
///   across stages   share one: who is first there waits for other stages, and needs all of these in the end
///   within a stage  share what is left
std::vector<uint32_t> channelsOf(llvm::ArrayRef<Meeting> meetings);

/// The channel of copies, which have channels of their own kind.
constexpr uint32_t copyChannelOf(bool isToHost) { return isToHost ? 0 : 1; }

} // namespace dtc
