#include "timing/cost/collectives.h"
#include "timing/cost/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

namespace dtc::timing {
namespace {

using abi::Collective;

constexpr double Alpha = 3e-6, Bandwidth = 50e9, Payload = 10e9;

/// `devices` devices on one level.
Cluster oneLevel(uint32_t devices, Level::Transport transport = Level::LIBRARY) {
  Cluster cluster;
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_devices(devices);
  Level &level = *cluster.add_levels();
  level.set_latency(Alpha);
  level.set_bandwidth(Bandwidth);
  level.set_transport(transport);
  return cluster;
}

/// Nodes of eight with NVLink's 450 GB/s, and 50 GB/s for each device between them.
Cluster twoLevels() {
  Cluster cluster = oneLevel(8);
  cluster.mutable_nodes(0)->set_count(64);
  cluster.mutable_levels(0)->set_bandwidth(450e9);
  cluster.mutable_levels(0)->set_latency(1e-6);
  *cluster.add_levels() = oneLevel(8).levels(0);
  return cluster;
}

Span spanOf(std::vector<int64_t> units) {
  int64_t members = std::accumulate(units.begin(), units.end(), int64_t(1), std::multiplies<>());
  return {units, members};
}

double secondsBy(std::string_view name, Collective::Kind kind, const Cluster &cluster, const Span &span, double payload,
                 double widening = 1) {
  for (const Algorithm &algorithm : algorithms())
    if (algorithm.name == name && algorithm.kind == kind)
      return secondsOf(algorithm.parts(routeOf(cluster, span), {kind, payload, widening}));
  ADD_FAILURE() << "no algorithm " << name;
  return 0;
}

double logUp(int64_t ranks) {
  double rounds = 0;
  for (int64_t reached = 1; reached < ranks; reached *= 2)
    ++rounds;
  return rounds;
}

const std::vector<int64_t> Sizes = {2, 3, 4, 5, 7, 8, 12, 16, 64, 100, 512, 1000, 1024, 4095, 4096};

// The formulas of the literature, written down again from it.

TEST(CollectiveFormulas, EightRanksSendSeventeenAndAHalfOfTenGigabytes) {
  Cluster cluster = oneLevel(8);
  cluster.mutable_levels(0)->set_latency(0);
  EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, cluster, spanOf({8}), 10e9) * Bandwidth, 17.5e9);
}

TEST(CollectiveFormulas, RingTakesTwiceAsManyRoundsAsPeers) {
  for (int64_t p : Sizes) {
    double n = static_cast<double>(p);
    for (double m : {0.0, 1e3, 1e6, Payload}) {
      EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, oneLevel(p), spanOf({p}), m),
                       2 * (n - 1) * Alpha + 2 * ((n - 1) / n * m) / Bandwidth);
      for (auto kind : {Collective::ALL_GATHER, Collective::REDUCE_SCATTER})
        EXPECT_DOUBLE_EQ(secondsBy("ring", kind, oneLevel(p), spanOf({p}), m),
                         (n - 1) * Alpha + (n - 1) / n * m / Bandwidth);
    }
  }
}

TEST(CollectiveFormulas, TreePassesThePayloadTwiceOverTwiceItsDepth) {
  for (int64_t p : Sizes)
    EXPECT_DOUBLE_EQ(secondsBy("tree", Collective::ALL_REDUCE, oneLevel(p), spanOf({p}), Payload),
                     2 * logUp(p) * Alpha + 2 * Payload / Bandwidth);
}

