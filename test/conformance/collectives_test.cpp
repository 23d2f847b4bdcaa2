// Every collective, over every bootstrap and shape of group, against its definition in manifest.proto, taken literally.
#include "runtime/abi/element_type.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/mesh.h"
#include "test/conformance/gpu_rank.h"
#include "test/conformance/ranks.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <span>

namespace dtc::test {
namespace {

/// A mesh, the axes of a collective, and the groups that follow, written out by hand.
struct GroupCase {
  const char *name;
  std::vector<std::pair<const char *, int>> mesh;
  struct Ref {
    const char *axis;
    int pre, size;
  };
  std::vector<Ref> axes;
  std::vector<std::vector<int>> groups;
  std::vector<uint32_t> members; ///< positions along the axes; none: all

  int ranks() const {
    int product = 1;
    for (auto &axis : mesh)
      product *= axis.second;
    return product;
  }
  /// Empty where the rank is in no group.
  std::vector<int> groupOf(int rank) const {
    for (const std::vector<int> &group : groups)
      if (std::find(group.begin(), group.end(), rank) != group.end())
        return group;
    return {};
  }
};

const GroupCase GroupCases[] = {
    {"WholeMesh", {{"dp", 2}, {"tp", 2}}, {{"dp", 1, 2}, {"tp", 1, 2}}, {{0, 1, 2, 3}}},
    {"WholeMeshTransposed", {{"dp", 2}, {"tp", 2}}, {{"tp", 1, 2}, {"dp", 1, 2}}, {{0, 2, 1, 3}}},
    {"MinorAxis", {{"dp", 2}, {"tp", 2}}, {{"tp", 1, 2}}, {{0, 1}, {2, 3}}},
    {"MajorAxis", {{"dp", 2}, {"tp", 2}}, {{"dp", 1, 2}}, {{0, 2}, {1, 3}}},
    {"MinorPartOfAxis", {{"x", 4}}, {{"x", 2, 2}}, {{0, 1}, {2, 3}}},
    {"MajorPartOfAxis", {{"x", 4}}, {{"x", 1, 2}}, {{0, 2}, {1, 3}}},
    {"ThreeRanks", {{"x", 3}}, {{"x", 1, 3}}, {{0, 1, 2}}},
    {"NoAxes", {{"x", 2}}, {}, {{0}, {1}}},
    {"FirstAndLastMember", {{"x", 4}}, {{"x", 1, 4}}, {{0, 3}}, {0, 3}},
    {"MembersOfBothAxes", {{"dp", 2}, {"tp", 2}}, {{"tp", 1, 2}, {"dp", 1, 2}}, {{0, 1, 3}}, {0, 2, 3}},
};

struct CollectiveCase {
  const char *name;
  abi::Collective::Kind kind;
  abi::Reduction reduction;
  abi::DataType type;
  int outer, middle, chunk;
  bool splitFirst, inPlace;
  enum Root { First, Last } root = First;
};

// Chunks: less than a cache line, an odd number, and large enough to be written around the cache.
const CollectiveCase CollectiveCases[] = {
    {"AllReduceSmall", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, 1, 1, 3, false, true},
    {"AllReduceSum", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, 3, 1, 1001, false, false},
    {"AllReduceInPlace", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, 3, 1, 1001, false, true},
    {"AllReduceLarge", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, 1, 1, 300007, false, true},
    {"AllReduceMax", abi::Collective::ALL_REDUCE, abi::MAX, abi::F32, 2, 1, 517, false, true},
    {"AllReduceIntegers", abi::Collective::ALL_REDUCE, abi::SUM, abi::I32, 2, 1, 517, false, false},
    {"AllReduceMaxIntegers", abi::Collective::ALL_REDUCE, abi::MAX, abi::I32, 2, 1, 517, false, true},
    {"AllGather", abi::Collective::ALL_GATHER, abi::SUM, abi::F32, 5, 1, 67, false, false},
    {"AllGatherLarge", abi::Collective::ALL_GATHER, abi::SUM, abi::F32, 1, 1, 150001, false, false},
    {"ReduceScatter", abi::Collective::REDUCE_SCATTER, abi::SUM, abi::F32, 5, 1, 67, false, false},
    {"ReduceScatterMax", abi::Collective::REDUCE_SCATTER, abi::MAX, abi::F32, 1, 1, 1031, false, false},
    {"ReduceScatterLarge", abi::Collective::REDUCE_SCATTER, abi::SUM, abi::F32, 1, 1, 200003, false, false},
    {"AllToAllSplitFirst", abi::Collective::ALL_TO_ALL, abi::SUM, abi::F32, 3, 5, 19, true, false},
    {"AllToAllConcatenateFirst", abi::Collective::ALL_TO_ALL, abi::SUM, abi::F32, 3, 5, 19, false, false},
    {"AllGatherBf16", abi::Collective::ALL_GATHER, abi::SUM, abi::BF16, 5, 1, 67, false, false},
    {"AllGatherLargeI8", abi::Collective::ALL_GATHER, abi::SUM, abi::I8, 1, 1, 600007, false, false},
    {"AllGatherMasks", abi::Collective::ALL_GATHER, abi::SUM, abi::MASK, 3, 1, 5, false, false},
    {"AllToAllI8", abi::Collective::ALL_TO_ALL, abi::SUM, abi::I8, 3, 5, 19, true, false},
    {"AllToAllF16", abi::Collective::ALL_TO_ALL, abi::SUM, abi::F16, 3, 5, 19, false, false},
    {"AllReduceBf16", abi::Collective::ALL_REDUCE, abi::SUM, abi::BF16, 3, 1, 1001, false, true},
    {"AllReduceMaxBf16", abi::Collective::ALL_REDUCE, abi::MAX, abi::BF16, 2, 1, 517, false, false},
    {"AllReduceF16", abi::Collective::ALL_REDUCE, abi::SUM, abi::F16, 1, 1, 1001, false, false},
    {"ReduceScatterLargeBf16", abi::Collective::REDUCE_SCATTER, abi::SUM, abi::BF16, 1, 1, 400003, false, false},
    {"Broadcast", abi::Collective::BROADCAST, abi::SUM, abi::F32, 3, 1, 1001, false, false},
    {"BroadcastInPlace", abi::Collective::BROADCAST, abi::SUM, abi::BF16, 2, 1, 67, false, true, CollectiveCase::Last},
    {"BroadcastLarge", abi::Collective::BROADCAST, abi::SUM, abi::I32, 1, 1, 300007, false, false,
     CollectiveCase::Last},
    {"Nothing", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, 0, 1, 16, false, true},
};

constexpr uint64_t InputOffset = 4096 + 4, OutputOffset = (4 << 20) + 12; // not aligned to cache lines

bool reduces(const CollectiveCase &test) {
  return test.kind == abi::Collective::ALL_REDUCE || test.kind == abi::Collective::REDUCE_SCATTER;
}

/// Collectives that only move data equal those on bytes: `i` counts bytes for types other than f32 and i32.
CollectiveCase inBytes(CollectiveCase test) {
  if (!reduces(test) && test.type != abi::F32 && test.type != abi::I32) {
    test.chunk *= static_cast<int>(abi::elementType(test.type).bytes);
    test.type = abi::I8;
  }
  return test;
}

/// The nearest value that a floating-point type has, as its bits.
uint32_t bitsOf(abi::DataType type, float value) {
  auto rounded = static_cast<float>(abi::roundTo(abi::elementType(type), value));
  if (type == abi::F16)
    return std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
  return std::bit_cast<uint32_t>(rounded) >> (type == abi::BF16 ? 16 : 0);
}

/// Element `i` of `rank`'s input in one round: a reproducible number whose sums round, so that the order matters.
uint32_t inputBits(const CollectiveCase &test, int rank, int64_t i, int round) {
  uint32_t mixed = (uint32_t(i) * 2654435761u + rank * 40503u + round * 977u) * 2246822519u;
  if (test.type == abi::I32)
    return mixed;
  if (test.type == abi::I8)
    return mixed >> 24;
  float value = static_cast<float>(static_cast<int32_t>(mixed)) * 0x1p-20f;
  return bitsOf(test.type, value);
}

void writeBits(std::byte *to, size_t width, uint32_t bits) { std::memcpy(to, &bits, width); }

/// For each host, the positions of its members in a group.
using Hosts = std::vector<std::vector<size_t>>;

/// The members of two hosts. None where members are added in their own order.
Hosts hostsThatAddFirst(const CollectiveCase &test, const std::vector<int> &group, int ranks) {
  std::vector<int> hostOf = twoHosts(ranks);
  Hosts hosts(2);
  for (size_t member = 0; member < group.size(); ++member)
    hosts[hostOf[group[member]] != hostOf[group[0]]].push_back(member);
  // In 16 bits, the sum of two terms is no shorter than the terms.
  bool saves =
      test.kind == abi::Collective::ALL_REDUCE || abi::elementType(test.type).bytes == 4 || hosts[0].size() > 2;
  return hosts[0].size() == hosts[1].size() && hosts[0].size() > 1 && saves ? hosts : Hosts();
}

/// In i32, or in f32, rounded once at the end. Does not allocate: it is called for each element.
uint32_t combine(const CollectiveCase &test, std::span<const uint32_t> terms, const Hosts &hosts) {
  if (test.type == abi::I32) {
    uint32_t result = terms[0];
    for (uint32_t term : terms.subspan(1)) {
      bool greater = static_cast<int32_t>(result) > static_cast<int32_t>(term);
      result = test.reduction == abi::SUM ? result + term : greater ? result : term;
    }
    return result;
  }
  auto number = [&](uint32_t bits) {
    return static_cast<float>(
        abi::readElement(abi::elementType(test.type), reinterpret_cast<const std::byte *>(&bits)));
  };
  auto combined = [&](auto &&values, auto &&valueOf) {
    float result = valueOf(values.front());
    for (auto value = std::next(values.begin()); value != values.end(); ++value)
      result = test.reduction == abi::SUM ? result + valueOf(*value) : std::max(result, valueOf(*value));
    return result;
  };
  if (hosts.empty())
    return bitsOf(test.type, combined(terms, number));
  auto sumOfHost = [&](const std::vector<size_t> &members) {
    return combined(members, [&](size_t member) { return number(terms[member]); });
  };
  return bitsOf(test.type, combined(hosts, sumOfHost));
}

/// The definition: element `index` of the output of member `me`.
uint32_t expectedBits(const CollectiveCase &test, const std::vector<int> &group, const Hosts &hosts, int me,
                      int64_t index, int round) {
  int64_t p = group.size(), chunk = test.chunk, middle = test.middle;
  auto in = [&](int64_t q, int64_t i) { return inputBits(test, group[q], i, round); };
  auto reduced = [&](int64_t i) {
    std::array<uint32_t, 4> terms; // groups have no more members
    for (int64_t q = 0; q < p; ++q)
      terms.at(q) = in(q, i);
    return combine(test, std::span(terms).first(p), hosts);
  };
  int64_t c = index % chunk, rows = index / chunk;
  switch (test.kind) {
  case abi::Collective::ALL_REDUCE:
    return reduced(index);
  case abi::Collective::ALL_GATHER:
    return in(rows % p, rows / p * chunk + c);
  case abi::Collective::REDUCE_SCATTER:
    return reduced((rows * p + me) * chunk + c);
  case abi::Collective::BROADCAST:
    return in(test.root == CollectiveCase::First ? 0 : p - 1, index);
  default:
    if (test.splitFirst) { // out[o][m][q] = in_q[o][me][m]
      int64_t q = rows % p, m = rows / p % middle, o = rows / p / middle;
      return in(q, ((o * p + me) * middle + m) * chunk + c);
    }
    // out[o][q][m] = in_q[o][m][me]
    int64_t m = rows % middle, q = rows / middle % p, o = rows / middle / p;
    return in(q, ((o * middle + m) * p + me) * chunk + c);
  }
}

abi::Command commandFor(const CollectiveCase &test, int members) {
  abi::Command command;
  abi::Collective &message = startOf(command, test);
  message.set_outer(test.outer);
  message.set_middle(test.middle);
  message.set_chunk(test.chunk);
  message.set_split_first(test.splitFirst);
  message.set_root(test.root == CollectiveCase::First ? 0 : members - 1);
  message.set_input(InputOffset);
  message.set_output(test.inPlace ? InputOffset : OutputOffset);
  return command;
}

class Collectives : public testing::TestWithParam<std::tuple<Bootstrap, int>> {};

TEST_P(Collectives, FollowTheirDefinition) {
  const GroupCase &shape = GroupCases[std::get<1>(GetParam())];
  abi::Manifest program;
  abi::Mesh &meshMessage = *program.mutable_mesh();
  for (auto [name, size] : shape.mesh) {
    abi::Axis *axis = meshMessage.add_axes();
    axis->set_name(name);
    axis->set_size(size);
  }
  abi::Group &groupMessage = *program.add_groups();
  groupMessage.mutable_members()->Assign(shape.members.begin(), shape.members.end());
  abi::AxisRefs &axes = *groupMessage.mutable_axes();
  for (const GroupCase::Ref &ref : shape.axes) {
    abi::AxisRef *axis = axes.Add();
    axis->set_axis(ref.axis);
    axis->set_pre(ref.pre);
    axis->set_size(ref.size);
  }
  // All collectives one after the other, each in three rounds without a pause: none may disturb the next, and an input
  // may be overwritten as soon as the call returns.
  auto failures = runRanks(std::get<0>(GetParam()), {shape.ranks()}, [&](Communicator &host, Arena &arena) {
    std::optional<GpuRank> gpu;
    if (std::get<0>(GetParam()) == Bootstrap::Gpus)
      gpu.emplace(host, arena, program, NcclCommunicator::Options{});
    auto *finish = gpu ? findInDriver<dtc_stand_in_finish_fn>("dtc_stand_in_finish") : nullptr;
    if (gpu && !finish)
      throw std::runtime_error("the driver is not the stand-in");
    Communicator &communicator = gpu ? *gpu : host;
    Mesh mesh(meshMessage);
    std::vector<int> expectedGroup = shape.groupOf(communicator.rank());
    if (mesh.group(communicator.rank(), groupMessage).ranks != expectedGroup)
      throw std::runtime_error("wrong group");
    if (expectedGroup.empty())
      return; // it takes no part
    for (const CollectiveCase &typed : CollectiveCases) {
      Group group = mesh.group(communicator.rank(), groupMessage);
      abi::Command command = commandFor(typed, group.size());
      const abi::Collective &message = command.start();
      CollectiveCase test = inBytes(typed);
      int64_t part = int64_t(test.outer) * test.middle * test.chunk, whole = part * group.size();
      bool wideIn = test.kind == abi::Collective::REDUCE_SCATTER || test.kind == abi::Collective::ALL_TO_ALL;
      bool wideOut = test.kind == abi::Collective::ALL_GATHER || test.kind == abi::Collective::ALL_TO_ALL;
      size_t width = abi::elementType(test.type).bytes;
      Hosts hosts;
      if (communicator.capabilities().sumOrder == SumOrder::HostsFirst &&
          std::get<0>(GetParam()) == Bootstrap::TwoHosts)
        hosts = hostsThatAddFirst(test, group.ranks, shape.ranks());
      std::byte *in = arena.base() + message.input(), *out = arena.base() + message.output();
      for (int round = 0; round < 3; ++round) {
        if (gpu) // early, before its operands if it does not wait for them; then late, after a reader that does not
          gpu->finish = round == 1 ? nullptr : finish;
        for (int64_t i = 0; i < (wideIn ? whole : part); ++i)
          writeBits(in + i * width, width, inputBits(test, communicator.rank(), i, round));
        communicator.run(group, command);
        for (int64_t i = 0; i < (wideOut ? whole : part); ++i)
          if (abi::readBits(abi::elementType(test.type), out + i * width) !=
              expectedBits(test, group.ranks, hosts, group.self, i, round))
            throw std::runtime_error(std::string(test.name) + ", round " + std::to_string(round) + ": wrong element " +
                                     std::to_string(i));
      }
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(shape.ranks()));
}

INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         testing::Combine(testing::Values(Bootstrap::Threads, Bootstrap::Processes,
                                                          Bootstrap::NamedProcesses, Bootstrap::Staged, Bootstrap::Gpus,
                                                          Bootstrap::Hosts, Bootstrap::TwoHosts),
                                          testing::Range(0, int(std::size(GroupCases)))),
                         [](const auto &info) {
                           std::ostringstream name;
                           name << std::get<0>(info.param) << GroupCases[std::get<1>(info.param)].name;
                           return name.str();
                         });

} // namespace
} // namespace dtc::test
