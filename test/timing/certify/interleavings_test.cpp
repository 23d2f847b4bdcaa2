// Accepted programs never block, whatever is delayed; and the verdict on classes of ranks holds for all ranks.
#include "test/timing/certify/adversary.h"
#include "test/timing/certify/hand_written.h"
#include "timing/timetables/named.h"

#include <gmock/gmock.h>

#include <deque>

namespace dtc::test {
namespace {

using timetables::Entry;
using timetables::Kind;
using timetables::Timetable;

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// The timetables whose backward passes are whole and whose ranks have one stage each.
constexpr std::string_view names[] = {"naive", "gpipe", "1f1b"};

Timetable ofOneStageARank(std::string_view name, int32_t stages, int32_t microBatches) {
  return timetables::generate(name, {.ranks = stages, .stagesPerRank = 1, .microBatches = microBatches});
}

/// A pipeline as dt-insert-transfers and dt-build-timetables build it: a receive is begun one pass ahead, two messages
/// are in transit, and each cut has its own channel in each direction.
class PipelineProgram {
public:
  explicit PipelineProgram(const Timetable &timetable)
      : program(timetable.stages(), {{0}, {1}, {2}, {3}}), stages(timetable.stages()) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      abi::Role &role = program.addRole("stage " + std::to_string(stage), {static_cast<uint32_t>(stage)},
                                        static_cast<uint32_t>(timetable.microBatches + 1));
      addLists(stage);
      addPasses(role, stage, timetable.ranks[static_cast<size_t>(stage)]);
    }
  }

  HandProgram program;

private:
  static std::string nameOf(Kind kind, const char *what, int64_t stage) {
    return std::string(kind == Kind::Forward ? "forward" : "backward") + what + std::to_string(stage);
  }
  /// The stage that a pass sends to, and the one that it receives from.
  static int64_t next(Kind kind, int64_t stage) { return kind == Kind::Forward ? stage + 1 : stage - 1; }
  static int64_t before(Kind kind, int64_t stage) { return kind == Kind::Forward ? stage - 1 : stage + 1; }
  bool isStage(int64_t stage) const { return stage >= 0 && stage < stages; }
  static int64_t groupOf(Kind kind, int64_t one, int64_t other) {
    return (kind == Kind::Forward ? 0 : 2) + std::min(one, other) % 2;
  }

  void addLists(int64_t stage) {
    for (Kind kind : {Kind::Forward, Kind::Backward}) {
      std::string value = kind == Kind::Forward ? "activations" : "gradients", pass;
      int64_t from = before(kind, stage), to = next(kind, stage);
      if (isStage(from)) {
        pass = "wait " + value + "In";
        program.list(nameOf(kind, ".receive", stage),
                     "recv " + value + "In " + std::to_string(from) + " on " +
                         std::to_string(groupOf(kind, from, stage)),
                     stage);
      }
      if (isStage(to)) {
        pass += std::string(pass.empty() ? "" : ", ") + "send " + value + "Out " + std::to_string(to) + " on " +
                std::to_string(groupOf(kind, to, stage));
        program.list(nameOf(kind, ".sent", stage), "wait " + value + "Out", stage);
      }
      program.list(nameOf(kind, "", stage), pass, stage);
    }
  }

  static void add(abi::Role &role, const std::string &list, int64_t microBatch) {
    abi::TimetableEntry &entry = addEntry(role, abi::stepTimetable, list);
    entry.set_micro_batch(microBatch);
    entry.add_places(static_cast<uint32_t>(microBatch));
  }