TEST(CollectiveFormulas, RecursiveDoublingPassesAllInEveryRoundAndHalvingDoublingAShare) {
  for (int64_t p = 2; p <= 4096; p *= 2) {
    double n = static_cast<double>(p), rounds = std::log2(n);
    EXPECT_DOUBLE_EQ(secondsBy("recursive doubling", Collective::ALL_REDUCE, oneLevel(p), spanOf({p}), Payload),
                     rounds * (Alpha + Payload / Bandwidth));
    EXPECT_DOUBLE_EQ(secondsBy("halving-doubling", Collective::ALL_REDUCE, oneLevel(p), spanOf({p}), Payload),
                     2 * rounds * Alpha + 2 * (n - 1) / n * Payload / Bandwidth);
    EXPECT_DOUBLE_EQ(secondsBy("recursive doubling", Collective::ALL_GATHER, oneLevel(p), spanOf({p}), Payload),
                     rounds * Alpha + (n - 1) / n * Payload / Bandwidth);
    EXPECT_DOUBLE_EQ(secondsBy("recursive halving", Collective::REDUCE_SCATTER, oneLevel(p), spanOf({p}), Payload),
                     rounds * Alpha + (n - 1) / n * Payload / Bandwidth);
  }
}

TEST(CollectiveFormulas, RecursiveAlgorithmsAreForPowersOfTwoAlone) {
  for (const Algorithm &algorithm : algorithms())
    if (std::string(algorithm.name).find("ing") != std::string::npos && algorithm.name != "ring") {
      EXPECT_TRUE(algorithm.takes(routeOf(oneLevel(8), spanOf({8})))) << algorithm.name;
      EXPECT_FALSE(algorithm.takes(routeOf(oneLevel(6), spanOf({6})))) << algorithm.name;
      EXPECT_FALSE(algorithm.takes(routeOf(twoLevels(), spanOf({8, 2})))) << algorithm.name;
    }
}

TEST(CollectiveFormulas, PairwiseSendsEachPeerItsPart) {
  for (int64_t p : Sizes) {
    double n = static_cast<double>(p);
    EXPECT_DOUBLE_EQ(secondsBy("pairwise", Collective::ALL_TO_ALL, oneLevel(p), spanOf({p}), Payload),
                     (n - 1) * (Alpha + Payload / n / Bandwidth));
  }
}

TEST(CollectiveFormulas, BinomialTreeSendsAllInEveryRound) {
  for (int64_t p : Sizes)
    EXPECT_DOUBLE_EQ(secondsBy("binomial tree", Collective::BROADCAST, oneLevel(p), spanOf({p}), Payload),
                     logUp(p) * (Alpha + Payload / Bandwidth));
}

TEST(CollectiveFormulas, ChainHasTheBestNumberOfSegments) {
  for (int64_t p : Sizes)
    for (double m : {1.0, 1e4, 1e7}) {
      double least = INFINITY;
      for (int s = 1; s <= 20000 && s <= m; ++s)
        least = std::min(least, (static_cast<double>(p) - 2 + s) * (Alpha + m / s / Bandwidth));
      EXPECT_NEAR(secondsBy("chain", Collective::BROADCAST, oneLevel(p), spanOf({p}), m), least, 1e-12 * least)
          << p << " ranks, " << m << " bytes";
    }
}

TEST(CollectiveFormulas, DirectMovesWhatARingDoesAndWaitsTwice) {
  for (int64_t p : Sizes) {
    Cluster cluster = oneLevel(p, Level::SHARED_MEMORY);
    double n = static_cast<double>(p), others = (n - 1) / n * Payload / Bandwidth;
    for (auto kind : {Collective::ALL_GATHER, Collective::REDUCE_SCATTER, Collective::ALL_TO_ALL})
      EXPECT_DOUBLE_EQ(collectiveCost(cluster, kind, Payload, spanOf({p})).seconds, 2 * Alpha + others);
    CollectiveCost sum = collectiveCost(cluster, Collective::ALL_REDUCE, Payload, spanOf({p}));
    EXPECT_DOUBLE_EQ(sum.seconds, 2 * Alpha + 2 * others);
    EXPECT_DOUBLE_EQ(sum.latency, 2 * Alpha);
    EXPECT_EQ(sum.algorithm, "direct");
    EXPECT_DOUBLE_EQ(collectiveCost(cluster, Collective::BROADCAST, Payload, spanOf({p})).seconds,
                     2 * Alpha + Payload / Bandwidth);
  }
}

