// What is said of memory over time, held against the plan that a program was compiled with, and against its arenas while
// it runs.
#include "runtime/abi/timetables.h"
#include "test/e2e/compiled_model.h"
#include "timing/events/memory.h"

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

// Most that is ever in use, by category, is what the plan reserves.
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

INSTANTIATE_TEST_SUITE_P(Programs, MemoryOverTime,
                         testing::Combine(testing::Values("gpt-small", "llama-small"), testing::ValuesIn(programs)),
                         [](const auto &info) {
                           std::string name = std::get<0>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name + "_" + std::get<1>(info.param).name;
                         });

} // namespace
} // namespace dtc::test
