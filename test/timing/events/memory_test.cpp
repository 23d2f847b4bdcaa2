#include "timing/events/memory.h"

#include "runtime/abi/addresses.h"

#include <gmock/gmock.h>

using testing::ElementsAre;
using testing::UnorderedElementsAre;

namespace dtc::timing {
namespace {

constexpr uint32_t Private = 0, Registered = 1, Stash = 2;

uint64_t at(uint32_t space, uint64_t offset) { return abi::addressOf(space, offset); }

/// One role whose places begin at multiples of 16: a parameter of 8 bytes, 112 bytes behind it, 64 that peers see, and
/// two places of 32.
class MemoryTest : public testing::Test {
protected:
  MemoryTest() {
    role.set_unit(16);
    addSpace(0, 128, 1, "work");
    addSpace(128, 64, 1, "visible");
    addSpace(192, 32, 2, "stash");
    abi::MemoryUse &parameters = *role.add_memory();
    parameters.set_category("parameters");
    parameters.set_bytes(16);
    for (const char *name : {"work", "visible", "stash"})
      role.add_memory()->set_category(name);
    abi::Tensor &parameter = *role.add_tensors();
    parameter.set_kind(abi::Tensor::PARAMETER);
    parameter.add_local_shape(2);
    role.add_timetables()->set_name("step");
    abi::Kernel &kernel = *manifest.add_kernels();
    kernel.set_inputs(1);
    kernel.set_outputs(1);
    manifest.add_groups();
    list(0);
  }

  void addSpace(uint64_t base, uint64_t stride, uint32_t places, const char *category) {
    abi::Space &space = *role.add_spaces();
    space.set_base(base);
    space.set_stride(stride);
    space.set_places(places);
    space.set_category(category);
  }

  /// A separate list, which the step runs next.
  void list(uint32_t place) {
    std::string name = "list " + std::to_string(manifest.lists_size());
    manifest.add_lists()->set_name(name);
    abi::TimetableEntry &entry = *role.mutable_timetables(0)->add_period();
    entry.set_list(name);
    for (uint32_t each : {0U, 0U, place})
      entry.add_places(each);
  }

  abi::Command &add() { return *manifest.mutable_lists()->rbegin()->add_commands(); }

  /// A kernel that reads and writes 8 bytes each, or this many of what it may write.
  abi::Launch &launch(uint64_t input, uint64_t output, uint64_t bytes = 8, uint64_t written = 8) {
    abi::Command &command = add();
    command.mutable_work()->set_bytes_written(written);
    abi::Launch &launch = *command.mutable_launch();
    for (auto [address, size] : {std::pair(input, uint64_t(8)), {output, bytes}}) {
      launch.add_buffers(address);
      launch.add_buffer_bytes(size);
    }
    return launch;
  }

  StepMemory memory() const { return StepMemory(manifest, role, "step"); }

