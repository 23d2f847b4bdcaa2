// Ranks of one host of a larger job are named by their numbers in the job.
#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"
#include "test/conformance/behaviour.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace dtc::test {
namespace {

/// The exception of the first of two ranks, which are the job's 4 and 5, while the second does what it is told.
std::string failureBeside(const std::function<void(Communicator &)> &first,
                          const std::function<void(Communicator &)> &second) {
  InProcessJob job(2, {4, 5});
  Arena arenas[2] = {{1 << 20, 0}, {1 << 20, 0}};
  std::thread other([&] {
    auto communicator = job.join(1, arenas[1]);
    try {
      second(*communicator);
    } catch (const Error &) {
    }
  });
  std::string failure;
  {
    auto communicator = job.join(0, arenas[0]);
    try {
      first(*communicator);
    } catch (const Error &error) {
      failure = error.what();
    }
  }
  other.join();
  return failure;
}

TEST(NamesOfRanks, ThatLeave) {
  auto wait = [](Communicator &communicator) { communicator.barrier(); };
  EXPECT_THAT(failureBeside(wait, [](Communicator &) {}), testing::HasSubstr("rank 5 was lost"));
}

TEST(NamesOfRanks, ThatGiveUp) {
  auto wait = [](Communicator &communicator) { communicator.barrier(); };
  auto poison = [](Communicator &communicator) { communicator.poison("disk full"); };
  EXPECT_THAT(failureBeside(wait, poison), testing::HasSubstr("rank 5 was lost: disk full"));
}

TEST(NamesOfRanks, ThatDisagree) {
  auto reduce = [](int elements) {
    return [elements](Communicator &communicator) {
      communicator.run(groupOf({0, 1}, communicator.rank()), allReduce(elements));
    };
  };
  // The other may be told first, and leave.
  EXPECT_THAT(failureBeside(reduce(8), reduce(9)),
              testing::AnyOf(testing::HasSubstr("ranks 4 and 5 disagree"), testing::HasSubstr("rank 5 was lost")));
}

TEST(NamesOfRanks, ThatDoNotStart) {
  std::vector<std::byte> memory(ControlBlock::bytesFor(2) + 64);
  void *aligned = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) % 64);
  ControlBlock control(aligned, 2, 0, [](int) { return true; }, {4, 5});
  control.join({});
  try {
    control.awaitAll(std::chrono::milliseconds(10));
    ADD_FAILURE() << "there are two of one";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 5 of this host did not start"));
  }
}

} // namespace
} // namespace dtc::test
