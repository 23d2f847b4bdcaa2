// Connections that are not answered for a while.
#include "test/runtime/job/support.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <thread>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;

namespace {

constexpr int LongestPauseOption = 44; // TCP_RTO_MAX_MS

class PersistenceTest : public testing::Test {
protected:
  PersistenceTest() {
    Descriptor listening = listenAt({"127.0.0.1", 0});
    sender = connectionTo(localEndpoint(listening.get()));
    EXPECT_TRUE(awaitReadable(listening.get(), in(5s)));
    receiver = Descriptor(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  /// Nothing arrives at the receiver's system, as if the link were cut.
  void cut() const {
    sock_filter dropAll = {BPF_RET | BPF_K, 0, 0, 0};
    sock_fprog program = {1, &dropAll};
    ASSERT_EQ(setsockopt(receiver.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
  }
  void mend() const {
    int unused = 0;
    ASSERT_EQ(setsockopt(receiver.get(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)), 0);
  }
  void lookFor(std::chrono::milliseconds time, Persistence &persistence) const {
    for (auto end = in(time); Clock::now() < end; std::this_thread::sleep_for(100ms))
      persistence.look(sender.get(), Clock::now());
  }
  bool setLongestPause(int milliseconds) const {
    return setsockopt(sender.get(), IPPROTO_TCP, LongestPauseOption, &milliseconds, sizeof(milliseconds)) == 0;
  }

  Descriptor sender, receiver;
};

// By itself the system would try after some 0.2, 0.6, 1.4, 3 and 6.2 s.
TEST_F(PersistenceTest, TheNextAttemptIsSoonOnASystemThatCannotBeTold) {
  configure(sender.get(), 5s);
  setLongestPause(120'000); // as before Linux 6.15
  Persistence persistence(5s);
  cut();
  sendText(sender.get(), "word");
  lookFor(4s, persistence);
  mend();
  lookFor(1200ms, persistence);
  EXPECT_EQ(receiveText(receiver.get(), 0ms), "word");
}

TEST_F(PersistenceTest, TheNextAttemptIsSoonOnASystemThatIsTold) {
  if (!setLongestPause(5000))
    GTEST_SKIP() << "before Linux 6.15";
  configure(sender.get(), 45s);
  cut();
  sendText(sender.get(), "word");
  std::this_thread::sleep_for(4s);
  mend();
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(receiveText(receiver.get(), 0ms), "word");
}

// Its system answers all the time: it has no room.
TEST_F(PersistenceTest, APeerThatDoesNotReadForLongIsNotGivenUp) {
  configure(sender.get(), 100ms);
  Persistence persistence(100ms);
  std::string much(1 << 20, 'x');
  size_t sent = 0;
  for (ssize_t count; (count = send(sender.get(), much.data(), much.size(), MSG_NOSIGNAL)) > 0;)
    sent += count;
  lookFor(7s, persistence);
  std::string come;
  while (come.size() < sent) {
    std::string more = receiveText(receiver.get(), 2s);
    ASSERT_FALSE(more.empty()) << come.size() << " of " << sent << " bytes came";
    come += more;
  }
}

} // namespace
