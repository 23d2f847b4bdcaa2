// Parameters that are kept in the type in which products compute: every number equals the one without such copies.
#include "runtime/abi/timetables.h"
#include "test/e2e/training_job.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::Contains, testing::Not;

const abi::CommandList &listOf(const abi::Manifest &manifest, const std::string &name) {
  for (const abi::CommandList &list : manifest.lists())
    if (list.name() == name)
      return list;
  throw std::logic_error("no list " + name);
}

/// Launches of kernels that only convert.
int conversionsIn(const abi::Manifest &manifest, const std::string &list) {
  int count = 0;
  for (const abi::Command &command : listOf(manifest, list).commands())
    if (command.has_launch())
      count += manifest.kernels(int(command.launch().kernel())).symbol().starts_with("convert_");
  return count;
}

std::vector<std::string> copiedParameters(const abi::Manifest &manifest) {
  std::vector<std::string> names;
  for (const abi::Tensor &tensor : manifest.roles(0).tensors())
    if (tensor.kind() == abi::Tensor::COPY)
      names.push_back(tensor.name());
  return names;
}

struct Copying {
  const char *name;
  Case model;
  bool isGpu;
};

void PrintTo(const Copying &each, std::ostream *out) { *out << each.name; }

/// All numbers that training reports.
struct Numbers {
  std::vector<double> evaluations, steps;
  int64_t skipped = 0;
  bool operator==(const Numbers &) const = default;
};

class Copies : public testing::TestWithParam<Copying> {
protected:
  Copies() { writeTokens(directory / "tokens.bin"); }

  /// Calls work(job). One job at a time: two shared objects in memory may have the same name.
  template <typename Work> auto with(bool copies, Work work) const {
    Job job(GetParam().model, GetParam().isGpu, directory / "tokens.bin", /*graphs=*/true, copies);
    EXPECT_TRUE(job.compiled.succeeded);
    EXPECT_EQ(copiedParameters(job.compiled.manifest).empty(), !copies);
    EXPECT_EQ(abi::timetableOf(job.compiled.manifest.roles(0), abi::refreshTimetable).period_size(), copies ? 1 : 0);
    return work(job);
  }

  static bool isScaled() { return GetParam().model.compute == std::string("f16"); }

  TemporaryDirectory directory;
};

// Clipping and dropout included. Gradients of f16 overflow at first: a skipped step leaves the copies unchanged.
TEST_P(Copies, ChangeNoNumber) {
  constexpr int64_t steps = 6;
  std::map<bool, std::pair<int, int>> conversions;
  auto train = [&](Job &job) {
    const abi::Manifest &manifest = job.compiled.manifest;
    conversions[!abi::timetableOf(manifest.roles(0), abi::refreshTimetable).period().empty()] = {
        conversionsIn(manifest, "micro_last"), conversionsIn(manifest, "eval")};
    Numbers numbers{{job.evaluate()}, {}, 0}; // of the initial weights
    if (isScaled())
      job.setLossScale(0x1p+24);
    for (int64_t step = 0; step < steps; ++step) {
      for (double number : job.train(step, step + 1))
        numbers.steps.push_back(number);
      numbers.evaluations.push_back(job.evaluate());
    }
    numbers.skipped = job.skipped();
    return numbers;
  };
  Numbers got = with(true, train), want = with(false, train);
  EXPECT_EQ(got.evaluations, want.evaluations);
  EXPECT_EQ(got.steps, want.steps);
  EXPECT_EQ(got.skipped, want.skipped);
  EXPECT_LT(conversions[true].first, conversions[false].first);
  EXPECT_LT(conversions[true].second, conversions[false].second);
  EXPECT_EQ(got.skipped > 0, isScaled());
  EXPECT_LT(got.skipped, steps);
}

// A checkpoint holds no copies, so that either program reads the other's; copies are made again after loading.
TEST_P(Copies, AreMadeOfACheckpoint) {
  std::string path;
  std::vector<double> all = with(true, [&](Job &job) {
    job.train(0, 2);
    path = job.save(directory / "checkpoints", 2);
    return job.train(2, 4);
  });
  auto resume = [&](Job &job) {
    job.load(path);
    std::vector<double> numbers{job.evaluate()};
    for (double number : job.train(2, 4))
      numbers.push_back(number);
    return numbers;
  };
  std::vector<double> got = with(true, resume), want = with(false, resume);
  EXPECT_EQ(got, want);
  EXPECT_EQ(std::vector<double>(got.begin() + 1, got.end()), all);
}

