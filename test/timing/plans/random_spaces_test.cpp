// Random problems: the dimensions give the same candidates as a plain enumeration, which asks of everything that could
// be whether it is possible, and looks at ranks instead of strides.
#include "test/timing/plans/spaces.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace dtc::plans {
namespace {

using timing::Layout;

Layout layoutOf(const Problem &problem, const std::vector<MeshAxis> &mesh) {
  abi::Mesh ranks;
  for (const MeshAxis &each : mesh) {
    abi::Axis &axis = *ranks.add_axes();
    axis.set_name(each.name);
    axis.set_size(each.size);
  }
  return {problem.cluster, ranks};
}

/// The index of a rank along each axis.
std::map<std::string, int64_t> indicesOf(int64_t rank, const std::vector<MeshAxis> &mesh) {
  std::map<std::string, int64_t> indices;
  for (auto axis = mesh.rbegin(); axis != mesh.rend(); ++axis) {
    indices[axis->name] = rank % axis->size;
    rank /= axis->size;
  }
  return indices;
}

/// How the groups of an axis are spread: over levels, kinds of devices, and nodes whose memory is shared.
using GroupSpread = std::tuple<std::vector<int64_t>, std::multiset<std::string>, size_t>;

std::multiset<GroupSpread> spreadOfAxis(const Layout &layout, const std::vector<MeshAxis> &mesh,
                                        const std::string &axis) {
  std::map<std::map<std::string, int64_t>, std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    auto indices = indicesOf(rank, mesh);
    indices.erase(axis);
    groups[indices].push_back(rank);
  }
  std::multiset<GroupSpread> spreads;
  for (const auto &[others, members] : groups) {
    std::multiset<std::string> kinds;
    std::set<int64_t> nodes;
    for (int64_t member : members) {
      kinds.insert(layout.deviceOf(member).name());
      if (layout.deviceOf(member).memory_bytes() == 0)
        nodes.insert(layout.nodeOf(member));
    }
    spreads.emplace(layout.spanOf(members).units, kinds, nodes.size());
  }
  return spreads;
}

/// All orders, each with whether it is the first of those that are spread alike.
std::vector<std::pair<std::vector<MeshAxis>, bool>> ordersOf(const Problem &problem,
                                                            const std::vector<MeshAxis> &usual) {
  std::vector<size_t> places(usual.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = i;
  std::set<std::vector<std::multiset<GroupSpread>>> seen;
  std::vector<std::pair<std::vector<MeshAxis>, bool>> orders;
  do {
    std::vector<MeshAxis> mesh;
    for (size_t place : places)
      mesh.push_back(usual[place]);
    Layout layout = layoutOf(problem, mesh);
    std::vector<std::multiset<GroupSpread>> spread;
    for (const MeshAxis &axis : usual)
      spread.push_back(spreadOfAxis(layout, mesh, axis.name));
    orders.emplace_back(mesh, seen.insert(spread).second);
  } while (std::next_permutation(places.begin(), places.end()));
  return orders;
}

/// Whether the first `shards` ranks of dp, with the axes inside dp, are all ranks of a node or of what a level joins;
/// cp, if there is one, is inside.
bool isFilling(const Problem &problem, const std::vector<MeshAxis> &mesh, int64_t shards) {
  Layout layout = layoutOf(problem, mesh);
  std::map<std::string, int64_t> strides;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    for (const auto &[name, index] : indicesOf(rank, mesh)) {
      auto indices = indicesOf(rank, mesh);
      indices.erase(name);
      if (index == 1 && std::all_of(indices.begin(), indices.end(), [](const auto &each) { return each.second == 0; }))
        strides[name] = layout.positionOf(rank);
    }
  if (strides.contains("cp") && strides["cp"] > strides["dp"])
    return false;
  std::set<int64_t> members, node;
  std::vector<std::set<int64_t>> units(static_cast<size_t>(layout.cluster().levels_size()));
  int64_t first = 0;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    if (layout.positionOf(rank) == 0)
      first = rank;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    bool isMember = true;
    for (const auto &[name, index] : indicesOf(rank, mesh))
      isMember = isMember && (name == "dp" ? index < shards : strides[name] < strides["dp"] || index == 0);
    if (isMember)
      members.insert(rank);
    if (layout.nodeOf(rank) == layout.nodeOf(first))
      node.insert(rank);
    for (size_t level = 0; level < units.size(); ++level)
      if (layout.levelBetween(first, rank) <= static_cast<int>(level))
        units[level].insert(rank);
  }
  return members == node || std::find(units.begin(), units.end(), members) != units.end();
}

