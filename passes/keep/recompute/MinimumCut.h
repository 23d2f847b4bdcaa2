// The cheapest way to divide a network in two: what it costs to cut every path from a source to a sink.
//
// Dinic's algorithm (1970): flow along shortest paths, until there is none; by Ford and Fulkerson (1956) the edges that
// leave what the source still reaches are then a cut of minimum capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

class FlowNetwork {
public:
  /// The capacity of an edge that no cut may contain. All finite capacities together are less.
  static constexpr int64_t unbounded = int64_t(1) << 60;

  explicit FlowNetwork(size_t nodes) : edgesOf(nodes) {}

  /// `capacity`: 0 or more.
  void addEdge(size_t from, size_t to, int64_t capacity);

  /// For each node, whether it is on the source's side of the cheapest cut; if there are several, of the one with the
  /// fewest nodes there. May be called only once.
  std::vector<bool> cut(size_t source, size_t sink);

private:
  struct Edge {
    size_t to;
    int64_t left; ///< of the capacity
  };

  void findDistances(size_t source);
  int64_t push(size_t from, size_t sink, int64_t most);

  std::vector<Edge> edges; ///< each followed by its opposite
  std::vector<std::vector<size_t>> edgesOf;
  std::vector<int64_t> distance; ///< from the source, over edges with capacity left; -1: there is no path
  std::vector<size_t> tried;     ///< for each node, how many edges lead nowhere at these distances
};

} // namespace dtc