  abi::Manifest manifest;
  abi::Role &role = *manifest.add_roles();
};

std::vector<uint64_t> live(const StepMemory &memory, uint32_t space) { return memory.categories()[space].live; }
std::vector<uint64_t> extent(const StepMemory &memory, uint32_t space) { return memory.categories()[space].extent; }

TEST_F(MemoryTest, AValueIsInUseFromItsWriteToItsLastRead) {
  launch(0, 16);
  launch(16, at(Registered, 0));
  launch(at(Registered, 0), 32);
  launch(16, 48); // the first value again, and the last time
  launch(48, 48); // in place
  launch(48, 0);  // writes the parameter
  StepMemory memory = this->memory();
  EXPECT_THAT(live(memory, Private), ElementsAre(8, 8, 16, 16, 8, 8));
  EXPECT_THAT(live(memory, Registered), ElementsAre(0, 8, 8, 0, 0, 0));
  EXPECT_THAT(memory.always(), ElementsAre(std::pair("parameters", 16)));
  EXPECT_EQ(memory.peak(), 2u);
  EXPECT_EQ(memory.liveAt(2), 24u);
  EXPECT_THAT(memory.ranges(), UnorderedElementsAre(LiveRange{16, 24, 0, 3}, LiveRange{32, 40, 2, 2},
                                                    LiveRange{48, 56, 3, 5}, LiveRange{128, 136, 1, 2}));
}

// From behind the tensors to the end of the highest, rounded up: what lies below it is reserved, whether in use or not.
TEST_F(MemoryTest, TheExtentIsThatOfThePlan) {
  launch(0, 48);
  launch(48, 16);
  launch(16, 0);
  StepMemory memory = this->memory();
  EXPECT_THAT(extent(memory, Private), ElementsAre(48, 48, 16));
  EXPECT_EQ(memory.categories()[Private].most, 48u);
  EXPECT_EQ(memory.categories()[Registered].most, 0u);
}

TEST_F(MemoryTest, WhatIsReadBeforeItIsWrittenWasThereAtTheBegin) {
  launch(0, 16);
  launch(32, 16);
  EXPECT_THAT(live(memory(), Private), ElementsAre(16, 16));
}

TEST_F(MemoryTest, WhatIsWrittenAndNotReadIsInUseMeanwhile) {
  launch(0, 16);
  launch(0, 32);
  launch(0, 16);
  EXPECT_THAT(live(memory(), Private), ElementsAre(8, 8, 8));
}

// Its operand and its result are in use until the wait.
TEST_F(MemoryTest, ACollectiveHoldsItsOperandsUntilTheWait) {
  launch(0, at(Registered, 0));
  abi::Collective &start = *add().mutable_start();
  start.set_input(at(Registered, 0));
  start.set_output(at(Registered, 16));
  start.set_outer(1);
  start.set_chunk(2);
  launch(0, 16);
  add().mutable_wait();
  launch(at(Registered, 16), 32);
  StepMemory memory = this->memory();
  EXPECT_THAT(live(memory, Registered), ElementsAre(8, 16, 16, 16, 8));
  EXPECT_THAT(extent(memory, Registered), ElementsAre(16, 32, 32, 32, 32));
  EXPECT_THAT(live(memory, Private), ElementsAre(0, 0, 8, 0, 8));
}

// Values that share each other's gaps: the second leaves the first as it was.
TEST_F(MemoryTest, WhatACommandLeavesAsItWasStaysInUse) {
  for (bool isWhole : {false, true}) {
    manifest.mutable_lists(0)->clear_commands();
    launch(0, 16, 16, isWhole ? 16 : 8);
    launch(0, 64);
    launch(0, 24, 16, isWhole ? 16 : 8); // bytes 24 to 32 once more
    launch(24, 0);
    EXPECT_THAT(live(memory(), Private), isWhole ? ElementsAre(16, 8, 16, 8) : ElementsAre(16, 16, 16, 8)) << isWhole;
  }
}

TEST_F(MemoryTest, WhatACommandAddsToStaysInUse) {
  for (bool adds : {false, true}) {
    manifest.mutable_lists(0)->clear_commands();
    launch(0, 16);
    launch(0, 64);
    launch(0, 16);
    manifest.mutable_lists(0)->mutable_commands(2)->mutable_work()->set_bytes_read(adds ? 16 : 8);
    EXPECT_THAT(live(memory(), Private), adds ? ElementsAre(8, 16, 8) : ElementsAre(8, 8, 8)) << adds;
  }
}

// A micro-batch's own, from a list to a later one, each in its place.
TEST_F(MemoryTest, AStashIsInUseUntilItsMicroBatchComesBack) {
  launch(0, at(Stash, 16));
  list(1);
  launch(0, at(Stash, 16));
  list(0);
  launch(at(Stash, 16), 16);
  list(1);
  launch(at(Stash, 16), 16);
  StepMemory memory = this->memory();
  EXPECT_THAT(memory.firstCommands(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(live(memory, Stash), ElementsAre(8, 16, 16, 8));
  EXPECT_THAT(extent(memory, Stash), ElementsAre(32, 64, 64, 64));
}

} // namespace
} // namespace dtc::timing
