// Ranks of one host that do not continue: distinguished, and named within the time that was set.
#include "runtime/comm/local/shared_memory.h"
#include "runtime/liveness/flight_record.h"

#include "runtime/support/error.h"

#include <csignal>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace dtc;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

namespace {

std::string place(int, const CommandPlace &place) { return "command " + std::to_string(place.command); }

/// Runs rank 0 here, waiting `meetings` times for rank 1, a separate process that does `work`. Returns why rank 0 gave
/// up.
std::string whyItEnds(
    const std::function<void(Communicator &)> &work,
    const std::function<void(pid_t, const Rendezvous &)> &meanwhile = [](pid_t, const Rendezvous &) {},
    int meetings = 1) {
  Rendezvous rendezvous(2);
  auto join = [&](int rank, Arena &arena) {
    SharedMemoryOptions options;
    options.path = rendezvous.path();
    options.rank = rank;
    options.size = 2;
    options.heart = {1500ms, place};
    return connectSharedMemory(options, arena);
  };
  pid_t child = fork();
  if (child == 0) {
    Arena arena(1 << 20, 0);
    work(*join(1, arena));
    _exit(0);
  }
  std::string why = "nothing";
  try {
    Arena arena(1 << 20, 0);
    auto communicator = join(0, arena);
    communicator->whereabouts().beginStep(3);
    communicator->whereabouts().enter({0, 41});
    meanwhile(child, rendezvous);
    for (int meeting = 0; meeting < meetings; ++meeting)
      communicator->exchange(0);
  } catch (const PeerLostError &error) {
    why = error.what();
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return why;
}

TEST(Heart, NamesARankThatIsStopped) {
  auto stop = [](pid_t child, const Rendezvous &) { kill(child, SIGSTOP); };
  auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(
      whyItEnds([](Communicator &) { std::this_thread::sleep_for(1h); }, stop),
      AllOf(HasSubstr("rank 1 was lost"), HasSubstr("stopped"), HasSubstr("rank 0 waits for it at command 41")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
}

TEST(Heart, NamesARankThatHangsInACommand) {
  auto hang = [](Communicator &communicator) {
    communicator.whereabouts().enter({0, 17});
    std::this_thread::sleep_for(1h);
  };
  EXPECT_THAT(whyItEnds(hang), AllOf(HasSubstr("rank 1 was lost: it hangs"), HasSubstr("command 17")));
}

TEST(Heart, LeavesAloneWhoGoesOnAndWhoIsStoppedForLess) {
  auto slow = [](Communicator &communicator) {
    for (uint32_t command = 0; command < 20; ++command) {
      communicator.whereabouts().enter({0, command});
      std::this_thread::sleep_for(150ms);
    }
    communicator.exchange(0);
  };
  auto interrupt = [](pid_t child, const Rendezvous &) {
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(700ms);
    kill(child, SIGCONT);
  };
  EXPECT_EQ(whyItEnds(slow, interrupt), "nothing");
}

TEST(Heart, LeavesAloneRanksThatMeet) {
  constexpr int Meetings = 10;
  auto meet = [](Communicator &communicator) {
    communicator.whereabouts().enter({0, 17});
    for (int meeting = 0; meeting < Meetings; ++meeting) {
      std::this_thread::sleep_for(300ms);
      communicator.exchange(0);
    }
  };
  EXPECT_EQ(whyItEnds(meet, [](pid_t, const Rendezvous &) {}, Meetings), "nothing");
}

TEST(FlightRecord, TellsWhatEachRankDidLast) {
  std::string record;
  auto work = [](Communicator &communicator) {
    for (uint32_t command = 0; command < 100; ++command)
      communicator.whereabouts().enter({2, command});
    communicator.whereabouts().noteCheckpoint(7);
    raise(SIGKILL);
  };
  auto meanwhile = [&](pid_t child, const Rendezvous &rendezvous) {
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    record = printFlightRecord(rendezvous.control(), place);
  };
  EXPECT_THAT(whyItEnds(work, meanwhile), HasSubstr("rank 1 was lost: its process died"));
  EXPECT_THAT(record, AllOf(HasSubstr("rank 0: step 3, 1 commands"), HasSubstr("rank 1: step 0, 100 commands"),
                            HasSubstr("checkpoint after step 7"), HasSubstr("command 99"), HasSubstr("command 36\n"),
                            testing::Not(HasSubstr("command 35\n"))));
}

} // namespace
