// Ranks that do the same at the same times.
//
// Two ranks are of one class when they play one role on devices that are equally fast, and meet ranks of the same
// classes over links of the same levels, in each of their groups. That is the coarsest stable colouring of the ranks
// (Paige and Tarjan 1987; here by rounds of hashing): 4096 ranks of a mesh of three axes form as many classes as there
// are stages, and one slow rank puts whoever meets it into classes of their own.
#pragma once

#include "runtime/abi/mesh.h"
#include "timing/events/step.h"

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace dtc::timing {

/// What a group is to the ranks of one class.
struct GroupView {
  Span span;
  std::vector<int> classes; ///< of its members, ascending, each once; none: these ranks are not members
  bool operator==(const GroupView &) const = default;
};

/// The peer that a send or a receive of a class meets.
struct Peer {
  int ofClass = -1;
  int level = -1; ///< the innermost that joins the two
};

class EqualRanks {
public:
  /// `slowness`: for some ranks, how much longer their device takes than others of its kind.
  EqualRanks(const Step &step, const Layout &layout, const std::map<int64_t, double> &slowness = {});

  int count() const { return static_cast<int>(representatives.size()); }
  const std::vector<int> &classOf() const { return colours; }
  /// The lowest rank of a class, and how many there are of it.
  int representativeOf(int number) const { return representatives[number]; }
  int64_t sizeOf(int number) const { return sizes[number]; }
  double slownessOf(int number) const { return slow[number]; }
  const GroupView &groupOf(int number, uint32_t group) const { return views[number][group]; }
  Peer peerOf(int number, uint32_t group, int64_t shift) const;

private:
  const Layout &layout;
  Mesh mesh;
  std::vector<abi::Group> groups;
  std::vector<int> colours;
  std::vector<int> representatives;
  std::vector<int64_t> sizes;
  std::vector<double> slow;
  std::vector<std::vector<GroupView>> views; ///< of each class, by group
};

} // namespace dtc::timing