TEST(CollectiveFormulas, AMessageWaitsOnceAndInSharedMemoryTwice) {
  EXPECT_DOUBLE_EQ(transferCost(oneLevel(8), 0, Payload).seconds, Alpha + Payload / Bandwidth);
  EXPECT_DOUBLE_EQ(transferCost(oneLevel(8, Level::SHARED_MEMORY), 0, Payload).seconds,
                   2 * Alpha + Payload / Bandwidth);
}

TEST(CollectiveFormulas, OneMemberTakesNothing) {
  EXPECT_EQ(collectiveCost(twoLevels(), Collective::ALL_REDUCE, Payload, spanOf({1, 1})).seconds, 0);
}

// Groups on several levels.

TEST(CollectiveLevels, ARingPassesBetweenNodesOnceForEachAndHasAllTheirLinks) {
  // 4 nodes of 8: 31 hops, 4 of them between nodes. 8 x 50 GB/s between nodes are less than the 450 within.
  EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, twoLevels(), spanOf({8, 4}), Payload),
                   2 * (4 * Alpha + 27 * 1e-6) + 2 * 31.0 / 32 * Payload / 400e9);
  // One of each node: its own link, and no hop within.
  EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, twoLevels(), spanOf({1, 4}), Payload),
                   2 * 3 * Alpha + 2 * 3.0 / 4 * Payload / 50e9);
}

TEST(CollectiveLevels, HierarchicalReducesWithinNodesFirst) {
  double within = 2 * (3 * 1e-6 + 7.0 / 8 * Payload / 450e9);             // by halving and by doubling
  double between = 2 * 2 * Alpha + 2 * 3.0 / 4 * Payload / 8 / Bandwidth; // by halving-doubling
  EXPECT_DOUBLE_EQ(secondsBy("hierarchical", Collective::ALL_REDUCE, twoLevels(), spanOf({8, 4}), Payload),
                   within + between);
  EXPECT_DOUBLE_EQ(secondsBy("hierarchical", Collective::ALL_GATHER, twoLevels(), spanOf({8, 4}), Payload),
                   (within + between) / 2);
}

TEST(CollectiveLevels, DevicesOfANodeShareItsCard) {
  Cluster cluster = twoLevels();
  cluster.mutable_levels(1)->set_shared_by(8);
  // Eight groups of one member in each node: each has an eighth of the card. One group of all: the whole card.
  EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, cluster, spanOf({1, 4}), Payload),
                   2 * 3 * Alpha + 2 * 3.0 / 4 * Payload / (50e9 / 8));
  EXPECT_DOUBLE_EQ(secondsBy("ring", Collective::ALL_REDUCE, cluster, spanOf({8, 4}), Payload),
                   2 * (4 * Alpha + 27 * 1e-6) + 2 * 31.0 / 32 * Payload / 50e9);
  // From a whole node, all but its own eighth of each tensor leaves it: 8 x 24/32.
  EXPECT_DOUBLE_EQ(secondsBy("pairwise", Collective::ALL_TO_ALL, cluster, spanOf({8, 4}), Payload),
                   7 * (1e-6 + Payload / 32 / 450e9) + 24 * (Alpha + Payload / 32 / (50e9 / 8)));
  EXPECT_DOUBLE_EQ(transferCost(cluster, 1, Payload).seconds, Alpha + Payload / (50e9 / 8));
  EXPECT_DOUBLE_EQ(transferCost(cluster, 0, Payload).seconds, 1e-6 + Payload / 450e9);
}