/// Named timetables with the stages that each takes on a rank.
const std::map<std::string, int64_t> stagesPerRank = {{"naive", 1}, {"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2},
                                                      {"zb-h1", 1}, {"zb-h2", 1}, {"zbv", 2},  {"v-half", 2},
                                                      {"v-min", 2}, {"dualpipev", 2}};

/// Of a candidate whose mesh and state are possible.
bool isPossible(const Problem &problem, const Candidate &candidate) {
  const ModelFacts &model = problem.model;
  int64_t tp = candidate.sizeOf("tp"), cp = candidate.sizeOf("cp"), pp = candidate.sizeOf("pp"),
          dp = candidate.sizeOf("dp"), m = candidate.microBatches;
  bool fits = model.batch % (dp * m) == 0 && pp <= model.layers && model.sequence % cp == 0;
  fits = fits && model.heads % tp == 0 && (model.keyHeads % tp == 0 || model.keyHeads < tp);
  fits = fits && (tp == 1 || tp <= model.hidden);
  if (!fits || (candidate.splitsSequence && (tp == 1 || model.sequence % (tp * cp) != 0)))
    return false;
  if (candidate.recompute == "regather" && !candidate.splitsSequence && cp == 1)
    return false;
  if (candidate.state != "ddp" && dp * cp == 1)
    return false;
  if (pp == 1)
    return candidate.timetable == "1f1b";
  if (candidate.timetable == "pipedream")
    return problem.allowsAsynchronous && m == 1 && candidate.state == "ddp" && model.compute != abi::F16;
  int64_t rounds = std::max<int64_t>(1, m / pp);
  if ((candidate.timetable == "interleaved" && m % rounds != 0) || (candidate.timetable == "dualpipev" && m < 2 * pp))
    return false;
  return pp * stagesPerRank.at(candidate.timetable) <= model.layers && (m >= pp || m * dp == model.batch);
}

/// Sorted. `orders`: those that are tried though an earlier one is spread alike.
std::vector<Candidate> allPossible(const Problem &problem, const std::set<std::string> &orders) {
  std::vector<Candidate> all;
  std::vector<std::string> states = {"ddp", "zero1", "zero2", "zero3"}, timetables = {"pipedream"};
  for (const auto &[name, stages] : stagesPerRank)
    timetables.push_back(name);
  auto addAll = [&](Candidate candidate) {
    std::vector<std::string> ofMesh = states;
    for (int64_t shards = 2; shards < candidate.sizeOf("dp"); ++shards)
      if (candidate.sizeOf("dp") % shards == 0 && isFilling(problem, candidate.mesh, shards))
        ofMesh.push_back("hsdp:" + std::to_string(shards));
    for (candidate.microBatches = 1; candidate.microBatches <= problem.model.batch; ++candidate.microBatches) {
      if (problem.model.batch % candidate.microBatches != 0)
        continue;
      for (bool splits : {false, true})
        for (const std::string &state : ofMesh)
          for (const std::string &timetable : timetables)
            for (const char *recompute : {"none", "cheap", "regather", "selective", "full"}) {
              candidate.splitsSequence = splits;
              candidate.state = state;
              candidate.timetable = timetable;
              candidate.recompute = recompute;
              if (isPossible(problem, candidate))
                all.push_back(candidate);
            }
    }
  };
  for (int64_t tp = 1; tp <= problem.devices; ++tp)
    for (int64_t cp = 1; cp <= problem.devices; ++cp)
      for (int64_t dp = 1; dp <= problem.devices; ++dp)
        for (int64_t pp = 1; pp <= problem.devices; ++pp) {
          std::vector<MeshAxis> mesh;
          if (tp * cp * dp * pp != problem.devices)
            continue;
          for (const auto &[name, size] : std::vector<std::pair<const char *, int64_t>>{
                   {"pp", pp}, {"dp", dp}, {"cp", cp}, {"tp", tp}})
            if (size > 1)
              mesh.push_back({name, size});
          for (const auto &[order, isFirst] : ordersOf(problem, mesh)) {
            std::string text;
            for (const MeshAxis &axis : order)
              text += (text.empty() ? "" : ">") + axis.name;
            if (isFirst || orders.contains(text))
              addAll(meshed(order));
          }
        }
  std::sort(all.begin(), all.end());
  return all;
}

class RandomSpaces : public testing::Test {
protected:
  template <typename T> T oneOf(const std::vector<T> &choices) { return choices[random() % choices.size()]; }

  timing::Cluster someCluster() {
    std::vector<std::string> orders = {"", "", "axis_order: \"tp\"", "axis_order: [\"dp\", \"pp\"]"};
    if (random() % 4 == 0)
      return processors(oneOf<int64_t>({1, 2}));
    std::vector<std::vector<int64_t>> units = {{16}, {4, 4}, {2, 8}, {4, 2, 2}, {2, 2, 4}, {6, 3}, {3, 6}};
    timing::Cluster cluster = gpus(oneOf(units), oneOf(orders));
    if (cluster.nodes(0).count() > 1 && random() % 3 == 0) { // the first node has another kind of device
      timing::Device &kind = *cluster.add_devices();
      kind = cluster.devices(0);
      kind.set_name("H");
      timing::Nodes first = cluster.nodes(0);
      cluster.mutable_nodes(0)->set_count(1);
      cluster.mutable_nodes(0)->set_device("H");
      first.set_count(first.count() - 1);
      *cluster.add_nodes() = first;
    }
    return cluster;
  }

  Problem someProblem() {
    Problem problem = problemOf(someCluster(), oneOf<int64_t>({1, 2, 3, 4, 6, 8}));
    problem.model.layers = oneOf<int64_t>({1, 2, 3, 4, 8});
    problem.model.heads = oneOf<int64_t>({1, 2, 4, 6, 12});
    problem.model.keyHeads = oneOf<int64_t>({problem.model.heads, 1, 2, 4});
    problem.model.hidden = oneOf<int64_t>({2, 48});
    problem.model.sequence = oneOf<int64_t>({3, 4, 8, 12});
    problem.model.batch = oneOf<int64_t>({1, 2, 3, 4, 6, 8, 12});
    problem.model.compute = oneOf<abi::DataType>({abi::F32, abi::BF16, abi::F16});
    problem.allowsAsynchronous = random() % 2 == 0;
    return problem;
  }

  /// Orders are only fixed: one that is forbidden takes those that are spread alike with it.
  std::vector<Constraint> someConstraints(size_t most) {
    std::vector<std::string> texts = {"tp=1",  "tp=2",   "tp=3",      "cp=1",   "cp=2",     "pp=1",   "pp=2",
                                      "pp=3",  "pp=4",   "dp=1",      "dp=2",   "dp=4",     "sp=on",  "sp=off",
                                      "ddp",   "zero1",  "zero3",     "hsdp",   "hsdp:2",   "hsdp:4", "micro-batches=1",
                                      "1f1b",  "zbv",    "pipedream", "none",   "regather", "full",   "micro-batches=2",
                                      "dp>tp", "tp>dp",  "pp>dp",     "dp>pp",  "cheap",    "gpipe",  "dp=3",
                                      "micro-batches=4"};
    std::vector<Constraint> constraints;
    for (size_t count = random() % (most + 1); count > 0; --count) {
      Constraint constraint = parseConstraint(oneOf(texts), true);
      constraint.isFixed = constraint.dimension == "order" || random() % 2 == 0;
      constraints.push_back(constraint);
    }
    return constraints;
  }

  std::mt19937_64 random{27};
};

std::string valueOf(const Candidate &candidate, const std::string &dimension) {
  if (dimension == "order") {
    std::string text;
    for (const MeshAxis &axis : candidate.mesh)
      text += (text.empty() ? "" : ">") + axis.name;
    return text.empty() ? "dp" : text;
  }
  if (dimension == "sp")
    return candidate.splitsSequence ? "on" : "off";
  if (dimension == "state")
    return candidate.state;
  if (dimension == "micro-batches")
    return std::to_string(candidate.microBatches);
  if (dimension == "timetable")
    return candidate.timetable;
  if (dimension == "recompute")
    return candidate.recompute;
  return std::to_string(candidate.sizeOf(dimension));
}

bool satisfies(const Candidate &candidate, const Constraint &constraint) {
  std::string value = valueOf(candidate, constraint.dimension);
  bool has = value == constraint.value || (constraint.value == "hsdp" && value.starts_with("hsdp:"));
  return has == constraint.isFixed;
}

std::set<std::string> fixedOrders(const std::vector<Constraint> &constraints) {
  std::set<std::string> orders;
  for (const Constraint &constraint : constraints)
    if (constraint.dimension == "order")
      orders.insert(constraint.value);
  return orders;
}

TEST_F(RandomSpaces, AreWhatAPlainEnumerationFinds) {
  size_t found = 0, none = 0;
  for (int trial = 0; trial < 100; ++trial) {
    Problem problem = someProblem();
    std::vector<Constraint> constraints = someConstraints(3);
    std::vector<Candidate> expected = allPossible(problem, fixedOrders(constraints)), candidates;
    std::erase_if(expected, [&](const Candidate &candidate) {
      return !std::all_of(constraints.begin(), constraints.end(),
                          [&](const Constraint &constraint) { return satisfies(candidate, constraint); });
    });
    forEachCandidate(problem, constraints, [&](const Candidate &candidate) { candidates.push_back(candidate); });
    std::sort(candidates.begin(), candidates.end());
    std::vector<std::string> expectedTexts, texts;
    for (const Candidate &candidate : expected)
      expectedTexts.push_back(candidate.text());
    for (const Candidate &candidate : candidates)
      texts.push_back(candidate.text());
    ASSERT_EQ(texts, expectedTexts) << "trial " << trial << " on\n" << timing::printCluster(problem.cluster);
    ASSERT_EQ(isEmpty(problem, constraints), expected.empty()) << "trial " << trial;
    found += candidates.size();
    none += candidates.empty();
  }
  EXPECT_GT(found, 5000U);
  EXPECT_GT(none, 10U);
}

/// Sets of constraints by size, and in lexicographic order: the first without which there are candidates.
std::vector<std::string> plainConflict(const std::vector<Candidate> &candidates,
                                       const std::vector<Constraint> &constraints) {
  std::set<std::vector<bool>> violated; // by one candidate each
  for (const Candidate &candidate : candidates) {
    std::vector<bool> each;
    for (const Constraint &constraint : constraints)
      each.push_back(!satisfies(candidate, constraint));
    violated.insert(each);
  }
  for (size_t size = 0; size <= constraints.size(); ++size) {
    std::vector<bool> given(constraints.size());
    std::fill_n(given.begin(), size, true);
    do {
      for (const std::vector<bool> &each : violated) {
        bool isLeft = true;
        for (size_t i = 0; i < constraints.size(); ++i)
          isLeft = isLeft && (given[i] || !each[i]);
        if (!isLeft)
          continue;
        std::vector<std::string> texts;
        for (size_t i = 0; i < constraints.size(); ++i)
          if (given[i])
            texts.push_back(constraints[i].text);
        return texts;
      }
    } while (std::prev_permutation(given.begin(), given.end()));
  }
  return {};
}

TEST_F(RandomSpaces, HaveTheConflictThatTryingAllSetsFinds) {
  std::map<size_t, size_t> sizes;
  for (int trial = 0; trial < 100; ++trial) {
    Problem problem = someProblem();
    std::vector<Constraint> constraints = someConstraints(10);
    for (size_t i = 0; i < constraints.size(); ++i) // equal ones are told apart
      constraints[i].text = fmt::format("{} {}", i, constraints[i].text);
    std::vector<std::string> found;
    for (const Constraint &constraint : smallestConflict(problem, constraints))
      found.push_back(constraint.text);
    ASSERT_EQ(found, plainConflict(allPossible(problem, fixedOrders(constraints)), constraints)) << "trial " << trial;
    ++sizes[found.size()];
  }
  for (size_t size = 0; size < 3; ++size)
    EXPECT_GT(sizes[size], 5U) << size;
  EXPECT_GE(sizes.rbegin()->first, 3U);
}

} // namespace
} // namespace dtc::plans
