// What a rank's arena is made of, and what it holds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

constexpr uint64_t alignTo(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Memory of several places, as in the module and the manifest.
struct PlacedSpace {
  uint32_t number; ///< a Space
  uint64_t base, stride;
  uint32_t places;
  uint64_t end() const { return base + stride * places; }
};

/// What memory that lives for the whole run holds.
enum class Holds { Parameters, Copies, Slots, Kept, Gradients, Caches, Interface };

/// A tensor that lives for the whole run. Several may be in the same memory.
struct HeldTensor {
  uint64_t begin, end; ///< the end at a multiple of the arena's unit
  Holds holds;
};

struct ArenaExtent {
  uint64_t bytes = 0;
  uint64_t shared = 0;     ///< where the part that peers see begins
  uint64_t privateEnd = 0; ///< the end of what has one place and is not seen by peers
  std::vector<PlacedSpace> spaces;
  uint64_t host = 0; ///< bytes of the host's memory, whose offsets follow the arena's

  bool isOfSeveral(uint64_t offset) const;
  /// Where the private and the registered memory of one place end.
  uint64_t privateSpaceEnd() const;
  uint64_t registeredSpaceEnd() const;
};

/// Bytes by category, in a fixed order; they add up to the arena.
std::vector<std::pair<std::string, uint64_t>> memoryUse(const ArenaExtent &arena,
                                                        const std::vector<HeldTensor> &tensors);

} // namespace dtc