TEST(CollectiveLevels, SmallOnesTakeFewRoundsAndLargeOnesLittleVolume) {
  Cluster cluster = oneLevel(8);
  EXPECT_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, 8, spanOf({8})).algorithm, "recursive doubling");
  EXPECT_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, Payload, spanOf({8})).algorithm, "halving-doubling");
  EXPECT_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, Payload, spanOf({6})).algorithm, "ring");
  EXPECT_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, 8, spanOf({6})).algorithm, "tree");
  EXPECT_EQ(collectiveCost(cluster, Collective::BROADCAST, 8, spanOf({8})).algorithm, "binomial tree");
  EXPECT_EQ(collectiveCost(cluster, Collective::BROADCAST, Payload, spanOf({8})).algorithm, "chain");
  CollectiveCost wide = collectiveCost(twoLevels(), Collective::ALL_REDUCE, 1e6, spanOf({8, 64}));
  EXPECT_EQ(wide.algorithm, "hierarchical");
  EXPECT_EQ(wide.level, 1);
}

// Hosts of two ranks in shared memory, with TCP between them.
Cluster hosts() {
  Cluster cluster;
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(4);
  nodes.set_cores(2);
  for (Level::Transport transport : {Level::SHARED_MEMORY, Level::TCP}) {
    Level &level = *cluster.add_levels();
    level.set_latency(transport == Level::TCP ? 50e-6 : 1e-6);
    level.set_bandwidth(transport == Level::TCP ? 1e9 : 10e9);
    level.set_transport(transport);
  }
  cluster.mutable_levels(1)->set_shared_by(2);
  cluster.mutable_levels(1)->set_processor_share(0.5);
  return cluster;
}

TEST(CollectiveHosts, EachHostSendsItsSumOnce) {
  // 2 (H-1)/H of the payload through the host's 1 GB/s, two trips and two waits; adding goes on meanwhile.
  double m = 100e6;
  CollectiveCost cost = collectiveCost(hosts(), Collective::ALL_REDUCE, m, spanOf({2, 4}));
  EXPECT_DOUBLE_EQ(cost.seconds, 2 * 1e-6 + 2 * 50e-6 + 2 * 3.0 / 4 * m / 1e9);
  EXPECT_DOUBLE_EQ(cost.processorSeconds, 0.5 * (2 * 50e-6 + 2 * 3.0 / 4 * m / 1e9));
  EXPECT_EQ(cost.level, 1);
  // Sums of 16-bit elements travel as f32, results do not.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_REDUCE, m, spanOf({2, 4}), abi::BF16).seconds,
                   2 * 1e-6 + 2 * 50e-6 + 3 * 3.0 / 4 * m / 1e9);
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::REDUCE_SCATTER, m, spanOf({2, 4})).seconds,
                   2 * 1e-6 + 50e-6 + 3.0 / 4 * m / 1e9);
  // Two of 16 bits are as wide as their sum.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::REDUCE_SCATTER, m, spanOf({2, 4}), abi::BF16).seconds,
                   2 * 1e-6 + 50e-6 + 2 * 3.0 / 4 * m / 1e9);
  // What is gathered crosses once for each host, and is then read from the neighbour.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_GATHER, m, spanOf({2, 4})).seconds,
                   2 * 1e-6 + 50e-6 + 3.0 / 4 * m / 1e9 + m / 2 / 10e9);
}

TEST(CollectiveHosts, MembersOnDifferentHostsExchangeDirectly) {
  double m = 100e6; // each has half of its host's link
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_REDUCE, m, spanOf({1, 4})).seconds,
                   2 * 50e-6 + 2 * 3.0 / 4 * m / 0.5e9);
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_REDUCE, m, spanOf({1, 4}), abi::BF16).seconds,
                   2 * 50e-6 + 2 * 3.0 / 4 * m / 0.5e9);
  // A small one in one trip of all terms.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_REDUCE, 1000, spanOf({1, 4})).seconds,
                   50e-6 + 3 * 1000 / 0.5e9);
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_TO_ALL, m, spanOf({1, 4})).seconds,
                   50e-6 + 3.0 / 4 * m / 0.5e9);
  // All of an all-to-all's volume to members elsewhere crosses; an eighth goes to the neighbour.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::ALL_TO_ALL, m, spanOf({2, 4})).seconds,
                   2 * 1e-6 + m / 8 / 10e9 + 50e-6 + 6.0 / 8 * m / 0.5e9);
  // The root sends three times.
  EXPECT_DOUBLE_EQ(collectiveCost(hosts(), Collective::BROADCAST, m, spanOf({2, 4})).seconds,
                   50e-6 + 3 * m / 1e9 + 2 * 1e-6 + m / 10e9);
}

