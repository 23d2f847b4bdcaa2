// The certificate against deadlock of compiled programs: they get one, an executor that delays at random never blocks,
// and changed programs are refused exactly where that executor blocks.
#include "test/e2e/compiled_model.h"
#include "test/timing/certify/adversary.h"
#include "test/timing/certify/hand_written.h"

#include "runtime/abi/judged.h"
#include "runtime/abi/timetables.h"

#include <chrono>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::HasSubstr;

constexpr Layout layouts[] = {{"dp2_tp2", "dp=2,tp=2", "megatron", 2},
                              {"tp4_sp", "tp=4", "megatron-sp", 1},
                              {"dp4_zero3", "dp=4", "zero3", 2},
                              {"dp2_cp2", "dp=2,cp=2", "cp", 1},
                              {"pp4", "pp=4", "ddp", 8},
                              {"pp4_few", "pp=4", "ddp", 2},
                              {"dp2_pp2_tp2", "dp=2,pp=2,tp=2", "megatron-sp", 4},
                              {"dp2_pp2_zero1", "dp=2,pp=2", "zero1", 3}};

abi::Manifest compiledFor(const Layout &layout, const char *timetable = "1f1b", const char *model = "gpt-small") {
  ModelSetup setup = smallSetup(model, layout, {.expect = false, .timetable = timetable});
  setup.symbols["layers"] = 4;
  CompiledModel compiled(setup);
  EXPECT_TRUE(compiled.succeeded);
  return compiled.manifest;
}

class Certificates : public testing::TestWithParam<Layout> {};

// About 10,000 in all.
TEST_P(Certificates, OfCompiledProgramsHoldWhateverIsDelayed) {
  abi::Manifest manifest = compiledFor(GetParam());
  abi::Certificate certificate = timing::certify(manifest);
  EXPECT_EQ(certificate.judged(), abi::hashOfJudged(manifest));
  EXPECT_GE(certificate.timetables_size(), 2);
  for (const abi::JudgedTimetable &judged : certificate.timetables()) {
    EXPECT_GT(judged.commands(), 0u) << judged.name();
    Adversary adversary(manifest, judged.name(), judged.steps() + 1);
    for (uint64_t seed = 0; seed < 320; ++seed)
      for (Device device : {Device::RoomForAll, Device::RoomForOne})
        ASSERT_TRUE(adversary.run(seed, device)) << judged.name() << " " << seed;
  }
}

/// Where all ranks play one role, the last gets a role and lists of its own: it may then behave differently from the
/// others.
void setLastRankApart(abi::Manifest &manifest) {
  if (manifest.roles_size() > 1)
    return;
  abi::Role &all = *manifest.mutable_roles(0), last = all;
  auto ranks = static_cast<uint32_t>(Mesh(manifest.mesh()).ranks());
  all.clear_ranks();
  all.add_ranks()->set_count(ranks - 1);
  abi::RankRange &own = *last.add_ranks();
  own.set_first(ranks - 1);
  own.set_count(1);
  for (int list = 0, lists = manifest.lists_size(); list < lists; ++list) {
    abi::CommandList copy = manifest.lists(list);
    copy.set_name(copy.name() + " of the last");
    *manifest.add_lists() = copy;
  }
  for (abi::Timetable &timetable : *last.mutable_timetables())
    for (abi::TimetableEntry &entry : *timetable.mutable_period())
      entry.set_list(entry.list() + " of the last");
  *manifest.add_roles() = last;
}

/// Swaps two adjacent commands of a list; not a wait and its own start.
void exchange(abi::Manifest &manifest, std::mt19937_64 &random) {
  abi::CommandList &list = *manifest.mutable_lists(static_cast<int>(random() % uint64_t(manifest.lists_size())));
  std::vector<int> matter;
  for (int at = 0; at < list.commands_size(); ++at)
    if (abi::isStart(list.commands(at)) || list.commands(at).has_wait())
      matter.push_back(at);
  if (matter.size() < 2)
    return;
  size_t at = random() % (matter.size() - 1);
  abi::Command &one = *list.mutable_commands(matter[at]), &other = *list.mutable_commands(matter[at + 1]);
  if (abi::tokenOf(one) != abi::tokenOf(other))
    one.Swap(&other);
}

