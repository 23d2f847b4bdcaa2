// Command lists written by hand, run by one to four ranks.
#include "runtime/executor/executor.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/comm/in_process.h"
#include "runtime/device/cpu_device.h"
#include "test/runtime/device/far_device.h"

#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace dtc {
namespace {

using test::FarDevice, test::FarMemory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// out[i] = a[i] * factor + i. buffers: a, out. scalars: real factor.
void scaleAdd(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *a = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  double factor = std::bit_cast<double>(scalars[0]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = static_cast<float>(a[i] * factor + i);
}

/// out[i] = value. buffers: out. scalars: value.
void setInteger(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int32_t *>(buffers[0])[i] = static_cast<int32_t>(scalars[0]);
}

dtc_kernel_fn resolve(const abi::Kernel &kernel) {
  return kernel.symbol() == "scale_add" ? scaleAdd : kernel.symbol() == "set_integer" ? setInteger : nullptr;
}

//===----------------------------------------------------------------------===//
// A program: "x" [16] f32 private at 0, "y" [16] f32 shared at 4096, "n" [16] i32 shared at 8192.
//===----------------------------------------------------------------------===//

constexpr uint64_t X = 0, Y = 4096, N = 8192;

class Program {
public:
  explicit Program(int ranks) {
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("dp");
    axis->set_size(ranks);
    for (uint32_t channel : {0, 1}) {
      abi::Group *group = manifest.add_groups();
      group->set_channel(channel);
      abi::AxisRef *ref = group->add_axes();
      ref->set_axis("dp");
      ref->set_pre(1);
      ref->set_size(ranks);
    }
    for (const char *location : {"h.0", "h.1"})
      manifest.add_locations(location);
    addKernel("scale_add", 1, 1);
    addKernel("set_integer", 0, 1);
    abi::Role *role = manifest.add_roles();
    role->set_arena_bytes(16384);
    role->set_shared_begin(4096);
    addTensor("x", abi::F32, X);
    addTensor("y", abi::F32, Y);
    addTensor("n", abi::I32, N);
    role->add_lists()->set_name("main");
    role->add_step()->set_list("main");
  }

  void launchScaleAdd(uint64_t in, uint64_t out, double factor, uint32_t location) {
    abi::Command *command = add();
    command->set_location(location);
    abi::Launch *launch = command->mutable_launch();
    for (uint64_t buffer : {in, out}) {
      launch->add_buffers(buffer);
      launch->add_buffer_bytes(64);
      launch->add_buffer_types(abi::F32);
    }
    launch->add_scalars()->set_real(factor);
    launch->set_grid(16);
    launch->set_grain(4);
  }

  abi::Launch *launchSetInteger(uint64_t out) {
    abi::Launch *launch = add()->mutable_launch();
    launch->set_kernel(1);
    launch->add_buffers(out);
    launch->add_buffer_bytes(64);
    launch->add_buffer_types(abi::I32);
    launch->set_grid(16);
    launch->set_grain(1);
    return launch;
  }

  /// An all-reduce of the group on this channel.
  abi::Collective *start(uint64_t buffer, uint32_t token, uint32_t channel = 0, abi::DataType type = abi::F32) {
    abi::Collective *collective = add()->mutable_start();
    collective->set_group(channel);
    collective->set_type(type);
    collective->set_input(buffer);
    collective->set_output(buffer);
    collective->set_outer(1);
    collective->set_chunk(16);
    collective->set_token(token);
    return collective;
  }

  void wait(uint32_t token) { add()->mutable_wait()->set_token(token); }

  /// What follows goes into another list, which the step runs next.
  void beginList(const char *name) {
    manifest.mutable_roles(0)->add_lists()->set_name(name);
    manifest.mutable_roles(0)->add_step()->set_list(name);
  }

  abi::Command *add() { return manifest.mutable_roles(0)->mutable_lists()->rbegin()->add_commands(); }

  abi::Manifest manifest;

private:
  void addKernel(const char *symbol, int inputs, int outputs) {
    abi::Kernel *kernel = manifest.add_kernels();
    kernel->set_symbol(symbol);
    kernel->set_inputs(inputs);
    kernel->set_outputs(outputs);
  }
  void addTensor(const char *name, abi::DataType type, uint64_t offset) {
    abi::Tensor *tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->set_type(type);
    tensor->add_local_shape(16);
    tensor->set_offset(offset);
  }
};

template <typename T> void fill(Executor &executor, const char *name, T value) {
  executor.write(executor.tensor(name), std::vector<T>(16, value));
}

/// Runs `body` on every rank, with a CPU and with a device that the host cannot look into; rethrows nothing: failures
/// are asserted to be none.
void onEveryRank(const Program &program, const std::function<void(Executor &)> &body, int threads, bool far) {
  int ranks = static_cast<int>(program.manifest.mesh().axes(0).size());
  InProcessJob job(ranks);
  std::vector<std::string> failures(ranks);
  std::vector<std::thread> workers;
  for (int rank = 0; rank < ranks; ++rank)
    workers.emplace_back([&, rank] {
      try {
        std::unique_ptr<Device> device;
        if (far)
          device = std::make_unique<FarDevice>(resolve);
        else
          device = std::make_unique<CpuDevice>(threads, resolve);
        std::unique_ptr<Memory> memory = device->allocate(program.manifest.roles(0).arena_bytes(), 4096);
        auto communicator = job.join(rank, far ? static_cast<FarMemory &>(*memory).behind() : *memory->host());
        Executor executor(program.manifest, *communicator, *device, *memory);
        body(executor);
      } catch (const std::exception &error) {
        failures[rank] = error.what();
      }
    });
  for (std::thread &worker : workers)
    worker.join();
  EXPECT_EQ(failures, std::vector<std::string>(ranks));
}
void onEveryRank(const Program &program, const std::function<void(Executor &)> &body, int threads = 1) {
  for (bool far : {false, true}) {
    SCOPED_TRACE(far ? "far" : "CPU");
    onEveryRank(program, body, threads, far);
  }
}

std::string refusalOf(const Program &program, int started = 1) {
  try {
    InProcessJob job(started);
    Arena arena(16384, 4096);
    auto communicator = job.join(0, arena);
    CpuDevice device(1, resolve);
    Executor executor(program.manifest, *communicator, device, arena);
    return "";
  } catch (const Error &error) {
    return "exit code " + std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
  }
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

TEST(ExecutorTest, LaunchesReadAndWriteNamedTensors) {
  Program program(1);
  program.launchScaleAdd(X, Y, 2.5, 0);
  for (int threads : {1, 3})
    onEveryRank(
        program,
        [](Executor &executor) {
          fill(executor, "x", 4.0F);
          executor.run("main");
          for (int i = 0; i < 16; ++i)
            EXPECT_EQ(executor.floats("y")[i], 10.0f + i);
        },
        threads);
}

TEST(ExecutorTest, RankIndicesAreScaled) {
  Program program(4);
  abi::RankIndex *index = program.launchSetInteger(N)->add_scalars()->mutable_rank_index();
  index->set_scale(-100);
  abi::AxisRef *axis = index->add_axes();
  axis->set_axis("dp");
  axis->set_pre(2);
  axis->set_size(2);
  onEveryRank(program, [](Executor &executor) {
    executor.run("main");
    EXPECT_THAT(executor.integers("n"), testing::Each(executor.rank() % 2 * -100));
  });
}

// Both collectives are under way together and waited for in the other order; the launch runs beside them. They may
// share a channel, and a later list may wait for one.
class Overlap : public testing::TestWithParam<std::tuple<uint32_t, bool>> {};

TEST_P(Overlap, CollectivesRunBesideComputeUntilTheirWaits) {
  auto [channel, later] = GetParam();
  Program program(3);
  program.start(Y, 7, 1);
  program.start(N, 8, channel, abi::I32);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(8);
  if (later)
    program.beginList("later");
  program.wait(7);
  onEveryRank(program, [later](Executor &executor) {
    for (int round = 0; round < 100; ++round) {
      fill(executor, "x", 0.0f);
      fill(executor, "y", float(executor.rank() + round));
      fill(executor, "n", 1);
      executor.run("main");
      if (later)
        executor.run("later");
      ASSERT_THAT(executor.floats("y"), testing::Each(3.0f + 3 * round));
      ASSERT_THAT(executor.integers("n"), testing::Each(3));
      ASSERT_EQ(executor.floats("x")[5], 5.0f);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Channels, Overlap, testing::Combine(testing::Values(0U, 1U), testing::Bool()));

/// A transport that records what it is asked for, and can only do what a test says.
class Recording final : public Communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  CommunicatorCapabilities capabilities() const override { return can; }
  CommandHandle start(const Group &group, const abi::Command &command) override {
    calls.push_back("start " + std::to_string(command.start().token()));
    return {group.channel, command.start().token(), nullptr};
  }
  void handOver() override { calls.push_back("hand over"); }
  CommandTimes wait(const CommandHandle &handle) override {
    calls.push_back("wait " + std::to_string(handle.ticket) + " of channel " + std::to_string(handle.channel));
    return {};
  }
  CommandTimes run(const Group &, const abi::Command &command) override {
    calls.push_back("run " + std::to_string(command.start().token()));
    return {};
  }
  std::vector<int64_t> exchange(int64_t value) override { return {value}; }
  void poison(std::string_view) noexcept override {}

  CommunicatorCapabilities can{true, true, true, true};
  std::vector<std::string> calls;
};

// Before the device is given anything, and before the host goes on, what was started is handed over.
TEST(ExecutorTest, StartsAreHandedOverBeforeOtherWork) {
  Program program(1);
  program.start(Y, 5, 1);
  program.start(N, 6, 0, abi::I32);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(5);
  program.wait(6);
  Recording communicator;
  Arena arena(16384, 4096);
  CpuDevice device(1, resolve);
  Executor executor(program.manifest, communicator, device, arena);
  executor.run("main");
  EXPECT_THAT(communicator.calls,
              ElementsAre("start 5", "start 6", "hand over", "wait 5 of channel 1", "wait 6 of channel 0"));
}

// What is waited for at once is one call; everything else is waited for by its own handle, in whatever list.
TEST(ExecutorTest, HandlesGoFromStartsToTheirWaits) {
  Program program(1);
  program.start(Y, 5, 1);
  program.start(N, 6, 0, abi::I32);
  program.start(Y, 7, 0);
  program.wait(7);
  program.wait(5);
  program.beginList("later");
  program.wait(6);
  Recording communicator;
  Arena arena(16384, 4096);
  CpuDevice device(1, resolve);
  Executor executor(program.manifest, communicator, device, arena);
  for (int round = 0; round < 2; ++round) {
    communicator.calls.clear();
    executor.run("main");
    executor.run("later");
    EXPECT_THAT(communicator.calls,
                ElementsAre("start 5", "start 6", "run 7", "wait 5 of channel 1", "hand over", "wait 6 of channel 0"));
  }
}

// Two lists and three places: what one writes in a slot the other finds there, through a launch, a collective, a copy.
TEST(ExecutorTest, ASlotHasItsOwnPlaceInEachClass) {
  constexpr uint64_t first = 12288, second = 13312;
  Program program(2);
  program.launchScaleAdd(X, first, 1, 0);
  program.start(first, 1);
  program.launchScaleAdd(X, X, 0, 0); // beside it
  program.wait(1);
  abi::Copy &copy = *program.add()->mutable_copy();
  copy.set_input(first);
  copy.set_output(second);
  copy.set_elements(16);
  program.beginList("later");
  program.launchScaleAdd(second, Y, 1, 0);
  abi::Role &role = *program.manifest.mutable_roles(0);
  for (uint64_t base : {first, second}) {
    abi::SlotClass &each = *role.add_slot_classes();
    each.set_base(base);
    each.set_stride(64);
    each.set_slots(4);
  }
  for (const char *list : {"main", "later"})
    for (uint32_t slot : {1, 3}) {
      abi::TimetableEntry &entry = *role.add_step();
      entry.set_list(list);
      entry.set_slot(slot);
    }
  onEveryRank(program, [](Executor &executor) {
    for (uint32_t slot : {0, 1, 3}) {
      fill(executor, "x", 10.0F * static_cast<float>(slot));
      executor.run("main", slot);
    }
    for (uint32_t slot : {3, 0, 1}) {
      executor.run("later", slot);
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(executor.floats("y")[i], 20.0F * static_cast<float>(slot) + 3.0F * static_cast<float>(i)) << slot;
    }
    EXPECT_THROW(executor.run("main", 2), Error); // of which no timetable speaks
  });
}

/// Rank 0 computes and sends, rank 1 receives into private memory and copies; a role each.
Program lineOfTwo() {
  Program program(2);
  program.launchScaleAdd(X, Y, 2, 0);
  abi::Role &first = *program.manifest.mutable_roles(0), &second = *program.manifest.add_roles();
  second = first;
  auto fill = [](abi::Transfer &transfer, uint64_t buffer, int64_t shift) {
    transfer.set_buffer(buffer);
    transfer.set_elements(16);
    transfer.set_shift(shift);
    transfer.set_group(1);
    transfer.set_token(4);
    transfer.set_value("y");
  };
  abi::CommandList &sender = *first.mutable_lists(0), &receiver = *second.mutable_lists(0);
  fill(*sender.add_commands()->mutable_send(), Y, 1);
  receiver.mutable_commands()->Clear();
  fill(*receiver.add_commands()->mutable_recv(), X, -1);
  for (abi::CommandList *list : {&sender, &receiver})
    list->add_commands()->mutable_wait()->set_token(4);
  abi::Copy &copy = *receiver.add_commands()->mutable_copy();
  copy.set_input(X);
  copy.set_output(Y + 128);
  copy.set_elements(15);
  first.add_ranks(0);
  second.add_ranks(1);
  return program;
}

TEST(ExecutorTest, RanksPlayTheirRolesAndSendToEachOther) {
  Program program = lineOfTwo();
  abi::Tensor &copied = *program.manifest.add_tensors() = program.manifest.tensors(1);
  copied.set_name("copied");
  copied.set_offset(Y + 128);
  onEveryRank(program, [](Executor &executor) {
    for (int round = 0; round < 50; ++round) {
      fill(executor, "x", executor.rank() == 0 ? float(round) : -1.0F);
      fill(executor, "copied", -2.0F);
      executor.run("main");
      if (executor.rank() == 0)
        continue;
      for (int i = 0; i < 15; ++i)
        ASSERT_EQ(executor.floats("copied")[i], 2.0F * static_cast<float>(round) + static_cast<float>(i));
      ASSERT_EQ(executor.floats("copied")[15], -2.0F);
    }
  });
}

TEST(ExecutorTest, AnObserverSeesTransfersAndCopies) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      indices.push_back(event.index);
      EXPECT_LE(event.begin, event.end);
    }
    std::vector<uint32_t> indices;
  };
  onEveryRank(lineOfTwo(), [](Executor &executor) {
    Recorder recorder;
    executor.observe(&recorder);
    executor.run("main");
    EXPECT_THAT(recorder.indices, executor.rank() == 0 ? ElementsAre(0, 1) : ElementsAre(0, 2));
  });
}

TEST(ExecutorRefusesTest, ARankWithoutARole) {
  Program program = lineOfTwo();
  EXPECT_EQ(&roleOf(program.manifest, 1), &program.manifest.roles(1));
  EXPECT_THROW(roleOf(program.manifest, 2), Error);
}

TEST(ExecutorRefusesTest, WhatTheTransportCannotDo) {
  auto refusal = [](const Program &program, CommunicatorCapabilities can) -> std::string {
    Recording communicator;
    communicator.can = can;
    Arena arena(16384, 4096);
    CpuDevice device(1, resolve);
    try {
      Executor(program.manifest, communicator, device, arena);
      return "";
    } catch (const Error &error) {
      return error.what();
    }
  };
  Program inPlace(1), rows(1);
  inPlace.start(Y, 1);
  inPlace.wait(1);
  abi::Collective *gather = rows.start(Y, 1);
  gather->set_kind(abi::Collective::ALL_GATHER);
  gather->set_output(N);
  gather->set_outer(2);
  gather->set_chunk(8);
  rows.wait(1);
  EXPECT_EQ(refusal(inPlace, {.strided = false, .inPlace = true}), "");
  EXPECT_THAT(refusal(inPlace, {.strided = true}), HasSubstr("results in place, which this transport cannot do"));
  EXPECT_EQ(refusal(rows, {.strided = true}), "");
  EXPECT_THAT(refusal(rows, {.inPlace = true}), HasSubstr("list 'main', command 0: the collective of  asks for parts"));
  gather->set_outer(1);
  EXPECT_EQ(refusal(rows, {}), "");
}

TEST(ExecutorTest, AnObserverSeesEveryCommandOnceWithItsTimes) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      EXPECT_EQ(event.list, "main");
      EXPECT_LE(event.begin, event.end);
      EXPECT_GT(event.begin, 0);
      indices.push_back(event.index);
    }
    std::vector<uint32_t> indices;
  } recorder;
  Program program(1);
  program.start(Y, 1, 1);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(1);
  program.start(Y, 2, 1); // nothing to overlap: done by its start, no wait to be seen
  program.wait(2);
  onEveryRank(program, [&](Executor &executor) {
    recorder.indices.clear();
    executor.run("main");
    EXPECT_THAT(recorder.indices, testing::IsEmpty());
    executor.observe(&recorder);
    executor.run("main");
  });
  EXPECT_THAT(recorder.indices, testing::UnorderedElementsAre(0, 1, 2, 3));
}

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
    std::optional<NonFinite> found = executor.runChecked("main");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->command, executor.rank() == 1 ? 2u : 5u);
    EXPECT_EQ(found->location, executor.rank() == 1 ? "h.1" : "h.0");
    EXPECT_EQ(found->kernel, "scale_add");
    EXPECT_EQ(found->element, 9);
    EXPECT_EQ(found->output, 0u);
    EXPECT_TRUE(std::isinf(found->value));
    fill(executor, "x", 1e-30f);
    EXPECT_FALSE(executor.runChecked("main"));
  });
}

