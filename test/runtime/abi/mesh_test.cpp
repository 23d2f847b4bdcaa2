#include "runtime/abi/mesh.h"

#include "runtime/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc {
namespace {

using testing::ElementsAre;

abi::Mesh meshOf(std::vector<std::pair<std::string, int64_t>> axes) {
  abi::Mesh mesh;
  for (auto &[name, size] : axes) {
    mesh.add_axes()->set_name(name);
    mesh.mutable_axes()->rbegin()->set_size(size);
  }
  return mesh;
}

struct Ref {
  std::string axis;
  int64_t pre, size;
};

Mesh::AxisRefs refs(std::vector<Ref> list) {
  Mesh::AxisRefs result;
  for (const Ref &ref : list) {
    abi::AxisRef *message = result.Add();
    message->set_axis(ref.axis);
    message->set_pre(ref.pre);
    message->set_size(ref.size);
  }
  return result;
}

// The example of mesh.h: rank 6 of dp=2,tp=4 has dp=1, tp=2, and 2 is 1*2 + 0.
TEST(MeshTest, RanksAreRowMajorAndSubAxesAreDigits) {
  Mesh mesh(meshOf({{"dp", 2}, {"tp", 4}}));
  EXPECT_EQ(mesh.ranks(), 8);
  EXPECT_EQ(mesh.indexOf(6, refs({{"dp", 1, 2}})), 1);
  EXPECT_EQ(mesh.indexOf(6, refs({{"tp", 1, 4}})), 2);
  EXPECT_EQ(mesh.indexOf(6, refs({{"tp", 1, 2}})), 1);
  EXPECT_EQ(mesh.indexOf(6, refs({{"tp", 2, 2}})), 0);
  EXPECT_EQ(mesh.indexOf(6, refs({{"tp", 1, 4}, {"dp", 1, 2}})), 2 * 2 + 1);
  EXPECT_EQ(mesh.indexOf(6, refs({})), 0);
}

TEST(MeshTest, AGroupDiffersOnlyInItsAxesAndIsNumberedByThem) {
  Mesh mesh(meshOf({{"dp", 2}, {"tp", 4}}));
  EXPECT_THAT(mesh.group(6, refs({{"tp", 1, 4}})).ranks, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.group(6, refs({{"dp", 1, 2}})).ranks, ElementsAre(2, 6));
  EXPECT_THAT(mesh.group(6, refs({{"tp", 2, 2}})).ranks, ElementsAre(6, 7));
  EXPECT_THAT(mesh.group(6, refs({{"tp", 1, 2}})).ranks, ElementsAre(4, 6));
  EXPECT_THAT(mesh.group(6, refs({{"tp", 1, 2}, {"dp", 1, 2}})).ranks, ElementsAre(0, 4, 2, 6));
  EXPECT_EQ(mesh.group(6, refs({{"tp", 1, 2}, {"dp", 1, 2}})).self, 3);
  EXPECT_THAT(mesh.group(6, refs({})).ranks, ElementsAre(6));
}

// Both views of a rank agree: a member's place in the group is its index within the axes.
TEST(MeshTest, PlaceInTheGroupIsTheIndexWithinItsAxes) {
  Mesh mesh(meshOf({{"a", 3}, {"b", 4}, {"c", 2}}));
  for (auto axes : {refs({{"b", 1, 4}}), refs({{"c", 1, 2}, {"a", 1, 3}}), refs({{"b", 2, 2}, {"a", 1, 3}})})
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      EXPECT_EQ(mesh.group(rank, axes).self, mesh.indexOf(rank, axes));
}

abi::Group groupOver(const Mesh::AxisRefs &axes, std::initializer_list<uint32_t> members = {}) {
  abi::Group group;
  *group.mutable_axes() = axes;
  group.mutable_members()->Assign(members.begin(), members.end());
  group.set_channel(3);
  return group;
}

TEST(MeshTest, MembersAreSomeOfThoseOverTheAxes) {
  Mesh mesh(meshOf({{"pp", 4}, {"tp", 2}}));
  abi::Group ends = groupOver(refs({{"pp", 1, 4}}), {0, 3}),
             rest = groupOver(refs({{"tp", 1, 2}, {"pp", 1, 4}}), {1, 2});
  EXPECT_THAT(mesh.group(1, ends).ranks, ElementsAre(1, 7));
  EXPECT_EQ(mesh.group(7, ends).self, 1);
  EXPECT_EQ(mesh.group(7, ends).channel, 3);
  EXPECT_THAT(mesh.group(3, ends).ranks, ElementsAre());
  EXPECT_FALSE(mesh.isMember(3, ends));
  EXPECT_TRUE(mesh.isMember(6, ends));
  EXPECT_THAT(mesh.group(4, rest).ranks, ElementsAre(2, 4)) << "numbered over both axes, tp first";
  EXPECT_TRUE(mesh.isMember(3, groupOver(refs({{"pp", 1, 4}}))));
}

TEST(MeshTest, ANeighbourIsSoManyPlacesFurtherInTheGroup) {
  Mesh mesh(meshOf({{"a", 3}, {"b", 4}, {"c", 2}}));
  for (const abi::Group &message :
       {groupOver(refs({{"b", 1, 4}})), groupOver(refs({{"c", 1, 2}, {"a", 1, 3}})),
        groupOver(refs({{"b", 2, 2}, {"a", 1, 3}})), groupOver(refs({})), groupOver(refs({{"b", 1, 4}}), {0, 2, 3}),
        groupOver(refs({{"c", 1, 2}, {"a", 1, 3}}), {1, 4})})
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      Group group = mesh.group(rank, message);
      for (int shift = -7; shift <= 7 && group.size() > 0; ++shift) {
        int place = ((group.self + shift) % group.size() + group.size()) % group.size();
        EXPECT_EQ(mesh.neighbour(rank, message, shift), group.ranks[place]) << rank << " by " << shift;
      }
    }
}

TEST(MeshTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Mesh(meshOf({{"a", 0}})), Error);
  EXPECT_THROW(Mesh(meshOf({{"a", 2}, {"a", 2}})), Error);
  EXPECT_THROW(Mesh(meshOf({{"a", 1 << 20}, {"b", 1 << 20}})), Error);
  Mesh mesh(meshOf({{"a", 6}}));
  EXPECT_THROW(mesh.group(0, refs({{"b", 1, 6}})), Error);
  EXPECT_THROW(mesh.group(0, refs({{"a", 1, 4}})), Error);
  EXPECT_THROW(mesh.group(0, refs({{"a", 0, 6}})), Error);
  EXPECT_THROW(mesh.group(0, refs({{"a", 1, 6}, {"a", 2, 3}})), Error); // the digit is named twice
}

} // namespace
} // namespace dtc