  void addPasses(abi::Role &role, int64_t stage, const std::vector<Entry> &passes) {
    std::map<Kind, std::deque<int64_t>> sent;
    auto awaitSent = [&](Kind kind) {
      add(role, nameOf(kind, ".sent", stage), sent[kind].front());
      sent[kind].pop_front();
    };
    size_t received = 0;
    for (size_t i = 0; i < passes.size(); ++i) {
      for (; received < std::min(passes.size(), i + 2); ++received)
        if (const Entry &ahead = passes[received]; isStage(before(ahead.kind, stage)))
          add(role, nameOf(ahead.kind, ".receive", stage), ahead.microBatch);
      auto [kind, micro] = std::pair(passes[i].kind, passes[i].microBatch);
      if (isStage(next(kind, stage))) {
        if (sent[kind].size() == 2)
          awaitSent(kind);
        sent[kind].push_back(micro);
      }
      add(role, nameOf(kind, "", stage), micro);
    }
    for (Kind kind : {Kind::Forward, Kind::Backward})
      while (!sent[kind].empty())
        awaitSent(kind);
  }

  int64_t stages;
};

// Fewer micro-batches than stages too: torchtitan#775 waits for ever in its warm-up then.
TEST(Pipelines, OfOneStageARankAreCertified) {
  for (std::string_view name : names)
    for (int32_t stages = 1; stages <= 16; ++stages)
      for (int32_t micro = 1; micro <= 2 * stages; ++micro)
        ASSERT_EQ(refusalOf(PipelineProgram(ofOneStageARank(name, stages, micro)).program.manifest), "")
            << name << " " << stages << " " << micro;
}

TEST(Pipelines, NeverBlock) {
  uint64_t seed = 0;
  for (std::string_view name : names)
    for (int32_t stages : {2, 3, 5, 8})
      for (int32_t micro : {1, 2, 4, 9}) {
        Adversary adversary(PipelineProgram(ofOneStageARank(name, stages, micro)).program.manifest,
                            std::string(abi::stepTimetable), 1);
        for (int i = 0; i < 110; ++i)
          for (Device device : {Device::RoomForAll, Device::RoomForOne})
            ASSERT_TRUE(adversary.run(++seed, device)) << name << " " << stages << " " << micro;
      }
}

/// The second stage has one forward pass more than there are micro-batches: it waits for what the first never sends.
Timetable longWarmUp(int32_t stages, int32_t microBatches) {
  Timetable timetable = ofOneStageARank("1f1b", stages, microBatches);
  std::vector<Entry> &second = timetable.ranks[1];
  second.insert(second.begin() + microBatches, Entry{.kind = Kind::Forward, .stage = 1, .microBatch = microBatches});
  return timetable;
}

TEST(Pipelines, WhoseWarmUpIsLongerThanTheStepAreRefused) {
  EXPECT_EQ(refusalOf(PipelineProgram(longWarmUp(3, 1)).program.manifest),
            "its step can hang: rank 0 (stage 0) waits in list 'backward0' on micro-batch 0 (command 0) for the "
            "receive of 'gradientsIn' from rank 1, which rank 1 (stage 1) sends only after its wait in list 'forward1' "
            "on micro-batch 1 (command 0) for the receive of 'activationsIn' from rank 0, which rank 0 (stage 0) sends "
            "only after its wait in list 'backward0' on micro-batch 0 (command 0)");
}

/// All receives are posted as soon as there is a place, on one channel for all: where the sender was scheduled.
TEST(Pipelines, OnOneChannelAreRefused) {
  PipelineProgram pipeline(ofOneStageARank("1f1b", 3, 4));
  for (abi::Group &group : *pipeline.program.manifest.mutable_groups())
    group.set_channel(0);
  EXPECT_EQ(refusalOf(pipeline.program.manifest),
            "its step can hang: rank 1 (stage 1) waits in list 'backward1' on micro-batch 0 (command 0) for the "
            "receive of 'gradientsIn' from rank 2, which rank 2 (stage 2) has on channel 0 behind the receive of "
            "'activationsIn' from rank 1 that it starts in list 'forward.receive2' on micro-batch 1 (command 0), which "
            "rank 1 (stage 1) has on channel 0 behind the receive of 'gradientsIn' from rank 2 that it starts in list "
            "'backward.receive1' on micro-batch 0 (command 0), which rank 2 (stage 2) has on channel 0 behind the "
            "receive of 'activationsIn' from rank 1");
}

