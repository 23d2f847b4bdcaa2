// Properties of pipelines drawn at random: stages, micro-batches, cuts, timetables with a name and of files, other
// axes. The compiler accepts each, its ranks never wait for each other for ever, it keeps as many stashes of each kind
// as the timetable holds, and its command lists compute what whole tensors do, in f64. Files with a mistake are refused
// with the entry.
#include "test/e2e/compiled_model.h"
#include "test/long_tests.h"
#include "test/refusal.h"

#include "passes/choices/PipelineTimetable.h"
#include "runtime/executor/validate.h"
#include "timing/certify/certify.h"
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <random>

namespace dtc::test {
namespace {

using namespace timetables;

constexpr int shards = 16; // ctest cases, so that none takes minutes

/// How many programs one shard tries.
int programsOfAShard() {
  constexpr int few = 64, many = 2000;
  return testsMayBeLong() ? std::max(1, many / shards / DTC_ONE_PROGRAM_OF) : few / shards;
}

/// A pipeline: what is compiled, and its timetable as the compiler must understand it.
struct DrawnProgram {
  ModelSetup setup;
  Timetable timetable;

  std::string describe() const {
    return fmt::format("{} on {} with {}, accumulation {}, {} layers cut as [{}], timetable {}:\n{}", setup.model,
                       setup.mesh, setup.strategy, setup.accumulation, setup.symbols.at("layers"),
                       fmt::join(setup.choices.layers, ", "), timetableTitle(setup.timetable), writeCsv(timetable));
  }
};

class Draw {
public:
  explicit Draw(uint64_t seed) : random(seed) {}

  DrawnProgram program() {
    int32_t ranks = 2 + below(3);
    DrawnProgram drawn;
    drawTimetable(drawn, ranks);
    drawModel(drawn, ranks);
    return drawn;
  }

