// Where a value that is not finite came from.
#include "test/runtime/executor/hand_written.h"

#include <cmath>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::HasSubstr;

TEST(ExecutorTest, TheDiagnosticReplayNamesTheFirstLaunchWithANonFiniteOutput) {
  Program program(2);
  program.launchSetInteger(N)->add_scalars()->set_value(-100); // as a float, a NaN; but an integer
  program.launchScaleAdd(X, Y, 1.0, 0);
  program.launchScaleAdd(Y, Y, 1e30, 1); // overflows on rank 1
  program.start(Y, 1, 0);
  program.wait(1);
  program.launchScaleAdd(Y, X, 1.0, 0); // by now infinite on both ranks
  onEveryRank(program, [](Executor &executor) {
    std::vector<float> x(16);
    x[9] = executor.rank() == 1 ? -2e30F : 0.0F;
    executor.write(executor.tensor("x"), x);
    std::optional<NonFinite> found = executor.runChecked(executor.entryOf("main"));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->command, executor.rank() == 1 ? 2u : 5u);
    EXPECT_EQ(found->location, executor.rank() == 1 ? "h.1" : "h.0");
    EXPECT_EQ(found->kernel, "scale_add");
    EXPECT_EQ(found->element, 9);
    EXPECT_EQ(found->output, 0u);
    EXPECT_TRUE(std::isinf(found->value));
    fill(executor, "x", 1e-30f);
    EXPECT_FALSE(executor.runChecked(executor.entryOf("main")));
  });
}

// The device's memory is read in pieces; here in three.
TEST(ExecutorTest, TheDiagnosticReplayLooksAtAllOfALargeBuffer) {
  constexpr int64_t elements = 600000;
  for (int64_t bad : {int64_t(0), int64_t(262144), elements - 1}) {
    Program program(1);
    abi::Role &role = *program.manifest.mutable_roles(0);
    role.set_arena_bytes(16384 + 4 * elements);
    uint64_t large = abi::addressOf(addSpace(role, abi::Space::REGISTERED, 16384, 4 * elements), 0);
    role.mutable_tensors(0)->set_local_shape(0, elements);
    role.mutable_tensors(0)->set_address(large);
    program.launchScaleAdd(large, large, 1.0, 0);
    abi::Launch &launch = *program.manifest.mutable_lists(0)->mutable_commands(0)->mutable_launch();
    launch.set_grid(elements);
    for (int buffer : {0, 1})
      launch.set_buffer_bytes(buffer, 4 * elements);
    onEveryRank(program, [bad](Executor &executor) {
      std::vector<float> x(elements);
      x[bad] = -INFINITY;
      executor.write(executor.tensor("x"), x);
      std::optional<NonFinite> found = executor.runChecked(executor.entryOf("main"));
      ASSERT_TRUE(found);
      EXPECT_EQ(found->element, bad);
      EXPECT_EQ(found->value, -INFINITY);
    });
  }
}

/// The bits of an infinity in bf16 and in f16, as the types say and as i32 or masks.
TEST(ExecutorTest, TheDiagnosticReplayReadsBuffersAsTheirTypes) {
  struct Case {
    abi::DataType type;
    uint32_t bits;
    std::optional<int64_t> found;
    double value;
  };
  for (Case each :
       {Case{abi::F32, 0xff800000, 0, -INFINITY}, Case{abi::F32, 0xffff0001, 0, NAN}, Case{abi::I32, 0x7f800000, {}, 0},
        Case{abi::MASK, 0xff800000, {}, 0}, Case{abi::BF16, 0x7f801234, 1, INFINITY},
        Case{abi::BF16, 0x12347c00, {}, 0}, Case{abi::F16, 0x12347c00, 0, INFINITY}, Case{abi::F16, 0x7f803c00, 1, NAN},
        Case{abi::I8, 0x7f80ffff, {}, 0}}) {
    Program program(1);
    abi::Launch *launch = program.launchSetInteger(N);
    launch->add_scalars()->set_value(static_cast<int32_t>(each.bits));
    launch->set_buffer_types(0, each.type);
    onEveryRank(program, [&](Executor &executor) {
      std::optional<NonFinite> found = executor.runChecked(executor.entryOf("main"));
      ASSERT_EQ(found.has_value(), each.found.has_value()) << abi::nameOf(each.type) << " " << each.bits;
      if (!found)
        return;
      EXPECT_EQ(found->element, *each.found) << abi::nameOf(each.type) << " " << each.bits;
      EXPECT_EQ(std::isnan(found->value), std::isnan(each.value));
      if (!std::isnan(each.value))
        EXPECT_EQ(found->value, each.value);
    });
  }
}

} // namespace
} // namespace dtc::test