// What is looked at comes from the device in pieces; here in three.
TEST(ExecutorTest, TheDiagnosticReplayLooksAtAllOfALargeBuffer) {
  constexpr int64_t elements = 600000;
  for (int64_t bad : {int64_t(0), int64_t(262144), elements - 1}) {
    Program program(1);
    program.manifest.mutable_roles(0)->set_arena_bytes(16384 + 4 * elements);
    program.manifest.mutable_tensors(0)->set_local_shape(0, elements);
    program.manifest.mutable_tensors(0)->set_offset(16384);
    program.launchScaleAdd(16384, 16384, 1.0, 0);
    abi::Launch &launch = *program.manifest.mutable_roles(0)->mutable_lists(0)->mutable_commands(0)->mutable_launch();
    launch.set_grid(elements);
    for (int buffer : {0, 1})
      launch.set_buffer_bytes(buffer, 4 * elements);
    onEveryRank(program, [bad](Executor &executor) {
      std::vector<float> x(elements);
      x[bad] = -INFINITY;
      executor.write(executor.tensor("x"), x);
      std::optional<NonFinite> found = executor.runChecked("main");
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
      std::optional<NonFinite> found = executor.runChecked("main");
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

TEST(ExecutorTest, UnknownNamesAndWrongTypesAreErrors) {
  Program program(1);
  onEveryRank(program, [](Executor &executor) {
    EXPECT_TRUE(executor.hasList("main"));
    EXPECT_FALSE(executor.hasList("other"));
    EXPECT_THROW(executor.run("other"), Error);
    EXPECT_TRUE(executor.hasTensor("x"));
    EXPECT_THROW(executor.tensor("z"), Error);
    EXPECT_THROW(executor.integers("x"), Error);
    EXPECT_THROW(executor.write(executor.tensor("x"), std::vector<int32_t>(16)), Error);
    EXPECT_THROW(executor.write(executor.tensor("x"), std::vector<float>(15)), Error);
    EXPECT_THROW(executor.setScalar("x", 1), Error);
    EXPECT_THROW(executor.floats("n"), Error);
    EXPECT_THROW(executor.scalar("x"), Error);
  });
}

TEST(ExecutorTest, AParametersNameMeansTheParameterNotItsMoments) {
  Program program(1);
  abi::Tensor *moment = program.manifest.add_tensors();
  *moment = program.manifest.tensors(0);
  moment->set_role(abi::Tensor::SLOT);
  moment->set_slot("exp_avg");
  moment->set_offset(Y);
  onEveryRank(program, [](Executor &executor) { EXPECT_EQ(executor.tensor("x").offset(), X); });
}

TEST(ExecutorRefusesTest, TwoTensorsOfOneName) {
  Program program(1);
  *program.manifest.add_tensors() = program.manifest.tensors(0);
  EXPECT_THAT(refusalOf(program), HasSubstr("two tensors named 'x'"));
}

//===----------------------------------------------------------------------===//
// Programs that do not fit themselves
//===----------------------------------------------------------------------===//

TEST(ExecutorRefusesTest, AnotherNumberOfRanks) {
  EXPECT_THAT(refusalOf(Program(4)), AllOf(HasSubstr("exit code 3"), HasSubstr("compiled for 4 ranks, but 1")));
}

TEST(ExecutorRefusesTest, AKernelThatIsNowhere) {
  Program program(1);
  program.manifest.mutable_kernels(0)->set_symbol("fused_17");
  EXPECT_THAT(refusalOf(program), HasSubstr("kernel 'fused_17', which was not found"));
}

TEST(ExecutorRefusesTest, ABufferBeyondTheArena) {
  Program program(1);
  program.launchScaleAdd(X, 16384 - 60, 1.0, 1);
  EXPECT_THAT(refusalOf(program), AllOf(HasSubstr("list 'main', command 0 (h.1): a buffer at byte 16324")));
}

TEST(ExecutorRefusesTest, ACollectiveOutsideTheSharedPart) {
  Program program(2);
  program.start(X, 1, 1);
  program.wait(1);
  // Two ranks are needed to get as far; the second need not run for the first to refuse.
  InProcessJob job(2);
  Arena arena(16384, 4096), other(16384, 4096);
  std::unique_ptr<Communicator> peer;
  std::thread thread([&] { peer = job.join(1, other); });
  auto communicator = job.join(0, arena);
  thread.join();
  CpuDevice device(1, resolve);
  EXPECT_THROW(Executor(program.manifest, *communicator, device, arena), Error);
}

TEST(ExecutorRefusesTest, ACollectiveLargerThanAllMemory) {
  Program program(1);
  abi::Collective *collective = program.start(Y, 1, 1);
  collective->set_outer(int64_t(1) << 40);
  collective->set_chunk(int64_t(1) << 40);
  program.wait(1);
  EXPECT_THAT(refusalOf(program), HasSubstr("beyond all memory"));
}

TEST(ExecutorRefusesTest, StartsAndWaitsThatDoNotPair) {
  Program noWait(1), noStart(1), twice(1);
  noWait.start(Y, 1, 1);
  EXPECT_THAT(refusalOf(noWait), HasSubstr("runs list 'main', which ends before anybody waits for token 1"));
  noStart.wait(1);
  EXPECT_THAT(refusalOf(noStart), HasSubstr("was not started"));
  twice.start(Y, 1, 1);
  twice.start(N, 1, 1);
  EXPECT_THAT(refusalOf(twice), HasSubstr("token is in use"));
}

TEST(ExecutorRefusesTest, ATensorBeyondTheArena) {
  Program program(1);
  program.manifest.mutable_tensors(0)->add_local_shape(int64_t(1) << 61);
  EXPECT_THAT(refusalOf(program), HasSubstr("tensor 'x' does not lie in its arena"));
}

} // namespace
} // namespace dtc
