// What strangers can do to a gate: nothing.
#include "test/runtime/job/support.h"

#include <fcntl.h>
#include <future>
#include <gmock/gmock.h>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;

namespace {

int openFiles() {
  int count = 0;
  for (int number = 0; number < 4096; ++number)
    count += fcntl(number, F_GETFD) >= 0;
  return count;
}

/// Whether a client that knows the key is admitted.
bool letsIn(Gate &gate, const Key &key) {
  Endpoint place = gate.endpoint();
  auto call = std::async(std::launch::async,
                         [&] { return errorOf([&] { knock(connectionTo(place), key, "words", in(10s)); }); });
  bool entered = !admitWithin(gate, 10s).empty();
  return call.get().empty() && entered;
}

TEST(Strangers, AThousandIdleConnectionsTakeABoundedNumberOfFiles) {
  Key key = randomKey();
  Gate gate = gateWith(key);
  std::vector<Descriptor> idle;
  int before = openFiles();
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(connectionTo(gate.endpoint()));
    gate.admit();
  }
  EXPECT_LE(openFiles() - before - 1000, int(Gate::MostWaiting));
  EXPECT_TRUE(letsIn(gate, key));
}

TEST(Strangers, GarbageIsDroppedAndOthersAreLetIn) {
  Key key = randomKey();
  Gate gate = gateWith(key);
  std::vector<Descriptor> strangers;
  for (std::string_view bytes : {std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("\0\0\0\0", 4),
                                 std::string_view("\xff\xff\xff\xff zzz", 8), std::string_view("\x05\0\0\0", 4)}) {
    strangers.push_back(connectionTo(gate.endpoint()));
    sendText(strangers.back().get(), std::string(bytes) + std::string(40, 'g'));
  }
  strangers.push_back(connectionTo(gate.endpoint()));
  sendText(strangers.back().get(), std::string(1 << 20, '\0')); // messages without a length, and then a flood
  EXPECT_TRUE(letsIn(gate, key));
  EXPECT_TRUE(admitWithin(gate, 100ms).empty());
}

/// The recorded bytes of an admitted session, replayed to the gate.
TEST(Strangers, ARecordedSessionIsWorthNothing) {
  Key key = randomKey();
  Gate gate = gateWith(key);
  Descriptor wire = listenAt({"127.0.0.1", 0}); // an eavesdropper between the two, who copies
  Endpoint between = localEndpoint(wire.get());
  auto call = std::async(std::launch::async,
                         [&] { return errorOf([&] { knock(connectionTo(between), key, "words", in(5s)); }); });
  ASSERT_TRUE(awaitReadable(wire.get(), in(5s)));
  Descriptor caller(accept4(wire.get(), nullptr, nullptr, SOCK_NONBLOCK)), listener = connectionTo(gate.endpoint());
  gate.admit();
  sendText(caller.get(), receiveText(listener.get()));
  std::string recorded = receiveText(caller.get());
  sendText(listener.get(), recorded);
  EXPECT_EQ(admitWithin(gate, 5s).size(), 1u);
  sendText(caller.get(), receiveText(listener.get()));
  EXPECT_EQ(call.get(), "");

  Descriptor again = connectionTo(gate.endpoint());
  gate.admit();
  receiveText(again.get());
  sendText(again.get(), recorded);
  EXPECT_TRUE(admitWithin(gate, 300ms).empty());
  EXPECT_EQ(receiveText(again.get()), "-");
}

TEST(Strangers, APortThatIsTakenAndAForeignAddressAreTold) {
  Descriptor first = listenAt({"127.0.0.1", 0});
  EXPECT_THAT(errorOf([&] { listenAt(localEndpoint(first.get())); }),
              testing::AllOf(testing::StartsWith("1: "), testing::HasSubstr("the port is taken")));
  EXPECT_THAT(errorOf([] { listenAt({"203.0.113.7", 0}); }),
              testing::AllOf(testing::StartsWith("3: "), testing::HasSubstr("no address of this machine")));
  EXPECT_THAT(errorOf([] { listenAt({"no-such-host.invalid", 0}); }), testing::StartsWith("3: "));
  EXPECT_THAT(errorOf([] { addressOf("eth99"); }), testing::HasSubstr("there is no interface 'eth99'"));
  EXPECT_EQ(addressOf("lo"), "127.0.0.1");
}

TEST(Endpoint, IsHostAndPort) {
  EXPECT_EQ(parseEndpoint("node1:29400", "it").text(), "node1:29400");
  EXPECT_EQ(parseEndpoint("[::1]:80", "it").host, "::1");
  EXPECT_EQ(parseEndpoint("[::1]:80", "it").text(), "[::1]:80");
  for (const char *text : {"", "node1", "node1:", ":80", "node1:0", "node1:65536", "node1:8x", "::1:80", "[]:80"})
    EXPECT_THAT(errorOf([&] { parseEndpoint(text, "DTC_MASTER"); }), testing::HasSubstr("DTC_MASTER is '")) << text;
}

} // namespace
