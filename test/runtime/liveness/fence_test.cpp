// Only a fence orders stores that bypass the cache. On x86 the locked instruction that raises a counter happens to
// order them too, so that no result shows a missing fence; therefore this test observes the calls themselves.
#include "runtime/comm/local/in_process.h"
#include "runtime/comm/local/reduce.h"

#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

static thread_local std::string calls; // F: a fence; S: peers are told

// NOLINTBEGIN(bugprone-reserved-identifier): names that the linker's --wrap gives
extern "C" void __real__ZN3dtc11fenceStoresEv();
extern "C" void __wrap__ZN3dtc11fenceStoresEv() {
  calls += 'F';
  __real__ZN3dtc11fenceStoresEv();
}
extern "C" void __real__ZN3dtc12ControlBlock6arriveEjRKSt6vectorIiSaIiEE(void *self, uint32_t lane,
                                                                         const std::vector<int> &members);
extern "C" void __wrap__ZN3dtc12ControlBlock6arriveEjRKSt6vectorIiSaIiEE(void *self, uint32_t lane,
                                                                         const std::vector<int> &members) {
  calls += 'S';
  __real__ZN3dtc12ControlBlock6arriveEjRKSt6vectorIiSaIiEE(self, lane, members);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace dtc {
namespace {

TEST(Fence, EveryCollectiveFencesItsStoresBeforeItTellsPeers) {
  InProcessJob job(2);
  std::array<std::vector<std::string>, 2> seen;
  auto run = [&](int rank) {
    Arena arena(1 << 16, 0);
    auto communicator = job.join(rank, arena);
    for (auto kind : {abi::Collective::ALL_REDUCE, abi::Collective::ALL_GATHER, abi::Collective::REDUCE_SCATTER,
                      abi::Collective::ALL_TO_ALL}) {
      abi::Command command;
      abi::Collective &collective = *command.mutable_start();
      collective.set_kind(kind);
      collective.set_outer(1);
      collective.set_middle(1);
      collective.set_chunk(64);
      collective.set_output(kind == abi::Collective::ALL_REDUCE ? 0 : 1 << 15);
      Group group;
      group.ranks = {0, 1};
      group.self = rank;
      calls.clear();
      communicator->run(group, command);
      seen[rank].push_back(calls);
    }
    communicator->barrier(); // an arena outlives what peers read of it
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  for (const std::vector<std::string> &each : seen)
    EXPECT_THAT(each, testing::ElementsAre("SFS", "SFS", "SFS", "SFS"));
}

TEST(Fence, IsTheInstruction) {
  constexpr std::array<unsigned char, 3> sfence = {0x0f, 0xae, 0xf8};
  const auto *code = reinterpret_cast<const unsigned char *>(&__real__ZN3dtc11fenceStoresEv);
  constexpr size_t enough = 32;
  EXPECT_NE(std::search(code, code + enough, sfence.begin(), sfence.end()), code + enough);
}

} // namespace
} // namespace dtc
