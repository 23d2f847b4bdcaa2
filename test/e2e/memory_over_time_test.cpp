// Compares what is reported about memory over time with the plan that a program was compiled with, and with its arenas
// while it runs.
#include "runtime/abi/addresses.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/checkpoint/state.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/program/start/kernel_library.h"
#include "test/e2e/compiled_model.h"
#include "timing/events/memory.h"

#include <cstring>
#include <thread>

namespace dtc::test {
namespace {

struct Program {
  const char *name, *mesh, *strategy;
  int64_t accumulation = 1;
  const char *compute = "f32", *gradients = "f32", *timetable = "1f1b";
};

void PrintTo(const Program &program, std::ostream *out) { *out << program.name; }

constexpr Program programs[] = {
    {"one", "dp=1", "ddp"},
    {"one_accumulating", "dp=1", "ddp", 3},
    {"one_bf16", "dp=1", "ddp", 1, "bf16"},
    {"one_f16", "dp=1", "ddp", 2, "f16"},
    {"dp4", "dp=4", "ddp"},
    {"dp4_bf16", "dp=4", "ddp", 2, "bf16", "bf16"},
    {"tp2", "tp=2", "megatron"},
    {"dp2_tp2", "dp=2,tp=2", "megatron"},
    {"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
    {"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp"},
    {"tp4_sp_bf16", "tp=4", "megatron-sp", 1, "bf16"},
    {"cp2", "cp=2", "cp"},
    {"zero1", "dp=4", "zero1"},
    {"zero1_accumulating", "dp=4", "zero1", 2},
    {"zero2", "dp=4", "zero2", 2},
    {"zero3", "dp=4", "zero3"},
    {"zero3_accumulating_bf16", "dp=4", "zero3", 2, "bf16", "bf16"},
    {"hsdp", "dp=4", "hsdp:2"},
    {"zero3_cp", "cp=4", "zero3+cp"},
    {"zero3_sp", "dp=2,tp=2", "megatron-sp+zero3"},
    {"pp2", "pp=2", "ddp", 4},
    {"pp4_gpipe", "pp=4", "ddp", 6, "f32", "f32", "gpipe"},
    {"pp4_naive", "pp=4", "ddp", 4, "f32", "f32", "naive"},
    {"pp2_tp2_sp_bf16", "pp=2,tp=2", "megatron-sp", 4, "bf16"},
    {"dp2_pp2_zero1", "dp=2,pp=2", "zero1", 4},
};

ModelSetup setupOf(const char *model, const Program &program) {
  std::map<std::string, int64_t> symbols = smallSymbols(model);
  symbols["layers"] = 4;
  symbols["vocab"] = 16; // all sizes divide: nobody writes padding
  return {.model = model,
          .mesh = program.mesh,
          .strategy = program.strategy,
          .accumulation = program.accumulation,
          .symbols = symbols,
          .expect = false,
          .compute = program.compute,
          .gradients = program.gradients,
          .timetable = program.timetable};
}

class MemoryOverTime : public testing::TestWithParam<std::tuple<const char *, Program>> {};

// The peak of each category equals what the plan reserves.
TEST_P(MemoryOverTime, PeaksAtThePlan) {
  auto [model, program] = GetParam();
  CompiledModel compiled(setupOf(model, program));
  ASSERT_TRUE(compiled.succeeded);
  for (const abi::Role &role : compiled.manifest.roles()) {
    std::map<std::string, uint64_t> most;
    uint64_t sum = 0;
    for (const abi::Timetable &timetable : role.timetables()) {
      timing::StepMemory memory(compiled.manifest, role, timetable.name());
      sum = 0;
      for (const auto &[name, bytes] : memory.always())
        sum += bytes;
      for (const timing::MemoryCategory &category : memory.categories())
        most[category.name] = std::max(most[category.name], category.most);
    }
    for (const abi::MemoryUse &use : role.memory())
      if (most.contains(use.category())) {
        EXPECT_EQ(most[use.category()], use.bytes()) << role.name() << ": " << use.category();
      }
    for (const auto &[name, bytes] : most)
      sum += bytes;
    EXPECT_EQ(sum, role.arena_bytes()) << role.name();
  }
}

/// A rank's arena, compared with what is reported about it while a step runs. Memory out of use is filled with poison,
/// which any reader sees as NaN.
class WatchedArena {
public:
  WatchedArena(const abi::Manifest &manifest, const abi::Role &role, std::byte *arena)
      : manifest(manifest), memory(manifest, role, abi::stepTimetable), arena(arena), states(role.arena_bytes()),
        begins(memory.commands()), ends(memory.commands()) {
    for (const abi::Tensor &tensor : role.tensors())
      std::fill_n(states.begin() + static_cast<ptrdiff_t>(abi::arenaOffset(role, tensor.address())),
                  abi::bytesOf(tensor), Tensor);
    for (const timing::LiveRange &range : memory.ranges()) {
      begins[range.first].push_back(range);
      ends[range.last].push_back(range);
    }
    abi::Resolver resolver(manifest, role);
    for (const abi::TimedEntry &timed : abi::unroll(abi::timetableOf(role, abi::stepTimetable), 1)) {
      abi::CommandList list = resolver.resolve(*timed.entry);
      commands.insert(commands.end(), list.commands().begin(), list.commands().end());
    }
    for (size_t at = 0; at < states.size(); ++at)
      if (states[at] == OutOfUse)
        arena[at] = Poison;
  }

  size_t firstCommand(size_t entry) const { return memory.firstCommands()[entry]; }

  /// Called after a command of the step has run, and before the next one does: poisons what it was the last to use.
  /// Some commands, such as a wait right after its start, are not reported: what these freed belongs to this command
  /// where it uses it.
  void ran(size_t command) {
    size_t first = next;
    for (; next <= command; ++next) {
      for (const timing::LiveRange &range : begins[next])
        set(range.begin, range.end, InUse);
      moveOn(commands[next]);
      for (const timing::LiveRange &range : ends[next])
        set(range.begin, range.end, OutOfUse);
    }
    for (; first <= command; ++first)
      for (const timing::LiveRange &range : ends[first])
        for (uint64_t at = range.begin; at < range.end; ++at)
          if (states[at] == OutOfUse)
            arena[at] = Poison;
    if (failure.empty())
      check(command);
  }

  std::string failure; ///< the first

private:
  enum State : uint8_t { OutOfUse, InUse, UnderWay, Tensor };
  static constexpr std::byte Poison{0xff};

  void set(uint64_t begin, uint64_t end, State state) {
    for (uint64_t at = begin; at < end; ++at)
      if (states[at] != Tensor)
        states[at] = state;
  }

  /// Until the wait, a result's contents are unknown.
  void moveOn(const abi::Command &command) {
    if (abi::isStart(command))
      abi::forEachWritten(manifest, command, [&](uint64_t begin, uint64_t bytes) {
        set(begin, begin + bytes, UnderWay);
        results[abi::tokenOf(command)].emplace_back(begin, begin + bytes);
      });
    if (command.has_wait())
      for (auto [begin, end] : std::exchange(results[abi::tokenOf(command)], {}))
        set(begin, end, InUse);
  }

  void check(size_t command) {
    constexpr size_t word = 4;
    for (size_t at = 0; at < states.size(); at += word) {
      bool isPoison = std::all_of(arena + at, arena + at + word, [](std::byte byte) { return byte == Poison; });
      auto all = [&](State state) {
        return std::all_of(states.begin() + ptrdiff_t(at), states.begin() + ptrdiff_t(at + word),
                           [&](State each) { return each == state; });
      };
      if (!isPoison && all(OutOfUse))
        failure = "was written out of use";
      else if (isPoison && all(InUse))
        failure = "was never written and is said to be in use";
      if (!failure.empty()) {
        failure = "byte " + std::to_string(at) + " " + failure + " at command " + std::to_string(command) + ": " +
                  abi::locationOf(manifest, commands[command]);
        return;
      }
    }
  }

  const abi::Manifest &manifest;
  timing::StepMemory memory;
  std::byte *arena;
  std::vector<State> states; ///< of each byte
  std::vector<std::vector<timing::LiveRange>> begins, ends;
  std::vector<abi::Command> commands; ///< resolved
  size_t next = 0;
  std::map<uint32_t, std::vector<std::pair<uint64_t, uint64_t>>> results; ///< of what is under way, by token
};

/// A rank on a thread of its own.
class WatchedRank {
public:
  WatchedRank(const abi::Manifest &manifest, InProcessJob &job, Device &device, int number)
      : manifest(manifest), role(abi::roleOf(manifest, number)),
        memory(device.allocate(role.arena_bytes(), role.shared_begin())),
        communicator(job.join(number, *memory->host())), executor(manifest, *communicator, device, *memory) {
    RankState(manifest, number, device, *memory).initialize(/*seed=*/7, /*threads=*/1);
    fillInputs();
    for (const abi::TimetableEntry &entry : abi::timetableOf(role, abi::refreshTimetable).period())
      executor.run(entry);
  }

  /// Runs the same step twice, the second time with a watched arena. Returns what went wrong.
  std::string run() {
    std::vector<std::byte> before(memory->base(), memory->base() + memory->bytes());
    const abi::Timetable &step = abi::timetableOf(role, abi::stepTimetable);
    for (const abi::TimetableEntry &entry : step.period())
      executor.run(entry);
    std::vector<std::vector<std::byte>> expected = tensors();
    meet();
    std::ranges::copy(before, memory->base());
    WatchedArena arena(manifest, role, memory->base());
    meet();
    for (size_t number = 0; number < static_cast<size_t>(step.period_size()); ++number)
      executor.runShown(step.period(static_cast<int>(number)),
                        [&](uint32_t command, auto) { arena.ran(arena.firstCommand(number) + command); });
    if (!arena.failure.empty())
      return arena.failure;
    return compare(expected);
  }

  void fail(const std::string &why) { communicator->poison(why); }

private:
  void meet() { communicator->barrier(); }

  void fillInputs() {
    for (const abi::Tensor &tensor : role.tensors()) {
      if (tensor.kind() != abi::Tensor::INPUT)
        continue;
      auto elements = static_cast<size_t>(abi::elementsOf(tensor));
      std::vector<int32_t> integers(elements);
      for (size_t i = 0; i < elements; ++i)
        integers[i] = static_cast<int32_t>(i * i % 13);
      if (tensor.type() == abi::I32)
        executor.write(tensor, integers);
      else
        executor.write(tensor, std::vector<float>(elements, 0.25F));
    }
  }

  std::string compare(const std::vector<std::vector<std::byte>> &expected) const {
    std::vector<std::vector<std::byte>> found = tensors();
    for (size_t i = 0; i < found.size(); ++i)
      if (auto [own, other] = std::ranges::mismatch(found[i], expected[i]); own != found[i].end())
        return "a command has read what is said to be out of use: tensor '" + role.tensors(int(i)).name() +
               "' differs from byte " + std::to_string(own - found[i].begin()) + " of " +
               std::to_string(found[i].size()) + " on";
    return "";
  }

  std::vector<std::vector<std::byte>> tensors() const {
    std::vector<std::vector<std::byte>> all;
    for (const abi::Tensor &tensor : role.tensors()) {
      std::byte *begin = memory->base() + abi::arenaOffset(role, tensor.address());
      all.emplace_back(begin, begin + abi::bytesOf(tensor));
    }
    return all;
  }

  const abi::Manifest &manifest;
  const abi::Role &role;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Communicator> communicator;
  Executor executor;
};

// At every command of a step, on every rank: memory reported out of use is neither read nor written afterwards, and
// memory reported in use has been written.
TEST_P(MemoryOverTime, IsThatOfTheArena) {
  auto [model, program] = GetParam();
  ModelSetup setup = setupOf(model, program);
  setup.generateCode = true;
  CompiledModel compiled(setup);
  ASSERT_TRUE(compiled.succeeded);
  KernelLibrary library(compiled.sharedObject);
  CpuDevice device(1, [&](const abi::Kernel &kernel) {
    return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
  });
  int ranks = Mesh(compiled.manifest.mesh()).ranks();
  InProcessJob job(ranks);
  std::vector<std::string> failures(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<WatchedRank>> all(failures.size()); // outlive all threads: peers read their arenas
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < all.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          all[rank] = std::make_unique<WatchedRank>(compiled.manifest, job, device, static_cast<int>(rank));
          failures[rank] = all[rank]->run();
        } catch (const std::exception &error) {
          failures[rank] = error.what();
          if (all[rank])
            all[rank]->fail(error.what());
        }
      });
  }
  EXPECT_EQ(failures, std::vector<std::string>(failures.size()));
}

INSTANTIATE_TEST_SUITE_P(Programs, MemoryOverTime,
                         testing::Combine(testing::Values("gpt-small", "llama-small"), testing::ValuesIn(programs)),
                         [](const auto &info) {
                           std::string name = std::get<0>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name + "_" + std::get<1>(info.param).name;
                         });

} // namespace
} // namespace dtc::test
