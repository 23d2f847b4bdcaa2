// The cheapest way to part a network in two: what must be paid to cut every path from a source to a sink.
//
// Dinic's algorithm (1970): flow along shortest paths, until there is none; by Ford and Fulkerson (1956) the edges that
// leave what the source still reaches are then a cut of the least capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

class FlowNetwork {
public:
  /// Of an edge that no cut may have. Finite capacities add up to less.
  static constexpr int64_t unbounded = int64_t(1) << 60;

  explicit FlowNetwork(size_t nodes) : edgesOf(nodes) {}

  /// `capacity`: 0 or more.
  void addEdge(size_t from, size_t to, int64_t capacity);

  /// Of each node, whether it is on the source's side of the cheapest cut; of several cuts that with the fewest nodes
  /// there. To be called once.
  std::vector<bool> cut(size_t source, size_t sink);

private:
  struct Edge {
    size_t to;
    int64_t left; ///< of the capacity
  };

  void findDistances(size_t source);
  int64_t push(size_t from, size_t sink, int64_t most);

  std::vector<Edge> edges; ///< each with its opposite behind it
  std::vector<std::vector<size_t>> edgesOf;
  std::vector<int64_t> distance; ///< from the source, over edges with capacity left; -1: there is no path
  std::vector<size_t> tried;     ///< of each node, edges that lead nowhere at these distances
};

} // namespace dtc
