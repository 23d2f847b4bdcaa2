// Cuts against all possible cuts.
#include "passes/keep/recompute/MinimumCut.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dtc {
namespace {

struct Edge {
  size_t from, to;
  int64_t capacity;
};

int64_t capacityOf(const std::vector<Edge> &edges, const std::vector<bool> &isOfSource) {
  int64_t sum = 0;
  for (const Edge &edge : edges)
    sum += isOfSource[edge.from] && !isOfSource[edge.to] ? edge.capacity : 0;
  return sum;
}

TEST(MinimumCut, IsTheLeastOfAllCuts) {
  std::mt19937 random(7);
  constexpr size_t nodes = 8, source = 0, sink = nodes - 1;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<Edge> edges;
    FlowNetwork network(nodes);
    for (unsigned i = 0, count = random() % 24; i < count; ++i) {
      Edge edge{random() % nodes, random() % nodes, static_cast<int64_t>(random() % 10)};
      edges.push_back(edge);
      network.addEdge(edge.from, edge.to, edge.capacity);
    }
    std::vector<bool> cut = network.cut(source, sink);
    EXPECT_TRUE(cut[source]);
    EXPECT_FALSE(cut[sink]);
    int64_t least = std::numeric_limits<int64_t>::max();
    for (unsigned bits = 0; bits < 1U << nodes; ++bits) {
      if ((bits >> source & 1) == 0 || (bits >> sink & 1) != 0)
        continue;
      std::vector<bool> each;
      for (size_t node = 0; node < nodes; ++node)
        each.push_back((bits >> node & 1) != 0);
      least = std::min(least, capacityOf(edges, each));
    }
    EXPECT_EQ(capacityOf(edges, cut), least);
  }
}

TEST(MinimumCut, LeavesAsFewAsPossibleWithTheSource) {
  FlowNetwork network(4);
  network.addEdge(0, 1, 2);
  network.addEdge(1, 2, 2);
  network.addEdge(2, 3, 2);
  EXPECT_EQ(network.cut(0, 3), (std::vector{true, false, false, false}));
}

} // namespace
} // namespace dtc