//===----------------------------------------------------------------------===//
// Steps that overlap
//===----------------------------------------------------------------------===//

/// Adds a list to what a role runs in each step, for one that many steps later.
abi::TimetableEntry &addAhead(abi::Role &role, const std::string &list, int32_t step) {
  abi::TimetableEntry &entry = addEntry(role, abi::stepTimetable, list);
  entry.set_step(step);
  return entry;
}

/// Rank 0 sends a step ahead, with one message under way at a time.
HandProgram overlappingSteps() {
  HandProgram program(2);
  program.list("send", "send x 1", 0);
  program.list("sent", "wait x", 0);
  program.list("take", "recv x 0, wait x", 1);
  abi::Role &ahead = program.addRole("ahead", {0});
  addAhead(ahead, "sent", 0);
  addAhead(ahead, "send", 1);
  addAhead(program.addRole("behind", {1}), "take", 0);
  return program;
}

/// Rank 0 sends `depth` steps ahead, and waits for what it has sent in the step itself: each message under way has a
/// place.
HandProgram deepSteps(int32_t depth, uint32_t places) {
  HandProgram program(2);
  program.list("send", "send x 1", 0);
  program.list("sent", "wait x", 0);
  program.list("take", "recv x 0, wait x", 1);
  abi::Role &ahead = program.addRole("ahead", {0}, places);
  for (abi::TimetableEntry *entry : {&addAhead(ahead, "send", depth), &addAhead(ahead, "sent", 0)})
    entry->add_turns(places);
  addAhead(program.addRole("behind", {1}), "take", 0);
  return program;
}

TEST(Steps, ThatOverlapAreCertifiedForAnyNumber) {
  HandProgram program = overlappingSteps();
  abi::Certificate certificate = timing::certify(program.manifest);
  EXPECT_EQ(certificate.timetables(0).steps(), 3u);
  for (int64_t steps : {1, 2, 3, 7})
    for (uint64_t seed = 0; seed < 20; ++seed)
      EXPECT_TRUE(Adversary(program.manifest, "step", steps).run(seed, Device::RoomForOne)) << steps;
}

// Between two steps all ranks meet: what only a later step sends cannot be waited for.
TEST(Steps, CannotWaitForLaterOnes) {
  HandProgram program(2);
  program.list("send", "send x 1", 0);
  program.list("none", "copy c, wait c", 0);
  program.list("sent", "wait x", 0);
  program.list("take", "recv x 0, wait x", 1);
  abi::Role &ahead = program.addRole("ahead", {0});
  for (const char *list : {"none", "send", "sent"})
    addAhead(ahead, list, 0);
  addAhead(program.addRole("behind", {1}), "take", 1);
  EXPECT_EQ(refusalOf(program.manifest), "its step can hang: rank 1 (behind) waits in list 'take' (command 1) for the "
                                         "receive of 'x' from rank 0, which rank 0 (ahead) never sends");
  EXPECT_FALSE(Adversary(program.manifest, "step", 2).run(0, Device::RoomForAll));
}

TEST(Steps, ThatEndWithSomethingUnderWayAreRefused) {
  HandProgram program = overlappingSteps();
  entriesOf(program.manifest).SwapElements(0, 1);
  entriesOf(program.manifest).RemoveLast(); // which waits for what has been sent
  EXPECT_EQ(refusalOf(program.manifest),
            "in its step rank 0 never waits for the send of 'x' to rank 1 that it starts in list 'send' (command 0)");
}