  /// One mistake, mostly. Two entries that change places may be none.
  Timetable broken(Timetable timetable) {
    for (std::vector<Entry> &list : timetable.ranks)
      for (Entry &entry : list)
        entry.withNext = false;
    std::vector<Entry> &list = timetable.ranks[place(timetable.ranks.size())];
    size_t at = place(list.size());
    switch (below(5)) {
    case 0:
      list.erase(list.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1:
      list.insert(list.begin() + static_cast<ptrdiff_t>(place(list.size())), list[at]);
      break;
    case 2:
      ++list[at].microBatch;
      break;
    case 3:
      list[at].kind = list[at].kind == Kind::Forward ? Kind::BackwardWeight : Kind::Forward;
      break;
    default:
      std::swap(list[at], list[place(list.size())]);
    }
    return timetable;
  }

private:
  int32_t below(int32_t bound) { return static_cast<int32_t>(random() % static_cast<uint64_t>(bound)); }
  size_t place(size_t size) { return static_cast<size_t>(random() % size); }
  bool isOneOf(int32_t many) { return below(many) == 0; }

  void drawTimetable(DrawnProgram &drawn, int32_t ranks) {
    if (isOneOf(2)) {
      int32_t perRank = 1 + below(2), micro = 1 + below(2 * ranks + 3);
      drawn.timetable = walkAtRandom(ranks, perRank, micro);
      drawn.setup.timetable = writeCsv(drawn.timetable);
      return;
    }
    for (;;) {
      const Named &named = allNamed()[place(allNamed().size())];
      Shape shape{ranks, 1 + below(ranks == 2 ? 3 : 2), 1 + below(2 * ranks + 3)};
      if (!findMisfit(named, shape).empty())
        continue;
      drawn.timetable = generate(named, shape);
      drawn.setup.timetable = std::string(named.name);
      return;
    }
  }

  /// A timetable in which the entries of all ranks come in any order in which they can.
  Timetable walkAtRandom(int32_t ranks, int32_t perRank, int32_t micro) {
    Placement placement = perRank == 2 && isOneOf(2) ? Placement::V : Placement::Loop;
    Timetable timetable{"drawn", micro, placeStages(placement, ranks, ranks * perRank),
                        std::vector<std::vector<Entry>>(static_cast<size_t>(ranks))};
    bool inOrder = isOneOf(3), prefersBackward = isOneOf(2);
    int32_t split = below(3); // none, all, some
    std::vector<bool> isSplit;
    for (int32_t i = 0; i < timetable.stages() * micro; ++i)
      isSplit.push_back(split == 1 || (split == 2 && isOneOf(2)));
    Done done(timetable);
    for (;;) {
      std::vector<Entry> ready, backward;
      auto consider = [&](Kind kind, int32_t stage, int32_t number) {
        Entry entry{kind, false, stage, number};
        bool isEarly = inOrder && number > 0 && !done.has(kind, stage, number - 1);
        if (isEarly || done.has(kind, stage, number) || done.missing(entry))
          return;
        ready.push_back(entry);
        if (kind != Kind::Forward)
          backward.push_back(entry);
      };
      for (int32_t stage = 0; stage < timetable.stages(); ++stage)
        for (int32_t number = 0; number < micro; ++number) {
          consider(Kind::Forward, stage, number);
          if (isSplit[timetable.index(stage, number)]) {
            consider(Kind::BackwardInput, stage, number);
            consider(Kind::BackwardWeight, stage, number);
          } else {
            consider(Kind::Backward, stage, number);
          }
        }
      if (ready.empty())
        return timetable;
      std::vector<Entry> &among = prefersBackward && !backward.empty() && !isOneOf(4) ? backward : ready;
      Entry next = among[place(among.size())];
      done.add(next);
      timetable.ranks[static_cast<size_t>(timetable.rankOf[static_cast<size_t>(next.stage)])].push_back(next);
    }
  }

  void drawModel(DrawnProgram &drawn, int32_t ranks) {
    ModelSetup &setup = drawn.setup;
    setup.model = isOneOf(2) ? "gpt-small" : "llama-small"; // embeddings are tied in the first
    setup.accumulation = drawn.timetable.microBatches;
    setup.batch = 2;
    setup.sequence = 4;
    setup.symbols = {{"vocab", 13}, {"embed", 8}, {"head_dim", 4}, {"mlp", 8}, {"positions", 4}};
    if (setup.model == "gpt-small")
      setup.symbols["heads"] = 2;
    else
      setup.symbols.insert({{"kv_heads", 2}, {"group", 2}});
    drawCut(drawn, ranks);
    setup.mesh = fmt::format("pp={}", ranks);
    setup.strategy = "ddp";
    if (ranks == 4 || isOneOf(2)) // more ranks take longer
      return;
    if (isOneOf(3)) {
      setup.mesh += ",tp=2";
      setup.strategy = "megatron";
    } else {
      constexpr const char *strategies[] = {"ddp", "zero1", "zero2", "zero3"};
      setup.mesh = "dp=2," + setup.mesh;
      setup.strategy = strategies[below(4)];
    }
  }

  /// Of as many stages as the timetable has; where it takes no fewer, perhaps as the compiler cuts by itself.
  void drawCut(DrawnProgram &drawn, int32_t ranks) {
    int32_t stages = drawn.timetable.stages(), more = below(3);
    drawn.setup.symbols["layers"] = stages + more;
    const Named *named = findNamed(drawn.setup.timetable);
    if (isOneOf(2) && (!named || stages == named->leastPerRank * ranks))
      return;
    drawn.setup.choices.layers.assign(static_cast<size_t>(stages), 1);
    for (; more > 0; --more)
      ++drawn.setup.choices.layers[place(static_cast<size_t>(stages))];
  }

  std::mt19937_64 random;
};

/// For how many micro-batches of a rank's stages one pass of `begin` has run, or runs, and none of `end` has ended, at
/// most. A whole backward pass is both of its parts.
int64_t mostBetween(const std::vector<Entry> &list, Kind begin, Kind end) {
  int64_t held = 0, most = 0;
  for (const Entry &entry : list) {
    auto is = [&](Kind kind) { return entry.kind == kind || (entry.kind == Kind::Backward && kind != Kind::Forward); };
    held += is(begin) ? 1 : 0;
    most = std::max(most, held);
    held -= is(end) ? 1 : 0;
  }
  return most;
}

/// What is wrong with how much a rank keeps: not as many places of each kind as its timetable needs at a time, or bytes
/// that are not counted. If no backward pass is split, all of it is of the first kind.
std::string findWrongStash(const abi::Role &role, const std::vector<Entry> &list, bool isSplit) {
  struct Kept {
    const char *space;
    int64_t most;
  };
  int64_t ofWeights = isSplit ? mostBetween(list, Kind::Forward, Kind::BackwardWeight) : 0,
          ofGradients = isSplit ? mostBetween(list, Kind::BackwardInput, Kind::BackwardWeight) : 0;
  uint64_t bytes = 0;
  for (auto [name, most] : {Kept{"stash", mostBetween(list, Kind::Forward, Kind::BackwardInput)},
                            {"weight stash", ofWeights},
                            {"gradient stash", ofGradients}}) {
    int64_t places = 0;
    for (const abi::Space &space : role.spaces())
      if (space.name() == name || space.name() == std::string(name) + " of collectives") {
        bytes += space.stride() * space.places();
        if (space.stride() > 0)
          places = std::max<int64_t>(places, space.places());
      }
    if (places != most)
      return fmt::format("{} has {} places of space '{}', and its timetable needs {}", role.name(), places, name, most);
  }
  if (memoryOf(role, "stash of micro-batches under way") != bytes)
    return fmt::format("{} has {} bytes of stashes, and counts {}", role.name(), bytes,
                       memoryOf(role, "stash of micro-batches under way"));
  return "";
}

/// What does not hold; empty: everything does.
std::string findFailure(const DrawnProgram &drawn) {
  CompiledModel compiled(drawn.setup);
  if (!compiled.expectation)
    return "it does not compile";
  const abi::Manifest &manifest = compiled.manifest;
  try {
    for (const abi::Role &role : manifest.roles())
      validateTimetables(manifest, role);
    timing::certify(manifest);
  } catch (const Error &error) {
    return error.what();
  }
  const std::vector<std::vector<Entry>> &lists = drawn.timetable.ranks;
  if (manifest.roles_size() != static_cast<int>(lists.size()))
    return fmt::format("it has {} roles", manifest.roles_size());
  bool isSplit = splitsBackward(drawn.timetable); // then all backward passes are
  for (size_t rank = 0; rank < lists.size(); ++rank)
    if (std::string wrong = findWrongStash(manifest.roles(static_cast<int>(rank)), lists[rank], isSplit);
        !wrong.empty())
      return wrong;
  verify::VerifyReport report = verify::verify(*compiled.expectation, manifest);
  if (report.failure.empty() && report.comparisons.size() < 2u * manifest.parameters_size())
    return fmt::format("only {} tensors were compared", report.comparisons.size());
  return report.failure;
}

class RandomPipelines : public testing::TestWithParam<int> {
protected:
  static uint64_t seedOf(int number) { return static_cast<uint64_t>(number * shards + GetParam()); }
};

TEST_P(RandomPipelines, ComputeWhatWholeFunctionsDo) {
  for (int number = 0; number < programsOfAShard(); ++number) {
    DrawnProgram drawn = Draw(seedOf(number)).program();
    ASSERT_EQ(findFault(drawn.timetable), "") << "seed " << seedOf(number);
    ASSERT_EQ(findFailure(drawn), "") << "seed " << seedOf(number) << ": " << drawn.describe();
  }
}

TEST_P(RandomPipelines, OfFilesWithAMistakeAreRefusedWithTheEntry) {
  int refused = 0;
  constexpr int mistakes = 16;
  for (int number = 0; number < programsOfAShard(); ++number) {
    Draw draw(seedOf(number));
    DrawnProgram drawn = draw.program();
    PipelineShape shape{static_cast<int64_t>(drawn.timetable.ranks.size()), 0, drawn.timetable.microBatches};
    for (int i = 0; i < mistakes; ++i) {
      std::string csv = writeCsv(draw.broken(drawn.timetable));
      if (findFault(readCsv(csv, "drawn")).empty())
        continue;
      EXPECT_THAT(refusalOf([&] { timetableFor(csv, shape); }),
                  testing::ContainsRegex("^the timetable: .*[0-9]+[FBIW][0-9]+"))
          << "seed " << seedOf(number) << ":\n"
          << csv;
      drawn.setup.timetable = csv;
      ++refused;
    }
    if (number == 0 && findNamed(drawn.setup.timetable) == nullptr) { // the whole compiler refuses it, too
      drawn.setup.choices.layers.clear();
      bool isFaulty = !findFault(readCsv(drawn.setup.timetable, "drawn")).empty();
      EXPECT_EQ(CompiledModel(drawn.setup).succeeded, !isFaulty) << drawn.setup.timetable;
    }
  }
  EXPECT_GT(refused, programsOfAShard());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPipelines, testing::Range(0, shards));

} // namespace
} // namespace dtc::test