TEST_P(Certificates, AreRefusedWhereAProgramWasChangedSoThatItBlocks) {
  abi::Manifest original = compiledFor(GetParam());
  setLastRankApart(original);
  ASSERT_EQ(refusalOf(original), "");
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 40; ++trial) {
    abi::Manifest manifest = original;
    for (int i = 0; i < 4; ++i)
      exchange(manifest, random);
    std::string refusal = refusalOf(manifest);
    bool ends = true;
    for (const abi::Timetable &timetable : manifest.roles(0).timetables())
      ends &= Adversary(manifest, timetable.name(), 1).run(random(), Device::RoomForOne);
    if (refusal.empty() || refusal.find("can hang") != std::string::npos)
      EXPECT_EQ(ends, refusal.empty()) << trial << ": " << refusal;
    EXPECT_EQ(abi::hashOfJudged(manifest) == abi::hashOfJudged(original),
              manifest.SerializeAsString() == original.SerializeAsString())
        << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Certificates, testing::ValuesIn(layouts),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(CertificatesOfPipelines, AreGivenWhateverTheTimetable) {
  for (const char *model : {"gpt-small", "llama-small"})
    for (const char *timetable : {"naive", "gpipe", "1f1b"})
      for (int64_t accumulation : {1, 3, 4, 8})
        EXPECT_EQ(refusalOf(compiledFor({"pp4", "pp=4", "ddp", accumulation}, timetable, model)), "");
}

TEST(CertificatesOfPipelines, AreGivenToRanksOfSeveralStages) {
  for (const char *timetable : {"interleaved", "zb-h2", "zbv", "v-half", "v-min", "dualpipev"})
    for (int64_t accumulation : {4, 8})
      for (auto [mesh, strategy] : {std::pair("pp=2", "ddp"), {"tp=2,pp=2", "megatron-sp"}, {"dp=2,pp=2", "zero3"}}) {
        abi::Manifest manifest = compiledFor({"several", mesh, strategy, accumulation}, timetable);
        EXPECT_EQ(refusalOf(manifest), "") << timetable << " " << mesh << " " << accumulation;
        Adversary adversary(manifest, "step", 2);
        for (uint64_t seed = 0; seed < 20; ++seed)
          ASSERT_TRUE(adversary.run(seed, Device::RoomForOne)) << timetable << " " << mesh << " " << seed;
      }
}

// A tied embedding's gradient is ready before a stage has sent what the other one waits for, and is reduced over both.
TEST(CertificatesOfPipelines, AreGivenWhereStagesMeetInOneMicroBatch) {
  for (const Layout &layout :
       {Layout{"tp2_pp2", "tp=2,pp=2", "megatron", 1}, Layout{"sp2_pp2", "tp=2,pp=2", "megatron-sp", 1},
        Layout{"dp2_pp2_zero3", "dp=2,pp=2", "zero3", 1}})
    EXPECT_EQ(refusalOf(compiledFor(layout)), "") << layout.name;
}

// A command that waits for one stage must not block what another stage waits for.
TEST(CertificatesOfPipelines, NeedAChannelForEachCutAndDirection) {
  abi::Manifest manifest = compiledFor({"pp4", "pp=4", "ddp", 8});
  for (abi::Group &group : *manifest.mutable_groups())
    group.set_channel(0);
  std::string refusal = refusalOf(manifest);
  EXPECT_THAT(refusal, HasSubstr("can hang: rank "));
  EXPECT_THAT(refusal, HasSubstr(" has on channel 0 behind the receive of "));
  EXPECT_FALSE(Adversary(manifest, "step", 1).run(0, Device::RoomForAll));
}

// The 98,304 ranks of GPT-3 are eight stages of equal ranks.
TEST(CertificatesOfManyRanks, CostWhatTheirClassesCost) {
  CompiledModel compiled({.model = "gpt3-175b",
                          .mesh = "dp=1536,tp=8,pp=8",
                          .strategy = "megatron",
                          .accumulation = 16,
                          .batch = 1536,
                          .sequence = 2048,
                          .expect = false});
  ASSERT_TRUE(compiled.succeeded);
  auto begin = std::chrono::steady_clock::now();
  abi::Certificate certificate = timing::certify(compiled.manifest);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(certificate.ranks(), 98304u);
  EXPECT_EQ(certificate.classes(), 8u);
  EXPECT_LT(seconds.count(), 5);
  std::cout << certificate.ranks() << " ranks certified in " << seconds.count() << " s\n";
}

} // namespace
} // namespace dtc::test
