// What ranks on GPUs do when one of them is lost or does not come: on stand-ins for NVIDIA's driver and for NCCL.
#include "test/conformance/behaviour.h"
#include "test/conformance/gpu_rank.h"
#include "test/gpu/variable.h"
#include "test/runtime/temporary_directory.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {
namespace {

using namespace std::chrono_literals;

class NcclFailure : public testing::Test {
protected:
  NcclFailure() {
    abi::Axis &axis = *program.mutable_mesh()->add_axes();
    axis.set_name("dp");
    axis.set_size(2);
    abi::AxisRef &whole = *program.add_groups()->add_axes();
    whole.set_axis("dp");
    whole.set_pre(1);
    whole.set_size(2);
    program.add_locations("h.0.mlp");
  }

  /// Rank 0 starts a sum and looks at its result, rank 1 does something else. Returns what rank 0's watchdog reports.
  std::string watchedWhile(std::chrono::milliseconds timeout, const std::function<void()> &other) {
    runRanks(Bootstrap::Processes, {2}, [&](Communicator &host, Arena &arena) {
      auto end = [&](const Error &error) {
        if (host.rank() == 0)
          std::ofstream(words) << static_cast<int>(error.exitCode()) << ": " << error.what() << std::flush;
        std::_Exit(0);
      };
      GpuRank rank(host, arena, program, {.onFailure = end, .timeout = timeout});
      host.barrier();
      if (host.rank() == 1) {
        other();
        std::_Exit(0);
      }
      rank.run(groupOf({0, 1}, 0), allReduce(10));
      std::ofstream(words) << "the sum is there" << std::flush;
    });
    return readFile(words);
  }

