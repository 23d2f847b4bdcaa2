#include "passes/schedule/emit/Channels.h"

#include "dialect/IR/Names.h"
#include "passes/schedule/emit/EmitCommands.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtc {

Meeting meetingOf(llvm::StringRef purpose, const abi::Group &group) {
  if (purpose != collectivePurpose)
    return Meeting::Transfer;
  bool isAcross =
      llvm::any_of(group.axes(), [](const abi::AxisRef &ref) { return ref.axis() == mlir::dt::pipelineAxis; });
  return isAcross ? Meeting::AcrossStages : Meeting::WithinStage;
}

std::vector<uint32_t> channelsOf(llvm::ArrayRef<Meeting> meetings) {
  constexpr uint32_t Most = abi::MaximumChannels;
  bool isAcross = llvm::is_contained(meetings, Meeting::AcrossStages);
  // At least one channel is left for each of the other kinds.
  auto transfers = std::min(static_cast<uint32_t>(llvm::count(meetings, Meeting::Transfer)), Most - 2);
  uint32_t across = Most - 1 - transfers, within = isAcross ? across : across + 1;
  std::vector<uint32_t> channels;
  uint32_t nextTransfer = 0, nextWithin = 0;
  for (Meeting meeting : meetings)
    switch (meeting) {
    case Meeting::Transfer:
      channels.push_back(Most - 1 - nextTransfer++ % transfers);
      break;
    case Meeting::AcrossStages:
      channels.push_back(across);
      break;
    case Meeting::WithinStage:
      channels.push_back(nextWithin++ % within);
      break;
    }
  return channels;
}

} // namespace dtc
