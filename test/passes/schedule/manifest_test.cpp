// A small function written as a manifest: what operations state arrives where the runtime reads it.
#include "passes/schedule/emit/EmitManifest.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/timetables.h"
#include "test/passes/schedule/plan.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::dt;
using testing::ElementsAre;

namespace dtc {
namespace {

// In a mesh of two by three a maximum and a sum in progress at once, exchanges in both directions, a part of a slice,
// and a part that depends on both axes.
constexpr const char *text = R"(
module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 3>, dt.model = "toy", dt.symbols = {embed = 6 : i64, vocab = 12 : i64},
    dt.timetables = [#dt.timetable<"step", rank = 0, [<@micro, micro_batch = 0>, <@micro, micro_batch = 1>, <@update>]>,
                     #dt.timetable<"evaluation", rank = 0, [<@eval, micro_batch = 0>]>],
    dt.parameters = [#dt.param<"h.0.w", layer = <"h"[0]>, file = [6, 12], factored = [6, 12], permutation = [1, 0],
                       dims = ["vocab", "embed"], init = "normal", stddev = 2.0e-02 : f64, decays = true, tied = ["a.w", "b.w"]>]} {
func.func @micro(%w: tensor<12x6xf32> {dt.port = #dt.port<parameter "h.0.w">},
                 %x: tensor<4x6x5xf32> {dt.port = #dt.port<input "x" from bias_correction of "beta2">})
    -> (tensor<12x6xf32> {dt.port = #dt.port<gradient "h.0.w", partial, placed = <[{}, {}], partial = sum {"dp"}>>},
        tensor<2x6xf32> {dt.port = #dt.port<output "part">})
    attributes {dt.duty = #dt.duty<both, stage = 0, timetable = "step", for = none>} {
  %own = dt.copy %w : tensor<12x6xf32>
  %max = dt.all_reduce max %own over [#dt.axis_ref<"tp", 1, 0>] {reason = "why", remedy = "what to do"} : tensor<12x6xf32> -> !dt.future<tensor<12x6xf32>>
  %to = dt.all_to_all %x split 0 concat 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x6x5xf32> -> !dt.future<tensor<2x12x5xf32>>
  %first = dt.wait %to : !dt.future<tensor<2x12x5xf32>> -> tensor<2x12x5xf32>
  %back = dt.all_to_all %first split 1 concat 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2x12x5xf32> -> !dt.future<tensor<4x6x5xf32>>
  %second = dt.wait %back : !dt.future<tensor<4x6x5xf32>> -> tensor<4x6x5xf32>
  %whole = dt.wait %max : !dt.future<tensor<12x6xf32>> -> tensor<12x6xf32>
  %part = dt.shard_slice %whole along 0 over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<12x6xf32> -> tensor<2x6xf32>
  %lower = dt.slice %whole at [6, 0] : tensor<12x6xf32> -> tensor<6x6xf32>
  %rows = dt.slice %lower at [2, 0] : tensor<6x6xf32> -> tensor<2x6xf32>
  %gradient = dt.contract "ab,ac->bc" %part, %rows : tensor<2x6xf32>, tensor<2x6xf32> -> tensor<6x6xf32>
  %result = dt.contract "ab,bc->ac" %whole, %gradient : tensor<12x6xf32>, tensor<6x6xf32> -> tensor<12x6xf32>
  return %result, %part : tensor<12x6xf32>, tensor<2x6xf32>
}
func.func @eval(%w: tensor<12x6xf32> {dt.port = #dt.port<parameter "h.0.w">},
                %m: tensor<12x6xf32> {dt.port = #dt.port<slot "exp_avg" of "h.0.w">},
                %v: tensor<12x6xf32> {dt.port = #dt.port<slot "exp_avg_sq" of "h.0.w">})
    -> (tensor<12x6xf32> {dt.port = #dt.port<output "greatest">})
    attributes {dt.duty = #dt.duty<both, stage = 0, timetable = "evaluation", for = none>} {
  %own = dt.copy %w : tensor<12x6xf32>
  %max = dt.all_reduce max %own over [#dt.axis_ref<"tp", 1, 0>] : tensor<12x6xf32> -> !dt.future<tensor<12x6xf32>>
  %whole = dt.wait %max : !dt.future<tensor<12x6xf32>> -> tensor<12x6xf32>
  return %whole : tensor<12x6xf32>
}
func.func @update() {
  return
}
})";

class ManifestTest : public testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<DTDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    FailureOr<ArenaLayout> plan = test::planMemory(*module);
    ASSERT_TRUE(succeeded(plan));
    ASSERT_TRUE(succeeded(emitManifest(*module, manifest)));
    for (const abi::Command &command : manifest.lists(0).commands())
      if (command.has_start())
        starts.push_back(&command.start());
      else if (command.has_launch())
        launches.push_back(&command.launch());
      else
        waits.push_back(command.wait().token());
    ASSERT_EQ(starts.size(), 3U);
  }

  std::string axisOf(const abi::Collective &collective) const {
    return manifest.groups(static_cast<int>(collective.group())).axes(0).axis();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  abi::Manifest manifest;
  std::vector<const abi::Collective *> starts;
  std::vector<const abi::Launch *> launches;
  std::vector<uint32_t> waits;
};

TEST_F(ManifestTest, CollectivesSayWhatIsMoved) {
  const abi::Collective &max = *starts[0], &to = *starts[1], &back = *starts[2];
  EXPECT_EQ(max.kind(), abi::Collective::ALL_REDUCE);
  EXPECT_EQ(max.reduction(), abi::MAX);
  EXPECT_EQ(max.outer() * max.chunk(), 72);
  EXPECT_EQ(max.reason(), "why");
  EXPECT_EQ(max.remedy(), "what to do");
  EXPECT_EQ(axisOf(max), "tp");
  // [1][2 ranks][2][6 x 5] to [1][2][2 ranks][6 x 5], and back.
  for (const abi::Collective *exchange : {&to, &back}) {
    EXPECT_EQ(exchange->kind(), abi::Collective::ALL_TO_ALL);
    EXPECT_EQ(exchange->outer(), 1);
    EXPECT_EQ(exchange->middle(), 2);
    EXPECT_EQ(exchange->chunk(), 30);
    EXPECT_EQ(axisOf(*exchange), "dp");
  }
  EXPECT_TRUE(to.split_first());
  EXPECT_FALSE(back.split_first());
  EXPECT_NE(to.input(), to.output());
}

TEST_F(ManifestTest, InputsSayTheirSourceAndParametersTheirNames) {
  int inputs = 0;
  for (const abi::Tensor &tensor : manifest.roles(0).tensors()) {
    EXPECT_EQ(tensor.has_source(), tensor.kind() == abi::Tensor::INPUT) << tensor.name();
    if (tensor.kind() != abi::Tensor::INPUT)
      continue;
    ++inputs;
    EXPECT_EQ(tensor.source().kind(), abi::Source::BIAS_CORRECTION);
    EXPECT_EQ(tensor.source().setting(), "beta2");
  }
  EXPECT_EQ(inputs, 1);
  EXPECT_THAT(manifest.parameters(0).tied_names(), ElementsAre("a.w", "b.w"));
}

TEST_F(ManifestTest, WaitsAreForTheirOwnCollectives) {
  EXPECT_NE(starts[0]->token(), starts[1]->token());
  EXPECT_THAT(waits, ElementsAre(starts[1]->token(), starts[2]->token(), starts[0]->token()));
}

TEST_F(ManifestTest, TokensAreARolesAndGroupsAProgramsOwn) {
  const abi::Command &other = manifest.lists(1).commands(1);
  ASSERT_TRUE(other.has_start());
  for (const abi::Collective *each : starts)
    EXPECT_NE(each->token(), other.start().token());
  ASSERT_EQ(manifest.groups_size(), 2) << "one for each set of axes";
  EXPECT_EQ(other.start().group(), starts[0]->group());
  EXPECT_NE(manifest.groups(0).channel(), manifest.groups(1).channel());
}

TEST_F(ManifestTest, ARanksPlaceIsThatWithinAllAxes) {
  std::vector<std::vector<std::string>> axes;
  std::vector<int64_t> scales;
  for (const abi::Launch *launch : launches)
    for (const abi::Scalar &scalar : launch->scalars())
      if (scalar.has_rank_index()) {
        scales.push_back(scalar.rank_index().scale());
        auto &names = axes.emplace_back();
        for (const abi::AxisRef &ref : scalar.rank_index().axes())
          names.push_back(ref.axis());
      }
  // Where the part of two rows of six begins, in elements; the kernel need not know that it ends early.
  EXPECT_THAT(axes, ElementsAre(ElementsAre("dp", "tp")));
  EXPECT_THAT(scales, ElementsAre(12));
}

TEST_F(ManifestTest, ASliceOfASliceBeginsWhereBothSay) {
  // The first contraction reads rows 8 and 9 of the maximum.
  uint64_t whole = starts[0]->output();
  bool found = false;
  for (const abi::Launch *launch : launches)
    if (launch->buffers_size() > 1 && manifest.kernels(launch->kernel()).symbol() == "dtc_gemm")
      found |= launch->buffers(0) == whole + 4 * 8 * 6 || launch->buffers(1) == whole + 4 * 8 * 6;
  EXPECT_TRUE(found);
}

TEST_F(ManifestTest, TensorsAndParametersAreStatedInFull) {
  const abi::Parameter &parameter = manifest.parameters(0);
  EXPECT_EQ(parameter.name(), "h.0.w");
  EXPECT_EQ(abi::layerName(manifest, parameter.layer()), "h.0");
  EXPECT_TRUE(parameter.decays());
  EXPECT_EQ(parameter.init().kind(), abi::Init::NORMAL);
  EXPECT_EQ(parameter.init().stddev(), 0.02);
  EXPECT_THAT(parameter.permutation(), ElementsAre(1, 0));
  int gradients = 0;
  for (const abi::Tensor &tensor : manifest.roles(0).tensors())
    if (tensor.kind() == abi::Tensor::GRADIENT) {
      ++gradients;
      EXPECT_EQ(tensor.parameter(), 0);
      ASSERT_EQ(tensor.sharding().partial_size(), 1);
      EXPECT_EQ(tensor.sharding().partial(0).axis(), "dp");
      EXPECT_THAT(tensor.sharding().reductions(), ElementsAre(abi::SUM));
    }
  EXPECT_EQ(gradients, 1);
}

TEST_F(ManifestTest, SlotsBearTheOptimizersNames) {
  std::vector<std::string> slots;
  for (const abi::Tensor &tensor : manifest.roles(0).tensors())
    if (tensor.kind() == abi::Tensor::SLOT)
      slots.push_back(tensor.name() + "." + tensor.slot());
    else
      EXPECT_EQ(tensor.slot(), "");
  EXPECT_THAT(slots, testing::UnorderedElementsAre("h.0.w.exp_avg", "h.0.w.exp_avg_sq"));
}

TEST_F(ManifestTest, TimetablesAreWrittenOneToOne) {
  auto entered = [&](std::string_view timetable) {
    std::vector<std::pair<std::string, int64_t>> lists;
    for (const abi::TimetableEntry &entry : abi::timetableOf(manifest.roles(0), timetable).period())
      lists.emplace_back(entry.list(), entry.has_micro_batch() ? entry.micro_batch() : -1);
    return lists;
  };
  EXPECT_THAT(entered(abi::stepTimetable),
              ElementsAre(std::pair("micro", 0), std::pair("micro", 1), std::pair("update", -1)));
  EXPECT_THAT(entered(abi::evaluationTimetable), ElementsAre(std::pair("eval", 0)));
}

} // namespace
} // namespace dtc
