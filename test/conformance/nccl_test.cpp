// What ranks on GPUs do when one of them is lost or does not come: on stand-ins for NVIDIA's driver and for NCCL.
#include "test/conformance/behaviour.h"
#include "test/conformance/gpu_rank.h"
#include "test/runtime/temporary_directory.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <thread>

namespace dtc::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

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

  /// Rank 0 starts a sum and looks at its result, rank 1 does something else. Returns what rank 0's watch says.
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

TEST_F(NcclFailure, ADeadRankIsNamedAndWhatWasUnderWay) {
  EXPECT_THAT(watchedWhile(60s, [] { raise(SIGKILL); }),
              AllOf(HasSubstr("4: rank 1 was lost: its process died"),
                    HasSubstr("; under way was the all-reduce of 'gradients' at h.0.mlp")));
}

TEST_F(NcclFailure, ACommandThatNobodyElseStartsIsNamed) {
  EXPECT_THAT(watchedWhile(1s, [] { std::this_thread::sleep_for(4s); }),
              AllOf(HasSubstr("4: a command has not ended within 1 s"), HasSubstr("all-reduce of 'gradients'")));
}

TEST_F(NcclFailure, AnOldLibraryIsRefused) {
  setenv("DTC_STAND_IN_NCCL_VERSION", "21500", 1);
  try {
    nccl::Library library;
    ADD_FAILURE() << "it was taken";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("NCCL is too old: it is version 2.15; install NCCL 2.18 or later"),
                                    HasSubstr("--share-gpu")));
  }
  unsetenv("DTC_STAND_IN_NCCL_VERSION");
}

} // namespace
} // namespace dtc::test