// bench/hosts.md, a link of 40 MB/s: a message of 25 MiB takes 682.57 ms. All else is the formula.
TEST(CollectiveHosts, TakeWhatWasMeasuredOverALimitedLink) {
  constexpr double MiB = 1 << 20;
  Cluster cluster = hosts();
  cluster.mutable_levels(1)->set_bandwidth(25 * MiB / 0.68257);
  cluster.mutable_levels(1)->set_latency(30e-6);
  auto milliseconds = [&](double bytes, int64_t ranks) {
    Cluster own = cluster; // ranks of a host share its link
    own.mutable_levels(1)->set_shared_by(static_cast<uint32_t>(ranks));
    return 1e3 * collectiveCost(own, Collective::ALL_REDUCE, bytes, spanOf({ranks, 2})).seconds;
  };
  struct Row {
    int64_t ranks;
    double mib, milliseconds;
  };
  for (Row row : {Row{1, 1, 27.04}, Row{1, 25, 685.31}, Row{1, 100, 2723.24}, Row{2, 1, 26.65}, Row{2, 25, 685.36},
                  Row{2, 100, 2776.65}})
    EXPECT_NEAR(milliseconds(row.mib * MiB, row.ranks), row.milliseconds, 0.03 * row.milliseconds)
        << row.ranks << " ranks on each of two hosts, " << row.mib << " MiB";
}

// The measured values.

void measure(Level &level, const std::string &collective, uint32_t ranks, double bytes, double seconds) {
  Measured &measured = *level.add_measured();
  measured.set_collective(collective);
  measured.set_ranks(ranks);
  measured.set_bytes(bytes);
  measured.set_seconds(seconds);
}

TEST(CollectiveMeasurements, CountWhereThereAreAny) {
  Cluster cluster = oneLevel(8, Level::SHARED_MEMORY);
  Level &level = *cluster.mutable_levels(0);
  measure(level, "all_reduce", 2, 1e6, 4e-4);
  measure(level, "all_reduce", 2, 1e4, 1e-4);
  auto cost = [&](double bytes, int64_t ranks) {
    return collectiveCost(cluster, Collective::ALL_REDUCE, bytes, spanOf({ranks}));
  };
  EXPECT_DOUBLE_EQ(cost(1e4, 2).seconds, 1e-4);
  EXPECT_DOUBLE_EQ(cost(1e6, 2).seconds, 4e-4);
  EXPECT_NEAR(cost(1e5, 2).seconds, 2e-4, 1e-12) << "half way in logarithms";
  EXPECT_EQ(cost(1e5, 2).algorithm, "measured");
  auto formula = [](double bytes, double p) { return 2 * Alpha + 2 * (p - 1) / p * bytes / Bandwidth; };
  EXPECT_DOUBLE_EQ(cost(1e8, 2).seconds, 4e-4 * formula(1e8, 2) / formula(1e6, 2)) << "beyond, as the formula grows";
  EXPECT_DOUBLE_EQ(cost(1e2, 2).seconds, 1e-4 * formula(1e2, 2) / formula(1e4, 2));
  EXPECT_DOUBLE_EQ(cost(1e6, 8).seconds, 4e-4 * formula(1e6, 8) / formula(1e6, 2)) << "on more ranks, likewise";
  measure(level, "all_reduce", 8, 1e6, 9e-4);
  EXPECT_DOUBLE_EQ(cost(1e6, 8).seconds, 9e-4);
  EXPECT_DOUBLE_EQ(cost(1e6, 7).seconds, 9e-4 * formula(1e6, 7) / formula(1e6, 8)) << "from the nearest number";
  EXPECT_EQ(collectiveCost(cluster, Collective::ALL_GATHER, 1e6, spanOf({2})).algorithm, "direct");
}