TEST(Steps, MoveOnFromPlaceToPlace) {
  for (int32_t depth : {1, 2, 3, 5})
    for (int32_t more : {0, 1, 4}) {
      HandProgram program = deepSteps(depth, static_cast<uint32_t>(depth + 1 + more));
      abi::Certificate certificate = timing::certify(program.manifest);
      EXPECT_EQ(certificate.timetables(0).steps(), static_cast<uint32_t>(depth + 2));
      for (int64_t steps : {1, 2, 3, 9})
        for (uint64_t seed = 0; seed < 5; ++seed)
          EXPECT_TRUE(Adversary(program.manifest, "step", steps).run(seed, Device::RoomForOne))
              << depth << " " << steps;
    }
  EXPECT_THAT(refusalOf(deepSteps(3, 3).manifest),
              testing::AllOf(testing::HasSubstr("rank 0 starts the send of 'x' to rank 1 in list 'send'"),
                             testing::HasSubstr("with the same token, is still to be waited for")))
      << "four are under way";
}

/// The same steps, where what rank 0 has sent ahead may have to be sent anew.
class RedoneSteps : public testing::Test {
protected:
  void add(int role, const std::string &list) {
    abi::TimetableEntry &entry = addEntry(*program.manifest.mutable_roles(role), abi::redoTimetable, list);
    entry.set_step(1);
  }
  HandProgram program = overlappingSteps();
};

TEST_F(RedoneSteps, LeaveTheSameUnderWay) {
  for (const char *list : {"sent", "send"})
    add(0, list);
  add(1, "take");
  EXPECT_EQ(refusalOf(program.manifest), "");
  entriesOf(program.manifest, abi::redoTimetable).RemoveLast();
  EXPECT_EQ(refusalOf(program.manifest), "its redo leaves something else under way than it has found");
}

TEST_F(RedoneSteps, DropWhatIsUnderWay) {
  for (const char *list : {"sent", "send"})
    add(0, list);
  EXPECT_THAT(refusalOf(program.manifest),
              testing::HasSubstr("its redo can hang: rank 0 (ahead) waits in list 'sent'"));
  entriesOf(program.manifest, abi::redoTimetable).erase(entriesOf(program.manifest, abi::redoTimetable).begin());
  EXPECT_THAT(refusalOf(program.manifest),
              testing::AllOf(testing::HasSubstr("in its redo rank 0 starts the send of 'x' to rank 1 in list 'send'"),
                             testing::HasSubstr("with the same token, is still to be waited for")));
}

//===----------------------------------------------------------------------===//
// Programs drawn at random
//===----------------------------------------------------------------------===//

/// A mesh of a=roles, b=ranks of each. Commands on which all could agree, some of which are swapped.
class RandomProgram {
public:
  explicit RandomProgram(uint64_t seed) : random(seed), roles(1 + draw(3)), width(1 + draw(3)), lists(roles) {
    addMesh();
    for (size_t i = 0, count = 2 + draw(6); i < count; ++i)
      addMeeting(static_cast<uint32_t>(i));
    for (std::vector<abi::Command> &list : lists)
      for (size_t i = 0, count = draw(3); i < count && list.size() > 1; ++i)
        exchange(list, draw(list.size() - 1));
    for (size_t role = 0; role < roles; ++role)
      finish(role);
  }

  abi::Manifest manifest;

private:
  size_t draw(size_t below) { return random() % below; }

  void addMesh() {
    manifest.add_stages();
    for (auto [name, size] : {std::pair("a", roles), std::pair("b", width)}) {
      abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
      axis.set_name(name);
      axis.set_size(static_cast<int64_t>(size));
    }
    for (int i = 0; i < 6; ++i) { // over a, over b, over both; twice
      abi::Group &group = *manifest.add_groups();
      group.set_channel(static_cast<uint32_t>(draw(3)));
      for (int axis : {0, 1})
        if (i % 3 == 2 || i % 3 == axis) {
          abi::AxisRef &ref = *group.add_axes();
          ref.set_axis(manifest.mesh().axes(axis).name());
          ref.set_pre(1);
          ref.set_size(manifest.mesh().axes(axis).size());
        }
    }
  }

