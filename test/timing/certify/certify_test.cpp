// What is certified, and what is refused with which message.
#include "test/timing/certify/adversary.h"
#include "test/timing/certify/hand_written.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

struct Case {
  const char *name;
  std::vector<std::string> ranks;
  std::vector<HandGroup> groups;
  std::string refusal; ///< empty: none
};

void PrintTo(const Case &tested, std::ostream *out) { *out << tested.name; }

class HandWritten : public testing::TestWithParam<Case> {};

/// A refused program does hang, for some delays; a certified one never does.
TEST_P(HandWritten, IsCertifiedOrRefused) {
  const Case &tested = GetParam();
  HandProgram program(tested.ranks, tested.groups.empty() ? std::vector<HandGroup>{{}} : tested.groups);
  std::string refusal = refusalOf(program.manifest);
  EXPECT_EQ(refusal, tested.refusal);
  bool hangs = refusal.starts_with("its step can hang");
  if (!refusal.empty() && !hangs)
    return;
  Adversary adversary(program.manifest, std::string(abi::stepTimetable), 1);
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (Device device : {Device::RoomForAll, Device::RoomForOne})
      if (device == Device::RoomForOne || !hangs)
        EXPECT_EQ(adversary.run(seed, device), !hangs) << seed;
}

const Case cases[] = {
    {"Crossed",
     {"recv b 1, wait b, send a 1, wait a", "recv a 0, wait a, send b 0, wait b"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 1) for the receive of 'b' from rank 1, which rank "
     "1 (role b) sends only after its wait in list 'b' (command 1) for the receive of 'a' from rank 0, which rank 0 "
     "(role a) sends only after its wait in list 'a' (command 1)"},
    {"CrossedWellOrdered", {"send a 1, wait a, recv b 1, wait b", "recv a 0, wait a, send b 0, wait b"}, {}, ""},
    // pytorch#172668: rank 0 runs 0SEND_F1, 2RECV_F0 and rank 1 runs 1SEND_F0, 1RECV_F1.
    {"BothSendFirst",
     {"send F1 1, recv F0 1, wait F0, wait F1", "send F0 0, recv F1 0, wait F1, wait F0"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 2) for the receive of 'F0' from rank 1, which rank "
     "0 (role a) has on channel 0 behind the send of 'F1' to rank 1 that it starts in list 'a' (command 0), which rank "
     "1 (role b) has on channel 0 behind the send of 'F0' to rank 0 that it starts in list 'b' (command 0), which rank "
     "0 (role a) has on channel 0 behind the send of 'F1' to rank 1"},
    {"BothReceiveFirst",
     {"recv F0 1, send F1 1, wait F0, wait F1", "recv F1 0, send F0 0, wait F1, wait F0"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 2) for the receive of 'F0' from rank 1, which rank "
     "1 (role b) has on channel 0 behind the receive of 'F1' from rank 0 that it starts in list 'b' (command 0), which "
     "rank 0 (role a) has on channel 0 behind the receive of 'F0' from rank 1 that it starts in list 'a' (command 0), "
     "which rank 1 (role b) has on channel 0 behind the receive of 'F1' from rank 0"},
    {"BothSendFirstOnTwoChannels",
     {"send F1 1 on 0, recv F0 1 on 1, wait F0, wait F1", "send F0 0 on 1, recv F1 0 on 0, wait F1, wait F0"},
     {{0}, {1}},
     ""},
    {"GroupsInDifferentOrder",
     {"sum a on 0, sum b on 1, wait a, wait b", "sum b on 1, sum a on 0, wait a, wait b"},
     {{0}, {1}},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 2) for the all-reduce of 'a' over ranks 0, 1, "
     "which rank 1 (role b) has in the order of starts behind the all-reduce of 'b' over ranks 0, 1 that it starts in "
     "list 'b' (command 0), which rank 0 (role a) has in the order of starts behind the all-reduce of 'a' over ranks "
     "0, 1 that it starts in list 'a' (command 0), which rank 1 (role b) has in the order of starts behind the "
     "all-reduce of 'b' over ranks 0, 1"},
    {"CollectiveUnderAWait",
     {"recv x 1, wait x, sum a, wait a", "sum a, wait a, send x 0, wait x"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 1) for the receive of 'x' from rank 1, which rank "
     "1 (role b) sends only after its wait in list 'b' (command 1) for the all-reduce of 'a' over ranks 0, 1, which "
     "rank 0 (role a) starts only after its wait in list 'a' (command 1)"},
    {"ChannelsInOppositeOrders",
     {"send a 1 on 0, wait a, send b 1 on 1, wait b", "recv b 0 on 1, wait b, recv a 0 on 0, wait a"},
     {{0}, {1}},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 1) for the send of 'a' to rank 1, which rank 1 "
     "(role b) receives only after its wait in list 'b' (command 1) for the receive of 'b' from rank 0, which rank 0 "
     "(role a) sends only after its wait in list 'a' (command 1)"},
    // As in pytorch#188833, a receive that is posted early holds up the sends behind it. There it costs time; here what
    // is received needs one of them.
    {"PrefetchedReceive",
     {"recv y 1, send x 1, wait x, wait y", "recv x 0, wait x, send y 0, wait y"},
     {},
     "its step can hang: rank 1 (role b) waits in list 'b' (command 1) for the receive of 'x' from rank 0, which rank "
     "0 (role a) has on channel 0 behind the receive of 'y' from rank 1 that it starts in list 'a' (command 0), which "
     "rank 1 (role b) sends only after its wait in list 'b' (command 1)"},
    {"PrefetchedReceiveOnItsOwnChannel",
     {"recv y 1 on 1, send x 1 on 0, wait x, wait y", "recv x 0 on 0, wait x, send y 0 on 1, wait y"},
     {{0}, {1}},
     ""},
    // As in pytorch#165664, a receive is posted where its sender was scheduled. There it costs time, too.
    {"ReceivePostedWhereItsSenderWasScheduled",
     {"send f 1, wait f", "recv f 0, wait f, recv b 2, send g 2, wait g, wait b", "recv g 1, wait g, send b 1, wait b"},
     {},
     "its step can hang: rank 2 (role c) waits in list 'c' (command 1) for the receive of 'g' from rank 1, which rank "
     "1 (role b) has on channel 0 behind the receive of 'b' from rank 2 that it starts in list 'b' (command 2), which "
     "rank 2 (role c) sends only after its wait in list 'c' (command 1)"},
    {"TokenStillUnderWay",
     {"send x 1, send x 1, wait x", "recv x 0, recv x 0, wait x"},
     {},
     "in its step rank 0 starts the send of 'x' to rank 1 in list 'a' (command 1) while the send of 'x' to rank 1, "
     "which it started in list 'a' (command 0) with the same token, is still to be waited for"},
    {"TokenOfACopyStillUnderWay",
     {"copy x, copy x, wait x"},
     {},
     "in its step rank 0 starts a copy in list 'a' (command 1) while a copy, which it started in list 'a' (command 0) "
     "with the same token, is still to be waited for"},
    {"NothingStarted", {"wait x"}, {}, "in its step rank 0 waits in list 'a' (command 0) for what nothing has started"},
    {"NeverWaitedFor",
     {"sum a", "sum a"},
     {},
     "in its step rank 0 never waits for the all-reduce of 'a' over ranks 0, 1 that it starts in list 'a' (command 0)"},
    {"CopyNeverWaitedFor",
     {"copy a"},
     {},
     "in its step rank 0 never waits for the copy that it starts in list 'a' (command 0)"},
    {"WarmUpLongerThanTheStep",
     {"send f 1, wait f", "recv f 0, wait f, recv f 0, wait f"},
     {},
     "its step can hang: rank 1 (role b) waits in list 'b' (command 3) for the receive of 'f' from rank 0, which rank "
     "0 (role a) never sends"},
    {"SentToNobody",
     {"send f 1, wait f", "copy c, wait c"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 1) for the send of 'f' to rank 1, which rank 1 "
     "(role b) never receives"},
    {"OtherKinds",
     {"sum a, wait a", "gather a, wait a"},
     {},
     "in its step the all-gather of 'a' over ranks 0, 1 that rank 1 starts in list 'b' (command 0) meets the "
     "all-reduce of 'a' over ranks 0, 1 that rank 0 starts in list 'a' (command 0): they differ in kinds"},
    {"NotAllOfAGroup",
     {"sum a, wait a", "sum a, wait a", "copy c, wait c"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 1) for the all-reduce of 'a' over ranks 0, 1, 2, "
     "which rank 2 (role c) never starts"},
    {"SomeOfAGroup", {"sum a on 0, wait a", "copy c, wait c", "sum a on 0, wait a"}, {{0, {0, 2}}}, ""},
    {"NoMember",
     {"sum a on 0, wait a", "sum a on 0, wait a", "sum a on 0, wait a"},
     {{0, {0, 2}}},
     "rank 1 is no member of group 0, which its lists name"},
    // Megatron-LM#5100: all ranks of a ring send to the one before, receive from it, and only then turn to the next.
    {"FixedOrderOfNeighbours",
     {"send s0 3, recv r0 3, send t0 1, recv u0 1, wait s0, wait r0, wait t0, wait u0",
      "send s1 0, recv r1 0, send t1 2, recv u1 2, wait s1, wait r1, wait t1, wait u1",
      "send s2 1, recv r2 1, send t2 3, recv u2 3, wait s2, wait r2, wait t2, wait u2",
      "send s3 2, recv r3 2, send t3 0, recv u3 0, wait s3, wait r3, wait t3, wait u3"},
     {},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 4) for the send of 's0' to rank 3, which rank 3 "
     "(role d) has on channel 0 behind the send of 's3' to rank 2 that it starts in list 'd' (command 0), which rank 2 "
     "(role c) has on channel 0 behind the send of 's2' to rank 1 that it starts in list 'c' (command 0), which rank 1 "
     "(role b) has on channel 0 behind the send of 's1' to rank 0 that it starts in list 'b' (command 0), which rank 0 "
     "(role a) has on channel 0 behind the send of 's0' to rank 3 that it starts in list 'a' (command 0), which rank 3 "
     "(role d) has on channel 0 behind the send of 's3' to rank 2"},
    {"ThreeOrders",
     {"sum a on 0, sum b on 1, wait a, wait b", "sum b on 1, sum c on 2, wait b, wait c",
      "sum c on 2, sum a on 0, wait c, wait a"},
     {{0, {0, 2}}, {1, {0, 1}}, {2, {1, 2}}},
     "its step can hang: rank 0 (role a) waits in list 'a' (command 2) for the all-reduce of 'a' over ranks 0, 2, "
     "which rank 2 (role c) has in the order of starts behind the all-reduce of 'c' over ranks 1, 2 that it starts in "
     "list 'c' (command 0), which rank 1 (role b) has in the order of starts behind the all-reduce of 'b' over ranks "
     "0, 1 that it starts in list 'b' (command 0), which rank 0 (role a) has in the order of starts behind the "
     "all-reduce of 'a' over ranks 0, 2 that it starts in list 'a' (command 0), which rank 2 (role c) has in the order "
     "of starts behind the all-reduce of 'c' over ranks 1, 2"},
};

INSTANTIATE_TEST_SUITE_P(Sets, HandWritten, testing::ValuesIn(cases),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
