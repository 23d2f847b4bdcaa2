// The launchers of a job's other hosts, and what the first one tells them.
#include "runtime/job/roster.h"
#include "runtime/job/server.h"
#include "test/runtime/job/support.h"

#include <gmock/gmock.h>
#include <thread>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;
using testing::ElementsAre;

namespace {

class NodesTest : public testing::Test {
protected:
  NodesTest() {
    ServerOptions options = serverOptions(key, 6);
    options.node = NodePlace{0, 3, 2, "program"};
    server = std::make_unique<Server>(options);
  }

  static NodeHello helloOf(int node) {
    NodeHello hello;
    hello.set_version(ProtocolVersion);
    hello.set_node(node);
    hello.set_nodes(3);
    hello.set_ranks(node);
    hello.set_host_name("host" + std::to_string(node));
    hello.set_program("program");
    return hello;
  }
  Session come(const NodeHello &hello) const {
    auto words = [&](const std::string &) { return NodeWords + hello.SerializeAsString(); };
    return call(server->endpoint(), "", key, words, in(5s));
  }
  /// What it is told when it comes.
  std::string refusal(const NodeHello &hello) const {
    Session session = come(hello);
    std::optional<Message> message = session.await(in(5s));
    return message && message->has_refusal() ? message->refusal() : "it is taken";
  }

  Key key = randomKey();
  std::unique_ptr<Server> server;
};

TEST_F(NodesTest, OthersAreRefusedWithTheReason) {
  NodeHello hello = helloOf(1);
  hello.set_nodes(4);
  EXPECT_EQ(refusal(hello), "it was started with --nnodes 4, the first node with 3");
  for (int node : {-1, 0, 3})
    EXPECT_EQ(refusal(helloOf(node)), "its --node-rank " + std::to_string(node) + " is not one of 1 to 2");
  hello = helloOf(1);
  hello.set_program("another");
  EXPECT_THAT(refusal(hello), HasSubstr("its program (another) is not the first node's (program)"));
  hello = helloOf(1);
  hello.set_version(ProtocolVersion + 1);
  EXPECT_THAT(refusal(hello), HasSubstr("another version of dtc"));
  EXPECT_THAT(errorOf([&] { server->nodes()->awaitAll(in(50ms)); }), HasSubstr("these did not join in time: 1, 2;"));
}

TEST_F(NodesTest, TheFirstOfTwoWithOneNumberStays) {
  Session first = come(helloOf(2));
  EXPECT_EQ(refusal(helloOf(2)), "node 2 has already joined, from host2; give each its own --node-rank");
  Session second = come(helloOf(1));
  EXPECT_THAT(server->nodes()->awaitAll(in(5s)), ElementsAre(2, 1, 2));
  server->nodes()->start(4);
  for (auto [session, firstRank] : {std::pair(&first, 3), std::pair(&second, 2)}) {
    std::optional<Message> message = session->await(in(5s));
    ASSERT_TRUE(message && message->has_order());
    EXPECT_EQ(message->order().kind(), Order::START);
    EXPECT_EQ(message->order().generation(), 4u);
    EXPECT_EQ(message->order().first_rank(), firstRank);
    EXPECT_EQ(message->order().world(), 5);
  }
}

TEST_F(NodesTest, AReportOfAnEarlierStartIsNone) {
  Session first = come(helloOf(1)), second = come(helloOf(2));
  server->nodes()->awaitAll(in(5s));
  server->nodes()->start(1);
  auto report = [](Session &session, uint32_t generation, int code) {
    Message message;
    message.mutable_report()->set_generation(generation);
    message.mutable_report()->set_exit_code(code);
    message.mutable_report()->set_words("words");
    session.send(message);
  };
  auto resultsWithin = [&](std::chrono::milliseconds time) {
    std::optional<std::vector<NodeResult>> results;
    for (auto end = in(time); !results && Clock::now() < end; std::this_thread::sleep_for(1ms))
      results = server->nodes()->results(1);
    return results;
  };
  report(first, 1, 0);
  report(second, 0, 4);
  EXPECT_FALSE(resultsWithin(100ms));
  report(second, 1, 1);
  auto results = resultsWithin(5s);
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), 2u);
  EXPECT_EQ((*results)[0].exitCode, 0);
  EXPECT_EQ((*results)[1].exitCode, 1);
  EXPECT_EQ((*results)[1].words, "words");
}

