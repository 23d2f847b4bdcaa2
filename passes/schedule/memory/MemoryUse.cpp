// Counts an arena's bytes by what they hold.
#include "passes/schedule/memory/MemoryUse.h"
#include "passes/schedule/Spaces.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace dtc {

bool ArenaExtent::isOfSeveral(uint64_t offset) const {
  return std::any_of(spaces.begin(), spaces.end(),
                     [&](const PlacedSpace &space) { return offset >= space.base && offset < space.end(); });
}

uint64_t ArenaExtent::privateSpaceEnd() const {
  uint64_t until = shared;
  for (const PlacedSpace &space : spaces)
    if (space.base < shared)
      until = std::min(until, space.base);
  return until;
}

uint64_t ArenaExtent::registeredSpaceEnd() const {
  uint64_t until = bytes;
  for (const PlacedSpace &space : spaces)
    if (space.base >= shared)
      until = std::min(until, space.base);
  return until;
}

std::vector<std::pair<std::string, uint64_t>> memoryUse(const ArenaExtent &arena,
                                                        const std::vector<HeldTensor> &tensors) {
  std::unordered_set<uint64_t> counted; // tensors that take over another's memory are at its offset
  uint64_t state = 0, copies = 0, slots = 0, kept = 0, gradients = 0, caches = 0, interface = 0;
  uint64_t privateNamed = 0, sharedNamed = arena.shared;
  for (const HeldTensor &tensor : tensors) {
    if (arena.isOfSeveral(tensor.begin))
      continue;
    uint64_t &named = tensor.begin < arena.shared ? privateNamed : sharedNamed;
    named = std::max(named, tensor.end);
    if (!counted.insert(tensor.begin).second)
      continue;
    (tensor.holds == Holds::Parameters  ? state
     : tensor.holds == Holds::Copies    ? copies
     : tensor.holds == Holds::Slots     ? slots
     : tensor.holds == Holds::Kept      ? kept
     : tensor.holds == Holds::Gradients ? gradients
     : tensor.holds == Holds::Caches    ? caches
                                        : interface) += tensor.end - tensor.begin;
  }
  std::map<llvm::StringRef, uint64_t> rest = {{activations, arena.privateEnd - privateNamed},
                                              {communication, arena.registeredSpaceEnd() - sharedNamed}};
  for (const PlacedSpace &space : arena.spaces)
    rest[spaceCategories[space.number]] += space.end() - space.base;
  uint64_t alignment = arena.bytes - state - copies - slots - kept - gradients - caches - interface;
  for (const auto &[category, bytes] : rest)
    alignment -= bytes;
  std::vector<std::pair<std::string, uint64_t>> use = {{"parameters", state},
                                                       {"optimizer state", slots},
                                                       {"gradients", gradients},
                                                       {"inputs and outputs", interface},
                                                       {activations.str(), rest[activations]},
                                                       {communication.str(), rest[communication]},
                                                       {"alignment", alignment}};
  if (copies) // few programs have them
    use.insert(use.begin() + 1, {"copies in 16 bits", copies});
  if (kept) // those whose steps overlap
    use.insert(use.begin() + (copies ? 3 : 2), {keptState.str(), kept});
  if (caches) // those that generate
    use.insert(use.begin() + 1, {"keys and values", caches});
  if (!arena.spaces.empty()) // a pipeline's
    for (llvm::StringRef category : {stash, receiveBuffers, sendBuffers})
      use.insert(use.end() - 1, {category.str(), rest[category]});
  return use;
}

} // namespace dtc
