#include "test/runtime/job/support.h"

#include <future>
#include <gmock/gmock.h>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;

namespace {

/// Both ends of a connection that share `key`.
struct Ends {
  Session caller, listener;
};

Ends meet(const Key &key) {
  Gate gate = gateWith(key);
  Endpoint place = gate.endpoint();
  auto call = std::async(std::launch::async, [&] { return knock(connectionTo(place), key, "words", in(5s)); });
  std::vector<Gate::Guest> guests = admitWithin(gate, 5s);
  EXPECT_EQ(guests.at(0).words, "words");
  return {call.get(), std::move(guests.at(0).session)};
}

Message refusal(const std::string &text) {
  Message message;
  message.set_refusal(text);
  return message;
}

TEST(Session, CarriesMessagesBothWaysInOrder) {
  Ends ends = meet(randomKey());
  for (int i = 0; i < 100; ++i) {
    ends.caller.send(refusal("to " + std::to_string(i)));
    ends.listener.send(refusal("back " + std::to_string(i)));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ends.listener.await(in(5s))->refusal(), "to " + std::to_string(i));
    EXPECT_EQ(ends.caller.await(in(5s))->refusal(), "back " + std::to_string(i));
  }
  EXPECT_EQ(ends.caller.await(in(10ms)), std::nullopt);
}

TEST(Session, CarriesMoreThanTheSystemTakesAtOnce) {
  Ends ends = meet(randomKey());
  std::string much(20 << 20, 'x');
  ends.caller.send(refusal(much));
  EXPECT_TRUE(ends.caller.hasUnsent());
  std::optional<Message> message;
  for (auto end = in(10s); !message && Clock::now() < end;) {
    ends.caller.flush();
    message = ends.listener.await(in(1ms));
  }
  ASSERT_TRUE(message);
  EXPECT_EQ(message->refusal(), much);
}

TEST(Session, TellsItsEndAfterTheLastMessage) {
  Ends ends = meet(randomKey());
  ends.caller.send(refusal("last"));
  ends.caller.takeSocket();
  EXPECT_EQ(ends.listener.await(in(5s))->refusal(), "last");
  EXPECT_THAT(errorOf([&] { ends.listener.await(in(5s)); }), HasSubstr("closed"));
}

TEST(Session, NoticesWhatOthersSlipIn) {
  using namespace std::string_literals;
  // A false tag, a length beyond what is allowed, anything.
  for (const std::string &bytes :
       {"\x05\0\0\0"s + std::string(16, 'A') + "hello", "\xff\xff\xff\x7f" + std::string(20, 'A'),
        "garbage, and more than one header of it"s}) {
    Ends ends = meet(randomKey());
    sendText(ends.caller.socket(), bytes);
    EXPECT_THAT(errorOf([&] { ends.listener.await(in(1s)); }), HasSubstr("message")) << bytes;
  }
}

TEST(Session, NoticesAMessageSentAgain) {
  Key key = randomKey();
  Gate gate = gateWith(key);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  Session sender(Descriptor(pair[0]), key, "nonces", true), receiver(Descriptor(pair[1]), key, "nonces", false);
  sender.send(refusal("once"));
  std::string recorded(4096, '\0');
  recorded.resize(static_cast<size_t>(recv(pair[1], recorded.data(), recorded.size(), MSG_PEEK)));
  EXPECT_EQ(receiver.await(in(1s))->refusal(), "once");
  sendText(pair[0], recorded);
  EXPECT_THAT(errorOf([&] { receiver.await(in(1s)); }), HasSubstr("somebody else"));
}

TEST(Knock, IsRefusedWithAnotherToken) {
  Gate gate = gateWith(randomKey());
  Endpoint place = gate.endpoint();
  auto call = std::async(std::launch::async,
                         [&] { return errorOf([&] { knock(connectionTo(place), randomKey(), "words", in(5s)); }); });
  EXPECT_TRUE(admitWithin(gate, 500ms).empty());
  EXPECT_THAT(call.get(), AllOf(StartsWith("3: "), HasSubstr("another token"), HasSubstr("DTC_TOKEN_FILE")));
}

/// A client that connects to a listener of no job.
struct Caller {
  Caller() {
    call = std::async(std::launch::async, [&] {
      return errorOf([&] { knock(connectionTo(localEndpoint(listening.get())), randomKey(), "words", in(5s)); });
    });
    EXPECT_TRUE(awaitReadable(listening.get(), in(5s)));
    accepted = Descriptor(accept(listening.get(), nullptr, nullptr));
  }

  Descriptor listening = listenAt({"127.0.0.1", 0}), accepted;
  std::future<std::string> call; ///< the error that it ends with
};

/// A listener that answers everything with "+" proves no knowledge of the key.
TEST(Knock, RefusesWhoeverDoesNotKnowTheToken) {
  Caller caller;
  sendText(caller.accepted.get(), "dtc job 1\n" + std::string(32, 'n'));
  receiveText(caller.accepted.get());
  sendText(caller.accepted.get(), "+" + std::string(32, 'm'));
  EXPECT_THAT(caller.call.get(), AllOf(StartsWith("3: "), HasSubstr("does not know")));
}

TEST(Knock, RefusesOtherServices) {
  Caller caller;
  sendText(caller.accepted.get(), "SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_THAT(caller.call.get(), AllOf(StartsWith("3: "), HasSubstr("not a job")));
}

} // namespace