TEST(CollectiveMeasurements, OfSendsCountForTransfers) {
  Cluster cluster = oneLevel(8);
  measure(*cluster.mutable_levels(0), "send", 2, 1e6, 5e-4);
  EXPECT_DOUBLE_EQ(transferCost(cluster, 0, 1e6).seconds, 5e-4);
  EXPECT_DOUBLE_EQ(transferCost(cluster, 0, 2e6).seconds, 5e-4 * (Alpha + 2e6 / Bandwidth) / (Alpha + 1e6 / Bandwidth));
}

TEST(CollectiveMeasurements, SayHowLongComputeStandsStill) {
  Cluster cluster = hosts();
  Level &level = *cluster.mutable_levels(1);
  level.set_processor_share(0.25);
  measure(level, "send", 2, 1e4, 1e-4);
  EXPECT_DOUBLE_EQ(transferCost(cluster, 1, 1e4).processorSeconds, 0.25 * transferCost(cluster, 1, 1e4).seconds);
  measure(level, "all_reduce", 2, 1e4, 1e-4);
  measure(level, "all_reduce", 2, 1e6, 4e-4);
  level.mutable_measured(1)->set_processor_seconds(0.8e-4);
  level.mutable_measured(2)->set_processor_seconds(1.6e-4);
  auto share = [&](double bytes) {
    CollectiveCost cost = collectiveCost(cluster, Collective::ALL_REDUCE, bytes, spanOf({1, 2}));
    return cost.processorSeconds / cost.seconds;
  };
  EXPECT_DOUBLE_EQ(share(1e4), 0.8);
  EXPECT_DOUBLE_EQ(share(1e6), 0.4);
  EXPECT_DOUBLE_EQ(share(1e5), 0.6) << "half way in logarithms";
  EXPECT_DOUBLE_EQ(share(1e8), 0.4);
}

// In f32; sums of 16 bits travel in that type.
TEST(CollectiveMeasurements, OfSumsOf16BitsTakeAsManyBytesAsTravel) {
  Cluster cluster = hosts();
  measure(*cluster.mutable_levels(1), "all_reduce", 4, 1e6, 1e-2);
  auto seconds = [&](abi::DataType type) {
    return collectiveCost(cluster, Collective::ALL_REDUCE, 1e6, spanOf({2, 2}), type).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(abi::F32), 1e-2);
  EXPECT_GT(seconds(abi::BF16), 1.4e-2);
}

TEST(CollectiveMeasurements, WereMadeWithTheLinksToThemselves) {
  Cluster cluster = hosts();
  double m = 1e6, alone = 2 * 50e-6 + 2 * 0.5 * m / 1e9, halved = 2 * 50e-6 + 2 * 0.5 * m / 0.5e9;
  measure(*cluster.mutable_levels(1), "all_reduce", 2, m, 1e-2);
  measure(*cluster.mutable_levels(1), "send", 2, m, 1e-2);
  // Here both ranks of a host use its link at once, for a group each.
  EXPECT_DOUBLE_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, m, spanOf({1, 2})).seconds, 1e-2 * halved / alone);
  EXPECT_DOUBLE_EQ(transferCost(cluster, 1, m).seconds, 1e-2 * (50e-6 + m / 0.5e9) / (50e-6 + m / 1e9));
  // One group of all four: the time that two measured, scaled to all four.
  double four = 2 * 1e-6 + 2 * 50e-6 + 2 * 0.5 * m / 1e9;
  EXPECT_DOUBLE_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, m, spanOf({2, 2})).seconds, 1e-2 * four / alone);
  measure(*cluster.mutable_levels(1), "all_reduce", 4, m, 3e-2);
  EXPECT_DOUBLE_EQ(collectiveCost(cluster, Collective::ALL_REDUCE, m, spanOf({2, 2})).seconds, 3e-2);
}

