// Cluster files. For those that are accepted, every cost must be a finite number of seconds.
#include "runtime/support/error.h"
#include "test/fuzz/harness.h"
#include "test/fuzz/mutators.h"
#include "test/timing/cluster/mesh.h"
#include "timing/cost/cost.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <numeric>

using namespace dtc;
using namespace dtc::fuzz;
using namespace dtc::timing;

namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const auto &entry : std::filesystem::directory_iterator(DTC_SOURCE_DIR "/examples/clusters")) {
    std::ifstream file(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

TextFormat textFormat() {
  return {{"nan",
           "inf",
           "-1",
           "1e999",
           "1e-320",
           "4294967295",
           "18446744073709551615",
           "units: 0",
           "units: 1",
           "shared_by: 4294967295",
           "transport: TCP",
           "transport: SHARED_MEMORY",
           "cores: 1",
           "threads: 1",
           "devices",
           "levels { name: \"x\" units: 2 latency: 1e-6 bandwidth: 1e9 }",
           "measured { collective: \"broadcast\" ranks: 4294967295 bytes: 1 seconds: 1e-9 }",
           "points",
           "}",
           "{",
           ":"},
          {"levels {", "[", "devices {", "<"}};
}

void require(double seconds, const std::string &what) {
  if (!std::isfinite(seconds) || seconds < 0)
    throw Finding(fmt::format("{} takes {} s", what, seconds));
}

void askCollectives(const Layout &layout, const std::vector<int64_t> &members) {
  Span span = layout.spanOf(members);
  for (int kind = 0; kind < abi::Collective::Kind_ARRAYSIZE; ++kind)
    for (double bytes : {0.0, 1e3, 1e9}) {
      CollectiveCost cost = collectiveCost(layout.cluster(), abi::Collective::Kind(kind), bytes, span, abi::BF16);
      require(cost.seconds, abi::Collective::Kind_Name(abi::Collective::Kind(kind)));
      require(cost.latency, "latency");
      require(cost.processorSeconds, "its processor");
      if (cost.latency > cost.seconds * (1 + 1e-9) || cost.processorSeconds > cost.seconds * (1 + 1e-9))
        throw Finding(
            fmt::format("a part of {} s is longer: {} s, {} s", cost.seconds, cost.latency, cost.processorSeconds));
    }
}

void askCosts(const Layout &layout) {
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (double work : {0.0, 1.0, 1e15})
      require(kernelSeconds(layout.deviceOf(rank), {abi::Work::PRODUCT, abi::F32, work, work}), "a kernel");
    require(transferCost(layout.cluster(), layout.levelBetween(0, rank), 1e6).seconds, "a message");
  }
  std::vector<int64_t> all(static_cast<size_t>(layout.ranks())), some;
  std::iota(all.begin(), all.end(), 0);
  for (int64_t rank = 1; rank < layout.ranks(); rank += 2)
    some.push_back(rank);
  askCollectives(layout, all);
  askCollectives(layout, some);
}

void readMutant(const std::string &mutant) {
  Cluster cluster = parseCluster(mutant, "mutant");
  if (cluster.levels().empty())
    return; // a single device
  askCosts(Layout(cluster, meshOf({{"tp", 2}})));
  askCosts(Layout(cluster, meshOf({{"dp", 3}, {"tp", 2}})));
  askCosts(Layout(cluster, meshOf({{"pp", 3}, {"dp", 5}, {"tp", 2}})));
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> texts = seeds();
  return runTargets(
      {{"cluster", [=](Random &random) { return mutateText(random, random.pick(texts), textFormat()); }, readMutant}},
      argc, argv);
}
