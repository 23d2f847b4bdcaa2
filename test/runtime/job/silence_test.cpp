// How a server treats links that are silent for a while: ranks that talk only to it, and wait for each other.
#include "runtime/job/member.h"
#include "runtime/job/roster.h"
#include "runtime/job/server.h"
#include "test/runtime/job/support.h"

#include <functional>
#include <gmock/gmock.h>
#include <thread>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;

namespace {

constexpr std::chrono::milliseconds watchdog = 2s, cut = watchdog * 4 / 5;

class Silence : public testing::Test {
protected:
  Silence() {
    server.emplace(serverOptions(key, 2));
    for (int rank = 0; rank < 2; ++rank) {
      Hello hello;
      hello.set_version(ProtocolVersion);
      hello.set_rank(rank);
      hello.set_world(2);
      hello.set_watchdog(watchdog.count());
      sessions.push_back(call(
          server->endpoint(), "", key, [&](const std::string &) { return RankWords + hello.SerializeAsString(); },
          in(5s)));
    }
  }
  ~Silence() override {
    for (Session &session : sessions)
      try {
        Message message;
        message.mutable_leave();
        session.send(message);
      } catch (const Error &) { // the job is over
      }
  }

  /// Both ranks report for this long that they wait at the same command, as changed by `change`.
  void speak(std::chrono::milliseconds time, const std::function<bool(int rank, Pulse &)> &change) {
    for (auto end = in(time); Clock::now() < end; std::this_thread::sleep_for(20ms))
      for (int rank = 0; rank < 2; ++rank) {
        Message message;
        Position &position = *message.mutable_pulse()->mutable_position();
        position.set_list(1);
        position.set_progress(1);
        position.set_waiting(true);
        if (change(rank, *message.mutable_pulse()))
          sessions[rank].send(message);
      }
  }
  /// Without any mention of silence.
  void speak(std::chrono::milliseconds time) {
    speak(time, [](int, Pulse &) { return true; });
  }

  /// The failure that a rank has been told; "" while there is none.
  std::string told() {
    while (std::optional<Message> message = sessions[0].receive())
      if (message->has_failure())
        return message->failure().reason();
    return "";
  }

  void endsInTime() {
    speak(watchdog * 7 / 10); // longer than the watchdog since they first waited
    EXPECT_EQ(told(), "");
    speak(watchdog);
    EXPECT_THAT(told(), HasSubstr("all ranks have waited for each other for 2 s"));
  }

  Key key = randomKey();
  std::optional<Server> server;
  std::vector<Session> sessions;
};

TEST_F(Silence, OfARankGivesAllTheirTimeAnew) {
  speak(cut, [](int rank, Pulse &) { return rank == 0; });
  endsInTime();
}

TEST_F(Silence, BetweenTwoRanksGivesAllTheirTimeAnew) {
  auto begin = Clock::now();
  speak(cut, [&](int rank, Pulse &pulse) {
    pulse.mutable_silence()->set_rank(1 - rank);
    pulse.mutable_silence()->set_milliseconds((Clock::now() - begin) / 1ms);
    return true;
  });
  endsInTime();
}

} // namespace
