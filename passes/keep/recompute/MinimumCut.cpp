// Dinic's algorithm.
#include "passes/keep/recompute/MinimumCut.h"

#include <algorithm>

namespace dtc {

void FlowNetwork::addEdge(size_t from, size_t to, int64_t capacity) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, capacity});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

void FlowNetwork::findDistances(size_t source) {
  distance.assign(edgesOf.size(), -1);
  distance[source] = 0;
  std::vector<size_t> reached{source};
  for (size_t next = 0; next < reached.size(); ++next)
    for (size_t number : edgesOf[reached[next]])
      if (const Edge &edge = edges[number]; edge.left > 0 && distance[edge.to] < 0) {
        distance[edge.to] = distance[reached[next]] + 1;
        reached.push_back(edge.to);
      }
}

int64_t FlowNetwork::push(size_t from, size_t sink, int64_t most) {
  if (from == sink)
    return most;
  for (; tried[from] < edgesOf[from].size(); ++tried[from]) {
    size_t number = edgesOf[from][tried[from]];
    Edge &edge = edges[number];
    if (edge.left == 0 || distance[edge.to] != distance[from] + 1)
      continue;
    if (int64_t pushed = push(edge.to, sink, std::min(most, edge.left))) {
      edge.left -= pushed;
      edges[number ^ 1].left += pushed;
      return pushed;
    }
  }
  return 0;
}

std::vector<bool> FlowNetwork::cut(size_t source, size_t sink) {
  for (findDistances(source); distance[sink] >= 0; findDistances(source)) {
    tried.assign(edgesOf.size(), 0);
    while (push(source, sink, unbounded) > 0) {
    }
  }
  std::vector<bool> isOfSource;
  for (int64_t each : distance)
    isOfSource.push_back(each >= 0);
  return isOfSource;
}

} // namespace dtc