TEST_F(NodesTest, ALauncherThatIsGoneIsAFailureOfItsFirstRank) {
  Session first = come(helloOf(1));
  {
    Session second = come(helloOf(2));
    server->nodes()->awaitAll(in(5s));
    server->nodes()->start(0);
  }
  for (auto end = in(RejoinTime + 5s); !server->failure() && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(server->failure());
  EXPECT_EQ(server->failure()->rank, 3);
  EXPECT_THAT(server->failure()->reason, AllOf(HasSubstr("its launcher on host2 (node 2) is gone")));
}

/// The next order that comes, within a while.
std::optional<Order> orderTo(Session &session) {
  std::optional<Message> message = session.await(in(5s));
  return message && message->has_order() ? std::optional(message->order()) : std::nullopt;
}

TEST_F(NodesTest, ALauncherThatComesAgainHearsWhatItHasMissed) {
  Session first = come(helloOf(1));
  NodeHello hello = helloOf(2);
  hello.set_launcher("number");
  std::string job;
  {
    Session second = come(hello);
    server->nodes()->awaitAll(in(5s));
    server->nodes()->start(1);
    std::optional<Order> order = orderTo(second);
    ASSERT_TRUE(order && order->kind() == Order::START);
    job = order->job();
  }
  Order stop;
  stop.set_kind(Order::STOP);
  stop.set_signal(15);
  server->nodes()->tellAll(stop);
  hello.set_job("another start's");
  EXPECT_THAT(refusal(hello), HasSubstr("another start of the job"));
  hello.set_job(job);
  Session again = come(hello);
  std::optional<Order> order = orderTo(again);
  ASSERT_TRUE(order && order->kind() == Order::START);
  EXPECT_EQ(order->generation(), 1u);
  EXPECT_EQ(order->first_rank(), 3);
  order = orderTo(again);
  ASSERT_TRUE(order && order->kind() == Order::STOP);
  EXPECT_EQ(order->signal(), 15);
  std::this_thread::sleep_for(RejoinTime + 200ms);
  EXPECT_FALSE(server->failure()) << server->failure()->reason;
}

TEST_F(NodesTest, OneThatIsGoneIsReplacedForTheNextStart) {
  Session first = come(helloOf(1));
  NodeHello hello = helloOf(2);
  hello.set_launcher("number");
  {
    Session second = come(hello);
    server->nodes()->awaitAll(in(5s));
    server->nodes()->start(0);
  }
  hello.set_launcher("another");
  EXPECT_THAT(refusal(hello), HasSubstr("node 2 has already joined"));
  while (!server->failure())
    std::this_thread::sleep_for(1ms);
  hello.set_ranks(5);
  EXPECT_THAT(refusal(hello), HasSubstr("it starts 5 ranks, the launcher whose place it takes started 2"));
  hello.set_ranks(2);
  EXPECT_THAT(errorOf([&] { server->nodes()->awaitAll(in(50ms)); }), HasSubstr("these did not join in time: 2;"));
  Session second = come(hello);
  EXPECT_THAT(server->nodes()->awaitAll(in(5s)), ElementsAre(2, 1, 2));
  server->begin(1);
  server->nodes()->start(1);
  std::optional<Order> order = orderTo(second);
  ASSERT_TRUE(order && order->kind() == Order::START);
  EXPECT_EQ(order->generation(), 1u);
  // The connection of a launcher that has not reported its ranks is closed, and the launcher comes again.
  server->nodes()->dropSilent(1);
  EXPECT_THAT(errorOf([&] { server->nodes()->awaitAll(in(50ms)); }), HasSubstr("these did not join in time: 1, 2;"));
  Session again = come(hello);
  EXPECT_EQ(orderTo(again)->generation(), 1u);
}

} // namespace
