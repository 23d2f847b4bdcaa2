// The collectives of a group whose members are on several hosts.
//
// Every command works like this. The members on this host exchange their offsets and wait for each other, in the lane
// of the group's channel. Data moves, between hosts over connections and within a host through shared memory. The
// members on this host wait for each other again. Members on other hosts are synchronized only by the data and the
// header before it.
//   all-reduce      Each member gets every other member's terms of its slice, adds them, and sends each member the
//                   result. Terms of members on this host are read in place, those of others pass through a stage of a
//                   few segments. A segment is sent back as soon as it is added. In a small all-reduce without two
//                   members on one host, every member gets all terms: one trip instead of two.
//   reduce-scatter  The first half of an all-reduce.
//   For rows with logarithms of their weights (rows.cpp), each member combines whole rows in these two, some at a time,
//   always in the order of members.
//   all-gather, all-to-all: data of members on this host is read in place; others send what is needed, directly from
//                   input to output. With counts (all_to_all.cpp), all members exchange these first.
//   send and receive: directly between the operands.
// Sums are formed in the order of the group's members. 16-bit operands are sent as 16 bits, added in f32 and rounded
// once. Results have the same bits as in peer_memory.h.
//
// If every host has the same number of members, two or more, all-reduce and reduce-scatter are hierarchical instead
// (hierarchy.cpp): hosts send each other their sums instead of each member's terms.
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
  /// How much is added and sent on at a time.
  int64_t segmentBytes = int64_t(256) << 10;
  /// Data over links with at most this many bytes per second is hashed: hashing costs less than one percent there
  /// (bench/hosts.md).
  double hashedUpTo = 200e6;
};

/// What all groups of a rank share.
struct HostsContext {
  Membership &membership;
  ControlBlock &control;                  ///< of this host's ranks
  const std::vector<std::byte *> &bases;  ///< those ranks' arenas
  const std::vector<std::byte *> &stages; ///< as in SharedArenas
  std::vector<int> places;                ///< per rank of the job: its index among the ranks of this host, -1 for
                                          ///< others
  Streams streams;
  HostsOptions options;
  /// One per channel and rank of another host, shared by all groups.
  std::map<std::pair<uint32_t, int>, SharedDescriptor> connections{};
  /// Whether data to a rank is hashed, for ranks of other hosts whose links have been measured.
  std::map<int, bool> isHashed{};
};

class SpanningGroup {
public:
  /// Connects the members; all call it for their groups in the same order. Throws like Membership::connect.
  SpanningGroup(HostsContext &context, Group group);

  /// Measures the links to members where their speed is not known. All members call it after creating the group.
  void measure();

  /// Runs the command, or the collective of these parts, which was started in `step`, and returns when it is done. The
  /// group's channel runs one at a time.
  void carryOut(Parts parts, uint64_t step);

private:
  /// How many segments of one member's terms may wait to be added.
  static constexpr int64_t StageSegments = 4;

  /// Whether no two members are on one host.
  bool isSpread() const { return hosts.size() == group.ranks.size(); }
  bool isHere(int member) const { return context.places[group.ranks[member]] >= 0; }
  uint32_t lane() const { return ControlBlock::SpanningLane + group.channel; }
  /// Where the current part's operands are, for a member on this host.
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

  /// Makes each part the current one in turn and visits it.
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
  std::vector<std::vector<int>> hosts; ///< the members on each host, hosts in the order of their first members
  std::vector<int> here;               ///< members on this host
  std::vector<int> herePlaces;         ///< their numbers in shared memory
  uint64_t signature = 0;              ///< of the running command
  Parts current;                       ///< the parts of the running command
  size_t part = 0;                     ///< the index of the current part
  uint64_t step = 0;                   ///< in which the command was started
  std::unique_ptr<std::byte[]> staged;
  int64_t stagedBytes = 0;
};

} // namespace dtc
