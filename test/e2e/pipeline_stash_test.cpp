// What a pipeline keeps for its backward passes, in places and bytes, against the papers' formulas.
#include "test/e2e/compiled_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::test {
namespace {

const abi::Space &spaceOf(const abi::Role &role, std::string_view name) {
  for (const abi::Space &space : role.spaces())
    if (space.name() == name)
      return space;
  throw std::logic_error("no such space");
}

// GPipe keeps m micro-batches; 1F1B min(m, p - stage), naive one. A micro-batch's bytes are the same in all.
TEST(Stash, HoldsAsManyMicroBatchesAsTheTimetableHasUnderWay) {
  for (int64_t accumulation : {2, 6}) {
    std::map<std::string, std::vector<uint64_t>> bytes; // by timetable, of each stage
    for (const char *timetable : {"naive", "gpipe", "1f1b"}) {
      CompiledModel compiled({.model = "gpt-small",
                              .mesh = "pp=4",
                              .strategy = "ddp",
                              .accumulation = accumulation,
                              .symbols = fourLayers("gpt-small"),
                              .expect = false,
                              .timetable = timetable});
      ASSERT_EQ(compiled.manifest.roles_size(), 4);
      for (const abi::Role &role : compiled.manifest.roles()) {
        uint64_t stash = 0;
        for (const char *space : {"stash", "stash of collectives"})
          stash += spaceOf(role, space).stride() * spaceOf(role, space).places();
        EXPECT_EQ(memoryOf(role, "stash of micro-batches under way"), stash);
        bytes[timetable].push_back(stash);
      }
    }
    for (uint64_t stage = 0; stage < 4; ++stage) {
      uint64_t ofOne = bytes["naive"][stage], m = static_cast<uint64_t>(accumulation);
      EXPECT_GT(ofOne, 0U);
      EXPECT_EQ(bytes["gpipe"][stage], m * ofOne);
      EXPECT_EQ(bytes["1f1b"][stage], std::min(m, 4 - stage) * ofOne);
    }
  }
}

constexpr const char *stashSpaces[] = {"stash", "weight stash", "gradient stash"};

/// What a rank keeps of one kind, in memory of its own and in memory that peers see.
struct KeptStash {
  uint64_t ofOne = 0, places = 0; ///< bytes of a micro-batch, and of how many there is room for
};

KeptStash stashOf(const abi::Role &role, const std::string &name) {
  KeptStash kept;
  for (const std::string &each : {name, name + " of collectives"})
    if (const abi::Space &space = spaceOf(role, each); space.stride() > 0) {
      EXPECT_TRUE(kept.places == 0 || kept.places == space.places());
      kept.ofOne += space.stride();
      kept.places = space.places();
    }
  return kept;
}

abi::Manifest fourRanksOf(const char *mesh, const char *strategy, const char *timetable, int64_t accumulation,
                          int64_t layers) {
  std::map<std::string, int64_t> symbols = smallSymbols("gpt-small");
  symbols["layers"] = layers;
  return CompiledModel({.model = "gpt-small",
                        .mesh = mesh,
                        .strategy = strategy,
                        .accumulation = accumulation,
                        .symbols = symbols,
                        .expect = false,
                        .timetable = timetable})
      .manifest;
}

// Where backward passes are split, the input gradients free what they alone read, and only then the gradients that they
// keep for the weight gradients are there. On rank r, ZB-H1 has room for p - r, p, and r + 1 micro-batches: as much as
// 1F1B on its first rank, and those gradients. ZB-H2 has room for twice as many, less one.
TEST(Stash, OfSplitBackwardPassesStaysUntilItIsRead) {
  constexpr uint64_t p = 4;
  for (auto [mesh, strategy] : {std::pair("pp=4", "ddp"), {"pp=4,tp=2", "megatron"}})
    for (int64_t accumulation : {2, 8}) {
      auto m = static_cast<uint64_t>(accumulation);
      abi::Manifest whole = fourRanksOf(mesh, strategy, "1f1b", accumulation, p),
                    h1 = fourRanksOf(mesh, strategy, "zb-h1", accumulation, p),
                    h2 = fourRanksOf(mesh, strategy, "zb-h2", accumulation, p);
      for (uint64_t rank = 0; rank < p; ++rank) {
        const abi::Role &one = whole.roles(static_cast<int>(rank));
        EXPECT_EQ(stashOf(one, "stash").places, std::min(m, p - rank));
        EXPECT_EQ(stashOf(one, "weight stash").ofOne, 0U);
        EXPECT_EQ(stashOf(one, "gradient stash").ofOne, 0U);
        for (auto [role, places] :
             {std::pair(&h1.roles(static_cast<int>(rank)), std::array{p - rank, p, rank + 1}),
              {&h2.roles(static_cast<int>(rank)), std::array{2 * (p - rank) - 1, 2 * p - 1, 2 * rank + 1}}}) {
          uint64_t bytes = 0;
          for (size_t kind = 0; kind < places.size(); ++kind) {
            KeptStash kept = stashOf(*role, stashSpaces[kind]);
            EXPECT_GT(kept.ofOne, 0U) << stashSpaces[kind];
            EXPECT_EQ(kept.places, std::min(m, places[kind])) << stashSpaces[kind] << " of rank " << rank;
            bytes += kept.ofOne * kept.places;
          }
          EXPECT_EQ(stashOf(*role, "stash").ofOne + stashOf(*role, "weight stash").ofOne, stashOf(one, "stash").ofOne)
              << "nothing else is kept of a forward pass";
          EXPECT_EQ(memoryOf(*role, "stash of micro-batches under way"), bytes);
        }
      }
      EXPECT_EQ(memoryOf(h1.roles(0), "stash of micro-batches under way"),
                memoryOf(whole.roles(0), "stash of micro-batches under way") +
                    stashOf(h1.roles(0), "gradient stash").ofOne);
    }
}

// As many stashes as the papers' formulas say, each of half of a rank's layers; and of the gradients few, since weight
// gradients follow soon, except where ZBV ends a step.
TEST(Stash, OfTimetablesInAVIsThatOfTheirFormulas) {
  struct Formula {
    const char *timetable;
    std::array<std::array<uint64_t, 4>, 3> places; ///< by kind and rank
  };
  constexpr Formula formulas[] = {{"zbv", {{{8, 8, 8, 8}, {8, 8, 8, 8}, {1, 3, 5, 7}}}},
                                  {"v-half", {{{6, 6, 6, 6}, {6, 6, 6, 6}, {2, 1, 2, 1}}}},
                                  {"v-min", {{{4, 4, 3, 4}, {4, 4, 4, 4}, {2, 2, 1, 2}}}}};
  for (const Formula &formula : formulas) {
    abi::Manifest manifest = fourRanksOf("pp=4", "ddp", formula.timetable, 8, 8);
    for (size_t kind = 0; kind < formula.places.size(); ++kind)
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(stashOf(manifest.roles(rank), stashSpaces[kind]).places,
                  formula.places[kind][static_cast<size_t>(rank)])
            << formula.timetable << ": " << stashSpaces[kind] << " of rank " << rank;
  }
}

/// How many stashes each of p = 4 ranks keeps, of m = 8 micro-batches. Each stage has one layer.
struct StashPlaces {
  const char *timetable;
  int64_t layers;
  std::vector<int64_t> places;
};

// The papers' formulas, rank by rank; whatever stays until the weight gradients has as many places. Timetables whose
// stages are the same have places of the same size: their bytes differ by how many there are.
TEST(Stash, OfLaterTimetablesHasThePlacesOfTheirFormulas) {
  const StashPlaces formulas[] = {{"interleaved", 8, {11, 9, 7, 5}},    // (v - 1) p + 2 (p - rank) - 1, with v = 2
                                  {"interleaved", 12, {15, 13, 11, 9}}, // v = 3
                                  {"zb-h1", 4, {4, 4, 4, 4}},           // p
                                  {"zb-h2", 4, {7, 7, 7, 7}},           // 2p - 1
                                  {"zbv", 8, {8, 8, 8, 8}},             // 2p
                                  {"v-half", 8, {6, 6, 6, 6}},          // 2 ((p + 2) / 2)
                                  {"v-min", 8, {4, 4, 4, 4}},           // 2 ((p + 4) / 3)
                                  {"dualpipev", 8, {9, 9, 9, 9}}};      // 2p + 1
  std::map<std::string, std::vector<uint64_t>> strides;
  for (const auto &[timetable, layers, places] : formulas) {
    std::map<std::string, int64_t> symbols = smallSymbols("gpt-small");
    symbols["layers"] = layers;
    Choices choices;
    choices.layers.assign(static_cast<size_t>(layers), 1);
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "pp=4",
                            .strategy = "ddp",
                            .accumulation = 8,
                            .symbols = symbols,
                            .expect = false,
                            .timetable = timetable,
                            .choices = choices});
    ASSERT_EQ(compiled.manifest.roles_size(), 4) << timetable;
    for (int rank = 0; rank < 4; ++rank) {
      const abi::Role &role = compiled.manifest.roles(rank);
      uint64_t bytes = 0;
      int64_t most = 0;
      for (const abi::Space &space : role.spaces())
        if (space.name().find("stash") != std::string::npos && space.stride() > 0) {
          bytes += space.stride() * space.places();
          most = std::max<int64_t>(most, space.places());
          strides[timetable].push_back(space.stride());
        }
      EXPECT_EQ(most, places[static_cast<size_t>(rank)]) << timetable << ", rank " << rank;
      EXPECT_EQ(memoryOf(role, "stash of micro-batches under way"), bytes) << timetable << ", rank " << rank;
    }
  }
  EXPECT_EQ(strides["zb-h2"], strides["zb-h1"]);
  for (const char *timetable : {"v-half", "v-min", "dualpipev"})
    EXPECT_EQ(strides[timetable], strides["zbv"]) << timetable;
}

// Stages of one rank have their tensors in the same bytes of a place.
TEST(Stash, OfARanksStagesIsInTheSamePlace) {
  auto compiledFor = [](const char *mesh, const char *timetable) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = mesh,
                            .strategy = "ddp",
                            .accumulation = 8,
                            .symbols = fourLayers("gpt-small"),
                            .expect = false,
                            .timetable = timetable});
    return compiled.manifest;
  };
  abi::Manifest four = compiledFor("pp=4", "1f1b"), two = compiledFor("pp=2", "interleaved");
  auto strideOf = [](const abi::Manifest &manifest, int role) {
    return spaceOf(manifest.roles(role), "stash").stride();
  };
  EXPECT_EQ(strideOf(two, 0), std::max(strideOf(four, 0), strideOf(four, 2)));
  EXPECT_EQ(strideOf(two, 1), std::max(strideOf(four, 1), strideOf(four, 3)));
}

} // namespace
} // namespace dtc::test
