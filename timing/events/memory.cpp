#include "timing/events/memory.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/written.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc::timing {

namespace {

struct Access {
  uint64_t begin, end; ///< address and bytes
  int first, last;     ///< commands between which it goes on
  bool writes;
};

/// For the commands from first to last a part of memory holds something.
struct Life {
  int first, last;
};

class ListMemory {
public:
  ListMemory(const abi::Manifest &manifest, const abi::Role &role, const abi::CommandList &list)
      : manifest(manifest), role(role), list(list) {}

  std::vector<MemoryAt> run() {
    findAccesses();
    std::vector<MemoryAt> memory(static_cast<size_t>(list.commands_size()));
    std::vector<uint64_t> bounds = findBounds();
    std::vector<std::vector<const Access *>> ofParts(bounds.size());
    for (const Access &access : accesses)
      for (auto part = std::ranges::lower_bound(bounds, access.begin) - bounds.begin();
           static_cast<size_t>(part) < bounds.size() && bounds[part] < access.end; ++part)
        ofParts[part].push_back(&access);
    for (size_t part = 0; part + 1 < bounds.size(); ++part)
      for (Life life : livesOf(ofParts[part]))
        add(bounds[part], bounds[part + 1], life, memory);
    return memory;
  }

private:
  /// Temporaries lie in the two spaces of one place, behind what has a name.
  bool isTemporary(uint64_t address) const {
    uint32_t space = abi::spaceOf(address);
    return space < uint32_t(role.spaces_size()) && role.spaces(static_cast<int>(space)).places() == 1 &&
           abi::offsetOf(address) >= namedEnds[space];
  }

  void findAccesses() {
    namedEnds.assign(static_cast<size_t>(role.spaces_size()), 0);
    for (const abi::Tensor &tensor : role.tensors()) {
      uint64_t &end = namedEnds[abi::spaceOf(tensor.address())];
      end = std::max(end, abi::offsetOf(tensor.address()) + abi::bytesOf(tensor));
    }
    for (int number = 0; number < list.commands_size(); ++number) {
      const abi::Command &command = list.commands(number);
      int last = abi::isStart(command) ? waitOf(number) : number;
      auto note = [&](bool writes) {
        return [&, writes](uint64_t address, uint64_t bytes) {
          if (bytes > 0 && isTemporary(address))
            accesses.push_back({address, address + bytes, number, last, writes});
        };
      };
      if (!command.has_wait())
        abi::forEachRange(manifest, command, note(false), note(true));
    }
  }

  /// Where what a command starts is waited for; at the end, where a later list does.
  int waitOf(int start) const {
    for (int number = start + 1; number < list.commands_size(); ++number)
      if (const abi::Command &command = list.commands(number);
          command.has_wait() && abi::tokenOf(command) == abi::tokenOf(list.commands(start)))
        return number;
    return list.commands_size() - 1;
  }

  std::vector<uint64_t> findBounds() const {
    std::set<uint64_t> bounds;
    for (const Access &access : accesses)
      bounds.insert({access.begin, access.end});
    return {bounds.begin(), bounds.end()};
  }

  /// Accesses come in the order of their begin.
  static std::vector<Life> livesOf(const std::vector<const Access *> &all) {
    std::vector<Life> lives;
    for (const Access *access : all) {
      bool isNew = lives.empty() || (access->writes && access->first > lives.back().last);
      if (lives.empty() && !access->writes)
        lives.push_back({0, access->last}); // written by an earlier list
      else if (isNew)
        lives.push_back({access->first, access->last});
      else
        lives.back().last = std::max(lives.back().last, access->last);
    }
    return lives;
  }

  void add(uint64_t begin, uint64_t end, Life life, std::vector<MemoryAt> &memory) const {
    const abi::Space &space = role.spaces(static_cast<int>(abi::spaceOf(begin)));
    uint64_t reach = abi::offsetOf(begin) + (end - begin);
    for (int at = life.first; at <= life.last; ++at) {
      MemoryAt &here = memory[static_cast<size_t>(at)];
      here.live += end - begin;
      uint64_t &highest = space.kind() == abi::Space::REGISTERED ? here.registeredEnd : here.privateEnd;
      highest = std::max(highest, reach);
    }
  }

  const abi::Manifest &manifest;
  const abi::Role &role;
  const abi::CommandList &list;
  std::vector<uint64_t> namedEnds; ///< of each space
  std::vector<Access> accesses;
};

} // namespace

std::vector<MemoryAt> memoryOverList(const abi::Manifest &manifest, const abi::Role &role,
                                     const abi::CommandList &list) {
  return ListMemory(manifest, role, list).run();
}

} // namespace dtc::timing
