#include "runtime/liveness/watch.h"

#include <gmock/gmock.h>

using namespace dtc;
using namespace dtc;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr auto Timeout = 40s;

/// A rank that runs, within a list.
Signs running(int rank) { return {rank, 100ms, 100ms, 100ms, true, false, "list 'micro', command 7 (h.0.attn)"}; }

std::string verdict(const std::vector<Signs> &signs) {
  std::optional<FailureNotice> notice = judge(signs, Timeout);
  return notice ? describeFailure(*notice) : "";
}

TEST(Watch, NobodyIsBlamedWhileThingsMove) {
  Signs slow = running(1), patient = running(0);
  slow.still = 10min; // a long product, and nobody waits for it
  EXPECT_EQ(verdict({patient, slow}), "");
  patient.waiting = true;
  patient.still = 39s;
  EXPECT_EQ(verdict({patient, slow}), "");
  EXPECT_EQ(verdict({}), "");
}

TEST(Watch, AStoppedProcessIsToldFromAnUnreachableHost) {
  Signs lost = running(2);
  lost.silent = 41s;
  EXPECT_THAT(verdict({running(0), running(1), lost}),
              AllOf(HasSubstr("rank 2 was lost"), HasSubstr("is stopped"), HasSubstr("41 s"), HasSubstr("h.0.attn")));
  Signs waiting = running(0);
  waiting.waiting = true;
  waiting.still = 3s;
  waiting.place = "list 'update', command 2 (wte)";
  EXPECT_THAT(verdict({waiting, running(1), lost}), HasSubstr("rank 0 waits for it at list 'update', command 2 (wte)"));
  lost.systemSilent = 41s;
  lost.link = "10.0.0.1 and 10.0.0.2";
  EXPECT_THAT(verdict({running(0), running(1), lost}), AllOf(HasSubstr("rank 2"), HasSubstr("unreachable"),
                                                             HasSubstr("the link between 10.0.0.1 and 10.0.0.2")));
}

// All wait, and two of them for each other over a link that is down.
TEST(Watch, ACutBetweenTwoOtherHostsIsNamed) {
  std::vector<Signs> signs = {running(0), running(1), running(2)};
  for (Signs &rank : signs) {
    rank.waiting = true;
    rank.still = 41s;
  }
  EXPECT_THAT(verdict(signs), HasSubstr("all ranks have waited for each other"));
  signs[1].silentPeer = {2, 40s, "10.0.0.2 and 10.0.0.3"};
  EXPECT_EQ(verdict(signs), "rank 2 was lost: its host is unreachable for rank 1: nothing has come from there for 40 s "
                            "over the link between 10.0.0.2 and 10.0.0.3");
}

TEST(Watch, NobodyElseIsNamedWhileOneHasGoneSilent) {
  Signs waiting = running(0), silent = running(1);
  waiting.waiting = silent.waiting = true;
  waiting.still = silent.still = 41s;
  silent.silent = 39s; // what it sent before its link was cut came a little later
  EXPECT_EQ(verdict({waiting, silent}), "");
  silent.silent = silent.systemSilent = 41s;
  EXPECT_THAT(verdict({waiting, silent}), HasSubstr("rank 1 was lost: its host is unreachable"));
}

TEST(Watch, WhoeverIsSilentLongestIsNamed) {
  Signs first = running(0), second = running(1);
  first.silent = 41s;
  second.silent = 43s;
  EXPECT_THAT(verdict({first, second}), HasSubstr("rank 1"));
}

TEST(Watch, AHungRankIsNamedAndNotThoseThatWaitForIt) {
  Signs waiting = running(0), hung = running(1);
  waiting.waiting = true;
  waiting.still = hung.still = 41s;
  EXPECT_THAT(verdict({waiting, hung}),
              AllOf(HasSubstr("rank 1"), HasSubstr("hangs"), HasSubstr("list 'micro', command 7 (h.0.attn)")));
}

TEST(Watch, WorkWithFilesMayTakeLonger) {
  Signs waiting = running(0), reading = running(1);
  waiting.waiting = true;
  waiting.still = reading.still = 41s;
  reading.inList = false;
  EXPECT_EQ(verdict({waiting, reading}), "");
  reading.still = 401s;
  EXPECT_THAT(verdict({waiting, reading}), AllOf(HasSubstr("rank 1"), HasSubstr("files")));
}

TEST(Watch, RanksThatWaitForEachOtherAreAllNamed) {
  Signs first = running(0), second = running(1);
  first.waiting = second.waiting = true;
  first.still = second.still = 41s;
  second.place = "list 'update', command 3";
  EXPECT_THAT(verdict({first, second}),
              AllOf(HasSubstr("rank 0 at list 'micro'"), HasSubstr("rank 1 at list 'update'")));
  second.still = 39s;
  EXPECT_EQ(verdict({first, second}), "");
}

} // namespace