// The command list computes what the model means, copies included.
TEST_P(Copies, AreVerified) {
  const Case &each = GetParam().model;
  const char *target = GetParam().isGpu ? "cuda:sm_90" : "native";
  CompiledModel compiled(
      smallSetup(each.model, each.layout, {.compute = each.compute, .target = target, .copies = true}));
  ASSERT_TRUE(compiled.expectation);
  EXPECT_THAT(copiedParameters(compiled.manifest), Not(testing::IsEmpty()));
  verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest, verify::f64Tolerance);
  EXPECT_EQ(report.failure, "");
}

const Layout one{"one", "dp=1", "ddp", 1}, accumulated{"accumulated", "dp=1", "ddp", 3}, ddp{"ddp", "dp=2", "ddp", 1},
    tensors{"megatron", "tp=2", "megatron", 2}, pieces{"zero3", "dp=2", "zero3", 2};

INSTANTIATE_TEST_SUITE_P(Models, Copies,
                         testing::Values(Copying{"gpt", {"gpt-small", one, "bf16", 0}, false},
                                         Copying{"llama_accumulated", {"llama-small", accumulated, "bf16", 0}, false},
                                         Copying{"gpt_accumulated", {"gpt-small", accumulated, "bf16", 0}, false},
                                         Copying{"gpt_scaled", {"gpt-small", one, "f16", 0}, false},
                                         Copying{"gpt_ddp", {"gpt-small", ddp, "bf16", 0}, false},
                                         Copying{"llama_megatron", {"llama-small", tensors, "bf16", 0}, false},
                                         Copying{"gpt_zero3", {"gpt-small", pieces, "bf16", 0}, false},
                                         Copying{"gpt_gpu", {"gpt-small", accumulated, "bf16", 0}, true},
                                         Copying{"gpt_odd_gpu", {"gpt-small", one, "bf16", 0, /*isOdd=*/true}, true},
                                         Copying{"llama_ddp_gpu", {"llama-small", ddp, "bf16", 0}, true},
                                         Copying{"llama_zero3_gpu", {"llama-small", pieces, "bf16", 0}, true}),
                         [](const auto &info) { return std::string(info.param.name); });

// Parameters with copies are adjacent, as are those without, separately for those that decay and for the others.
TEST(CopiesOfAnUpdate, AreWrittenByItsFewLaunches) {
  std::map<std::string, int64_t> symbols = smallSymbols("gpt-small");
  symbols["vocab"] = symbols["embed"] = symbols["mlp"] = 128; // whole cache lines in 16 bits, too
  symbols["head_dim"] = 32;
  auto commandsOf = [&](bool copies, const char *list) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "dp=1",
                            .strategy = "ddp",
                            .symbols = symbols,
                            .expect = false,
                            .compute = "bf16",
                            .target = "cuda:sm_90",
                            .copies = copies});
    return listOf(compiled.manifest, list).commands_size();
  };
  EXPECT_EQ(commandsOf(true, "update"), commandsOf(false, "update") + 2);
  EXPECT_EQ(commandsOf(true, "refresh"), 2);
}

/// Parameters of a program for a target, with the target's default for copies.
std::vector<std::string> copiedBy(const char *target, const char *compute, const Layout &layout) {
  CompiledModel compiled(smallSetup("gpt-small", layout, {.expect = false, .compute = compute, .target = target}));
  EXPECT_TRUE(compiled.succeeded);
  return copiedParameters(compiled.manifest);
}

TEST(CopiesOfATarget, AreThoseOfGpusIn16Bits) {
  EXPECT_THAT(copiedBy("cuda:sm_90", "bf16", one), Contains("h.0.mlp.c_fc.weight"));
  EXPECT_THAT(copiedBy("cuda:sm_90", "bf16", one), Not(Contains("h.0.ln_1.weight"))) << "it is read in f32";
  EXPECT_THAT(copiedBy("cuda:sm_90", "f32", one), testing::IsEmpty());
  EXPECT_THAT(copiedBy("native", "bf16", one), testing::IsEmpty());
}

// Copying what is gathered after its update would take one more launch.
TEST(CopiesOfATarget, AreNotOfWhatIsGatheredAfterItsUpdate) {
  for (const char *strategy : {"zero1", "zero2"})
    EXPECT_THAT(copiedBy("cuda:sm_90", "bf16", {strategy, "dp=2", strategy, 1}), testing::IsEmpty()) << strategy;
}

} // namespace
} // namespace dtc::test