  abi::Manifest program;
  TemporaryDirectory directory;
  std::string words = directory / "words";
};

TEST_F(NcclFailure, WhatNcclHasNoFunctionForIsSaid) {
  auto failures = runRanks(Bootstrap::Processes, {2}, [&](Communicator &host, Arena &arena) {
    CommunicatorCapabilities can = GpuRank(host, arena, program, {}).capabilities();
    if (!can.strided || can.weightedRows || can.unevenParts)
      throw Error("it is said to");
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

TEST_F(NcclFailure, ADeadRankIsNamedAndWhatWasUnderWay) {
  EXPECT_THAT(watchedWhile(60s, [] { raise(SIGKILL); }),
              AllOf(HasSubstr("4: rank 1 was lost: its process died"),
                    HasSubstr("; under way was the all-reduce of 'gradients' at h.0.mlp")));
}

TEST_F(NcclFailure, ACommandThatNobodyElseStartsIsNamed) {
  EXPECT_THAT(watchedWhile(1s, [] { std::this_thread::sleep_for(4s); }),
              AllOf(HasSubstr("4: a command has not ended within 1 s"), HasSubstr("all-reduce of 'gradients'")));
}

// The second command is waited for first, and the stand-in may run it first.
TEST_F(NcclFailure, TwoCommandsInFlightHaveOneOrder) {
  abi::Group &other = *program.add_groups();
  other = program.groups(0);
  other.set_channel(1);
  for (const char *version : {"21800", "22809"}) {
    Variable variable("DTC_STAND_IN_NCCL_VERSION", version);
    auto failures = runRanks(Bootstrap::Processes, {2}, [&](Communicator &host, Arena &arena) {
      GpuRank rank(host, arena, program, {});
      std::vector<abi::Command> commands = {allReduce(1, 4096), allReduce(1, 8192)};
      std::vector<CommandHandle> handles;
      for (uint32_t channel : {0, 1}) {
        float one = 1;
        std::memcpy(arena.base() + commands[channel].start().input(), &one, sizeof one);
        handles.push_back(rank.start(groupOf({0, 1}, host.rank(), channel), commands[channel]));
      }
      for (uint32_t channel : {1, 0}) {
        rank.wait(handles[channel]);
        float sum = 0;
        std::memcpy(&sum, arena.base() + commands[channel].start().output(), sizeof sum);
        if (sum != 2)
          throw std::runtime_error("a wrong sum");
      }
    });
    EXPECT_EQ(failures, std::vector<std::string>(2)) << version;
  }
}

// In Megatron-LM#5240 ranks make communicators in an order of their own, that of their messages, and wait for each
// other for ever. Here ranks are left out of groups that come before theirs. A group of one needs no communicator.
TEST_F(NcclFailure, AllRanksMakeGroupsInOneOrder) {
  const std::vector<std::vector<int>> groups = {{0, 1}, {1}, {1, 2}, {0, 2}};
  program.mutable_mesh()->mutable_axes(0)->set_size(3);
  abi::Group whole = program.groups(0);
  whole.mutable_axes(0)->set_size(3);
  program.clear_groups();
  for (uint32_t channel = 0; channel < groups.size(); ++channel) {
    abi::Group &group = *program.add_groups();
    group = whole;
    group.set_channel(channel);
    for (int member : groups[channel])
      group.add_members(static_cast<uint32_t>(member));
  }
  auto failures = runRanks(Bootstrap::Processes, {3}, [&](Communicator &host, Arena &arena) {
    alarm(60); // ends a rank that waits for ever
    GpuRank rank(host, arena, program, {});
    auto &value = *reinterpret_cast<float *>(arena.base() + 4096);
    for (uint32_t channel = 0; channel < groups.size(); ++channel) {
      const std::vector<int> &members = groups[channel];
      if (std::ranges::find(members, host.rank()) == members.end())
        continue;
      float expected = 0;
      for (int member : members)
        expected += static_cast<float>(1 << member);
      value = static_cast<float>(1 << host.rank());
      rank.run(groupOf(members, host.rank(), channel), allReduce(1));
      if (value != expected)
        throw std::runtime_error("a wrong sum");
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

// Each rank begins to receive before it sends, as a stage does, and meanwhile both run an all-reduce.
TEST_F(NcclFailure, AReceiveThatWaitsHoldsUpNothingElse) {
  abi::Command receive, send;
  receive.mutable_recv()->set_buffer(8192);
  send.mutable_send()->set_buffer(12288);
  for (abi::Transfer *transfer : {receive.mutable_recv(), send.mutable_send()}) {
    transfer->set_shift(1);
    transfer->set_elements(1);
  }
  abi::CommandList &list = *program.add_lists();
  for (uint32_t direction : {1, 2}) {
    abi::Group &group = *program.add_groups();
    group = program.groups(0);
    group.set_channel(direction);
    *list.add_commands() = send;
    list.mutable_commands()->rbegin()->mutable_send()->set_group(direction);
    program.add_stages();
  }
  for (const char *version : {"21800", "22809"}) {
    Variable variable("DTC_STAND_IN_NCCL_VERSION", version);
    auto failures = runRanks(Bootstrap::Processes, {2}, [&](Communicator &host, Arena &arena) {
      auto end = [&](const Error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(1);
      };
      GpuRank rank(host, arena, program, {.onFailure = end, .timeout = 10s});
      auto at = [&](uint64_t offset) -> float & { return *reinterpret_cast<float *>(arena.base() + offset); };
      at(4096) = 1, at(12288) = float(7 + host.rank());
      uint32_t mine = 1 + uint32_t(host.rank()), theirs = 3 - mine;
      CommandHandle received = rank.start(groupOf({0, 1}, host.rank(), theirs), receive);
      rank.run(groupOf({0, 1}, host.rank()), allReduce(1));
      CommandHandle sent = rank.start(groupOf({0, 1}, host.rank(), mine), send);
      rank.wait(received);
      rank.wait(sent);
      if (at(4096) != 2 || at(8192) != float(8 - host.rank()))
        throw std::runtime_error("something else came");
    });
    EXPECT_EQ(failures, std::vector<std::string>(2)) << version;
  }
}

TEST(NcclLibrary, APipelineIsNotGivenTheOrderOfItsCalls) {
  Variable variable("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  EXPECT_NO_THROW(nccl::Library(/*hasPipeline=*/false));
  try {
    nccl::Library library(/*hasPipeline=*/true);
    ADD_FAILURE() << "it was taken";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("NCCL_LAUNCH_ORDER_IMPLICIT is '1' in the environment, and a pipeline"));
  }
}

// NCCL allocates memory twice when ranks join here, and a third time at the first command. A program that just fits
// without NCCL is refused with a message of its own, and one that starts continues.
TEST_F(NcclFailure, MemoryIsCountedBesideNcclsOwn) {
  constexpr int Bytes = 8 << 20, Each = 100000;
  auto ending = [&](int more) {
    std::string memory = "memory=" + std::to_string(Bytes + more);
    Variable all("DTC_STAND_IN", memory.c_str()), each("DTC_STAND_IN_NCCL_MEMORY", std::to_string(Each).c_str());
    auto failures = runRanks(Bootstrap::Processes, {2, Bytes}, [&](Communicator &host, Arena &arena) {
      GpuRank rank(host, arena, program, {});
      rank.run(groupOf({0, 1}, host.rank()), allReduce(10));
    });
    return failures[0];
  };
  EXPECT_THAT(ending(Each), HasSubstr("has too little memory: the program's tensors need 8.0 MiB")) << "joining";
  EXPECT_THAT(ending(2 * Each + Each / 2), HasSubstr("NVIDIA's libraries are left 0.1 MiB")) << "the first command";
  EXPECT_EQ(ending(2 * Each + Each * 3 / 2), "");
}

TEST(NcclLibrary, WorksOverTheInterfaceThatIsMeant) {
  for (auto [given, wanted] : {std::pair("lo", "=lo"), std::pair("127.0.0.1", "")}) {
    Variable interface("DTC_INTERFACE", given);
    unsetenv("NCCL_SOCKET_IFNAME");
    nccl::Library library;
    const char *taken = std::getenv("NCCL_SOCKET_IFNAME");
    EXPECT_STREQ(taken ? taken : "", wanted);
  }
}

TEST_F(NcclFailure, AnOldLibraryIsRefused) {
  Variable version("DTC_STAND_IN_NCCL_VERSION", "21500");
  try {
    nccl::Library library;
    ADD_FAILURE() << "it was taken";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("NCCL is too old: it is version 2.15; install NCCL 2.18 or later"),
                                    HasSubstr("--share-gpu")));
  }
}

} // namespace
} // namespace dtc::test
