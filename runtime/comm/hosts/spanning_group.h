// The collectives of a group whose members are on several hosts.
//
// Every command is: the members on this host tell each other their offsets and wait for each other, in the lane of the
// group's channel; data moves, between hosts over connections and within one through shared memory; they wait for each
// other again. Members on other hosts are met by the data alone, and by the header before it.
//   all-reduce      Each member adds up its slice of the elements, of which it gets every other member's terms, and
//                   gives each of them the result. Terms of members on this host are read where they lie, those of
//                   others pass through a stage of a few segments, and a segment is on its way back as soon as it is
//                   added. Of a small all-reduce without two members on one host, every member gets all terms: that is
//                   one trip instead of two.
//   reduce-scatter  The first half of that.
//   Of rows that have logarithms of their weights (rows.cpp), each member combines whole rows in these two, some at a
//   time, always in the order of members.
//   all-gather, all-to-all: members on this host are read from, others send what is needed, from and to where it lies.
//                   With counts (all_to_all.cpp), all members tell each other these first.
//   send and receive: from and to where the operands lie.
// Sums are formed in the order of the group's members, 16-bit operands travel as 16 bits, are added in f32 and rounded
// once: results have the bits of peer_memory.h.
//
// Where every host has equally many members, two or more, all-reduce and reduce-scatter are hierarchical instead
// (hierarchy.cpp): what crosses between hosts is not each member's terms but each host's sum of them.
#pragma once

#include "runtime/abi/mesh.h"
#include "runtime/comm/command_signature.h"
#include "runtime/comm/hosts/streams.h"
#include "runtime/comm/local/weighted_rows.h"
#include "runtime/liveness/control_block.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace dtc {

struct HostsOptions {
  /// What is added up in one go, and sent on.
  int64_t segmentBytes = int64_t(256) << 10;
  /// Over links that carry no more bytes a second than this, what is sent is hashed: it costs less there than its
  /// hundredth (bench/hosts.md).
  double hashedUpTo = 200e6;
};

/// What all groups of a rank work with.
struct HostsContext {
  Membership &membership;
  ControlBlock &control;                  ///< of this host's ranks
  const std::vector<std::byte *> &bases;  ///< their arenas
  const std::vector<std::byte *> &stages; ///< as SharedArenas has them
  std::vector<int> places;                ///< of the job's ranks among those of this host, -1 for others
  Streams streams;
  HostsOptions options;
  /// One for each channel and rank of another host, whatever groups they share.
  std::map<std::pair<uint32_t, int>, SharedDescriptor> connections{};
  /// Whether what goes there is hashed: ranks of other hosts to which the way has been measured.
  std::map<int, bool> isHashed{};
};

class SpanningGroup {
public:
  /// Connects the members; all call it in one order of groups. As Membership::connect.
  SpanningGroup(HostsContext &context, Group group);

  /// Learns how fast the way to its members is where that is not known. All call it, as they make the group.
  void measure();

  /// Returns when the command, or the collective of these parts, which was started in `step`, is done. The group's
  /// channel carries out one at a time.
  void carryOut(Parts parts, uint64_t step);

private:
  /// How many segments of one member's terms may wait to be added.
  static constexpr int64_t StageSegments = 4;

  /// Whether no two members are on one host.
  bool isSpread() const { return hosts.size() == group.ranks.size(); }
  bool isHere(int member) const { return context.places[group.ranks[member]] >= 0; }
  uint32_t lane() const { return ControlBlock::SpanningLane + group.channel; }
  /// Where the operands of a member on this host are: of the part that is being looked at.
  std::byte *input(int member) const { return at(member, &Ticket::Operands::input); }
  std::byte *output(int member) const { return at(member, &Ticket::Operands::output); }
  std::byte *besideInput(int member) const { return at(member, &Ticket::Operands::besideInput); }
  std::byte *besideOutput(int member) const { return at(member, &Ticket::Operands::besideOutput); }
  std::byte *at(int member, uint64_t Ticket::Operands::*offset) const;
  std::byte *input() const { return input(group.self); }
  std::byte *output() const { return output(group.self); }

  void connect();
  void backStage();
  void meet(const std::vector<int> &members);
  Link linkTo(int member);
  void move(std::vector<Link> &links, const std::function<void()> &advance);
  [[noreturn]] void throwDamage(const Link &link) const;
  std::byte *stage(int64_t bytes);

  /// Looks at one part after the other.
  template <typename Visit> void forEachPart(const Visit &visit) {
    for (part = 0; part < current.size(); ++part)
      visit(current[part]->start());
    part = 0;
  }
  int64_t reducedBytes() const;
  void collective();
  void alone(const abi::Collective &collective);
  void transfer(const abi::Transfer &transfer, bool sends, int member);
  void reduceSmall();
  void reduce();
  bool isEven() const;
  bool addsWithinHostsFirst(const abi::Collective &collective) const;
  size_t numberHere() const;
  Strided shareFor(const abi::Collective &collective, std::byte *base, size_t host) const;
  std::vector<Strided> termsFor(const abi::Collective &collective, size_t host) const;
  std::vector<Strided> resultsOf(const abi::Collective &collective, size_t host) const;
  void reduceWithinHostsFirst();
  void allGather();
  void gatherOncePerHost();
  void gatherHere(const abi::Collective &collective);
  Strided gathered(const abi::Collective &collective, int member) const;
  std::byte *stageOf(int member) const;
  std::vector<int32_t> countsOf(const abi::Collective &collective);
  void allToAll(const abi::Collective &collective);
  void broadcast(const abi::Collective &collective);
  WeightedRows rowsFor(const abi::Collective &collective, int member, int adder, int64_t from) const;
  WeightedRows resultRows(const abi::Collective &collective, int member, int adder, int64_t from) const;
  void mergeRows(const abi::Collective &collective);
  void mergeRound(const abi::Collective &collective, int64_t begin, int64_t most);

  HostsContext &context;
  Group group;
  std::vector<int> sockets;            ///< of the connection to each member, -1 for those on this host
  std::vector<std::vector<int>> hosts; ///< the members on each, in the order of their first ones
  std::vector<int> here;               ///< members on this host
  std::vector<int> herePlaces;         ///< what shared memory calls them
  uint64_t signature = 0;              ///< of the command under way
  Parts current;                       ///< of it
  size_t part = 0;                     ///< of these, the one that is being looked at
  uint64_t step = 0;                   ///< in which it was started
  std::unique_ptr<std::byte[]> staged;
  int64_t stagedBytes = 0;
};

} // namespace dtc
