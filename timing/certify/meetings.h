// Where classes of ranks meet: what they start of one group, or send to each other, the n-th of one with the n-th of
// the others.
#pragma once

#include "timing/certify/rank_classes.h"

#include <map>

namespace dtc::timing {

/// The collectives of a group of ranks of these classes, or the messages from one class to another.
struct Meeting {
  Way way; ///< of messages: the sender's
  uint32_t channel;
  std::vector<uint32_t> classes; ///< who take part; of messages the sender's, then the receiver's
  bool isCollective() const { return way.shift == 0; }
};

class Meetings {
public:
  /// All outlive it.
  Meetings(const abi::Manifest &manifest, const Mesh &mesh, const RankClasses &ranks,
           const std::vector<std::set<Way>> &ways);

  /// A meeting, and which of its classes a rank is there.
  struct Seat {
    uint32_t meeting, member;
    bool operator==(const Seat &) const = default;
  };
  /// Where a class takes part in what a command of its lists starts.
  Seat seatOf(uint32_t rankClass, const abi::Command &command) const;

  size_t size() const { return meetings.size(); }
  const Meeting &operator[](uint32_t meeting) const { return meetings[meeting]; }

  /// Whom a rank meets: the first of another member's class in its group, or who is at the other end of its message. Of
  /// its own member itself.
  int rankOf(Seat own, int rank, uint32_t member) const;

  const abi::Manifest &program() const { return manifest; }
  const RankClasses &rankClasses() const { return ranks; }
  const abi::Role &roleOf(int rank) const {
    return manifest.roles(ranks.classes[ranks.ofRanks[static_cast<size_t>(rank)]].role);
  }
  /// The ranks of its group that a rank meets there.
  std::vector<int> membersOf(uint32_t meeting, int rank) const {
    return mesh.group(rank, manifest.groups(static_cast<int>(meetings[meeting].way.group))).ranks;
  }

private:
  uint32_t add(Way way, std::vector<uint32_t> classes);
  Seat makeSeat(uint32_t rankClass, Way way, bool receives);

  const abi::Manifest &manifest;
  const Mesh &mesh;
  const RankClasses &ranks;
  std::vector<Meeting> meetings;
  std::map<std::pair<Way, std::vector<uint32_t>>, uint32_t> numbers;
  struct Ends {
    Seat sends, receives; ///< equal of collectives
  };
  std::vector<std::map<Way, Ends>> seats; ///< of each class
};

} // namespace dtc::timing
