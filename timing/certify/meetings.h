// Where classes of ranks meet: at the collectives that they start in one group, or at the messages that they send to
// each other. The n-th of one meets the n-th of the others.
#pragma once

#include "timing/certify/rank_classes.h"

#include <map>

namespace dtc::timing {

/// The collectives of a group of ranks of these classes, or the messages from one class to another.
struct Meeting {
  Way way; ///< for messages: the sender's
  uint32_t channel;
  std::vector<uint32_t> classes; ///< who take part; for messages the sender's, then the receiver's
  bool isCollective() const { return way.shift == 0; }
};

class Meetings {
public:
  /// All arguments must outlive it.
  Meetings(const abi::Manifest &manifest, const Mesh &mesh, const RankClasses &ranks,
           const std::vector<std::set<Way>> &ways);

  /// A meeting, and which of its classes a rank belongs to there.
  struct Seat {
    uint32_t meeting, member;
    bool operator==(const Seat &) const = default;
  };
  /// Where a class takes part in what a command of its lists starts.
  Seat seatOf(uint32_t rankClass, const abi::Command &command) const;

  size_t size() const { return meetings.size(); }
  const Meeting &operator[](uint32_t meeting) const { return meetings[meeting]; }

  /// Whom a rank meets: the first rank of another member's class in its group, or the one at the other end of its
  /// message. For its own member, itself.
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
    Seat sends, receives; ///< equal for collectives
  };
  std::vector<std::map<Way, Ends>> seats; ///< of each class
};

} // namespace dtc::timing