// Whatever the collective and its span.

TEST(CollectiveProperties, SlowerLinksNeverMakeACollectiveCheaper) {
  for (int kind = 0; kind < Collective::Kind_ARRAYSIZE; ++kind)
    for (const Cluster &cluster : {twoLevels(), hosts()})
      for (const Span &span : {spanOf({2, 1}), spanOf({1, 4}), spanOf({2, 4}), spanOf({2, 3})})
        for (double bytes = 1; bytes < 1e10; bytes *= 7) {
          auto seconds = [&](const Cluster &on) {
            return collectiveCost(on, Collective::Kind(kind), bytes, span).seconds;
          };
          for (int level = 0; level < 2; ++level) {
            Cluster narrow = cluster, late = cluster, shared = cluster;
            narrow.mutable_levels(level)->set_bandwidth(cluster.levels(level).bandwidth() / 2);
            late.mutable_levels(level)->set_latency(cluster.levels(level).latency() * 2);
            shared.mutable_levels(level)->set_shared_by(2 * std::max(1u, cluster.levels(level).shared_by()));
            EXPECT_GE(seconds(narrow), seconds(cluster));
            EXPECT_GE(seconds(late), seconds(cluster));
            EXPECT_GE(seconds(shared), seconds(cluster));
            if (level == span.outermost()) {
              EXPECT_GT(seconds(narrow), seconds(cluster));
              EXPECT_GT(seconds(late), seconds(cluster));
            }
          }
          EXPECT_GT(collectiveCost(cluster, Collective::Kind(kind), 2 * bytes, span).seconds, seconds(cluster));
          EXPECT_LE(collectiveCost(cluster, Collective::Kind(kind), bytes, span).latency, seconds(cluster));
        }
}

/// The time of a group of the axis.
double secondsOver(const std::string &axis, const Cluster &cluster, const abi::Mesh &mesh, Collective::Kind kind) {
  int64_t stride = 1, size = 1;
  for (int i = mesh.axes_size() - 1; i >= 0 && mesh.axes(i).name() != axis; --i)
    stride *= mesh.axes(i).size();
  for (const abi::Axis &each : mesh.axes())
    size = each.name() == axis ? each.size() : size;
  std::vector<int64_t> members;
  for (int64_t i = 0; i < size; ++i)
    members.push_back(i * stride);
  Layout layout(cluster, mesh);
  return collectiveCost(layout.cluster(), kind, 1e8, layout.spanOf(members)).seconds;
}

TEST(CollectiveProperties, TheAxisThatLiesInnermostIsTheCheaper) {
  abi::Mesh mesh;
  for (const char *name : {"tp", "dp"}) {
    abi::Axis &axis = *mesh.add_axes();
    axis.set_name(name);
    axis.set_size(8);
  }
  Cluster inner = twoLevels(), outer = twoLevels();
  inner.add_axis_order("tp");
  outer.add_axis_order("dp");
  for (int kind = 0; kind < Collective::Kind_ARRAYSIZE; ++kind)
    for (uint32_t sharing : {1, 8}) {
      inner.mutable_levels(1)->set_shared_by(sharing);
      outer.mutable_levels(1)->set_shared_by(sharing);
      EXPECT_LT(secondsOver("tp", inner, mesh, Collective::Kind(kind)),
                secondsOver("tp", outer, mesh, Collective::Kind(kind)));
      EXPECT_GT(secondsOver("dp", inner, mesh, Collective::Kind(kind)),
                secondsOver("dp", outer, mesh, Collective::Kind(kind)));
    }
}

} // namespace
} // namespace dtc::timing