  /// A collective of a role's ranks or of all, or a message from each rank of a role to one of another, or of its own.
  void addMeeting(uint32_t token) {
    size_t from = draw(roles), to = draw(roles);
    auto group = static_cast<uint32_t>(draw(6));
    if (draw(2) == 0) {
      for (size_t role = 0; role < roles; ++role)
        if (group % 3 != 1 || role == from)
          lists[role].push_back(collective(group, token));
    } else if (from != to) {
      group = group / 3 * 3;
      lists[from].push_back(transfer(true, group, static_cast<int64_t>(to) - static_cast<int64_t>(from), token));
      lists[to].push_back(transfer(false, group, static_cast<int64_t>(from) - static_cast<int64_t>(to), token));
    } else if (width > 1) {
      group = group / 3 * 3 + 1;
      lists[from].push_back(transfer(true, group, 1, token));
      lists[from].push_back(transfer(false, group, -1, token + 100));
    }
    for (size_t role = 0; role < roles; ++role)
      if (draw(2) == 0)
        addWaits(lists[role]);
  }

  static abi::Command collective(uint32_t group, uint32_t token) {
    abi::Command command;
    command.mutable_start()->set_group(group);
    command.mutable_start()->set_token(token);
    return command;
  }
  static abi::Command transfer(bool sends, uint32_t group, int64_t shift, uint32_t token) {
    abi::Command command;
    abi::Transfer &transfer = *(sends ? command.mutable_send() : command.mutable_recv());
    transfer.set_group(group);
    transfer.set_shift(shift);
    transfer.set_token(token);
    return command;
  }

  void addWaits(std::vector<abi::Command> &list) {
    std::vector<uint32_t> pending;
    for (const abi::Command &command : list)
      if (command.has_wait())
        std::erase(pending, command.wait().token());
      else
        pending.push_back(abi::tokenOf(command));
    for (uint32_t token : pending)
      list.emplace_back().mutable_wait()->set_token(token);
  }

  /// Not a wait with its own start.
  static void exchange(std::vector<abi::Command> &list, size_t at) {
    if (abi::tokenOf(list[at]) != abi::tokenOf(list[at + 1]))
      std::swap(list[at], list[at + 1]);
  }

  void finish(size_t role) {
    addWaits(lists[role]);
    std::string name = "role " + std::to_string(role);
    abi::CommandList &list = addList(manifest, name);
    list.mutable_commands()->Add(lists[role].begin(), lists[role].end());
    abi::Role &made = *manifest.add_roles();
    made.set_name(name);
    addSpace(made, abi::Space::REGISTERED, 0, 64);
    abi::RankRange &range = *made.add_ranks();
    range.set_first(static_cast<uint32_t>(role * width));
    range.set_count(static_cast<uint32_t>(width));
    addEntry(made, abi::stepTimetable, name);
  }

  std::mt19937_64 random;
  size_t roles, width;
  std::vector<std::vector<abi::Command>> lists; // of each role
};

// One execution is valid for all, and one rank for its class: the adversary, which knows neither, agrees.
TEST(RandomPrograms, BlockWhereTheyAreRefused) {
  std::map<bool, int> seen;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomProgram program(seed);
    std::string refusal = refusalOf(program.manifest);
    Adversary adversary(program.manifest, std::string(abi::stepTimetable), 1);
    for (uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(adversary.run(seed + i, Device::RoomForOne), refusal.empty()) << seed << ": " << refusal;
    if (refusal.empty())
      ASSERT_TRUE(adversary.run(seed, Device::RoomForAll)) << seed;
    ++seen[refusal.empty()];
  }
  EXPECT_GT(seen[true], 1000);
  EXPECT_GT(seen[false], 1000);
}

} // namespace
} // namespace dtc::test
