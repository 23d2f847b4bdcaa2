// Equal layers share kernels: nothing that names a place in a model reaches the code.
#include "test/e2e/compiled_model.h"

#include <gmock/gmock.h>

#include <set>

namespace dtc::test {
namespace {

struct SharedCase {
  const char *model, *mesh, *strategy;
  double dropout;
  int64_t accumulation;
  const char *recompute = "cheap";
};

void PrintTo(const SharedCase &shared, std::ostream *out) {
  *out << shared.model << ' ' << shared.mesh << ' ' << shared.strategy << " dropout " << shared.dropout
       << " accumulation " << shared.accumulation << " recompute " << shared.recompute;
}

/// The distinct texts of the kernels of a model with this many layers, without their names, and how many kernels there
/// are.
std::pair<std::set<std::string>, int> kernelsOf(const SharedCase &shared, int64_t layers) {
  auto symbols = smallSymbols(shared.model);
  symbols["layers"] = layers;
  Choices choices;
  choices.recompute = {{"*", *parseRecomputeRuns(shared.recompute), ""}};
  CompiledModel model({.model = shared.model,
                       .mesh = shared.mesh,
                       .strategy = shared.strategy,
                       .accumulation = shared.accumulation,
                       .symbols = symbols,
                       .dropout = shared.dropout,
                       .expect = false,
                       .choices = choices});
  EXPECT_TRUE(model.succeeded);
  std::set<std::string> texts;
  for (const abi::Kernel &kernel : model.manifest.kernels()) {
    std::string text = kernel.library() ? kernel.symbol() : kernel.reference();
    if (!kernel.library())
      text.replace(text.find(kernel.symbol()), kernel.symbol().size(), "kernel");
    texts.insert(text);
  }
  return {texts, model.manifest.kernels_size()};
}

class SharedKernels : public testing::TestWithParam<SharedCase> {};

TEST_P(SharedKernels, AreAsManyForAnyNumberOfLayers) {
  auto [four, count] = kernelsOf(GetParam(), 4);
  EXPECT_EQ(count, int(four.size())) << "equal kernels share a symbol";
  for (int64_t layers : {16, 64}) {
    auto [more, moreCount] = kernelsOf(GetParam(), layers);
    EXPECT_EQ(moreCount, count) << layers << " layers";
    // The norm of all gradients is a sum of one number for each parameter, and the optimizer updates all parameters
    // that decay at once, and likewise the others: such kernels have other sizes.
    for (const std::string &text : four)
      more.erase(text);
    EXPECT_LE(more.size(), 3U) << *more.begin();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SharedKernels,
                         testing::Values(SharedCase{"gpt-small", "dp=1", "megatron", 0, 1},
                                         SharedCase{"gpt-small", "dp=1", "megatron", 0.1, 2},
                                         SharedCase{"gpt-small", "dp=2,tp=2", "megatron", 0.1, 2},
                                         SharedCase{"gpt-small", "tp=2", "megatron-sp", 0.1, 1},
                                         SharedCase{"llama-small", "dp=2", "ddp", 0, 1},
                                         SharedCase{"llama-small", "dp=2,tp=2", "megatron", 0, 2},
                                         SharedCase{"gpt-small", "dp=2", "zero3", 0.1, 1, "full"},
                                         SharedCase{"llama-small", "tp=2", "megatron-sp", 0, 1, "selective"},
                                         SharedCase{"gpt-small", "dp=1", "ddp", 0.1, 2, "every:2"},
                                         SharedCase{"gpt-small", "dp=1", "ddp", 0.1, 1, "1 full, 1 cheap"}));

} // namespace
} // namespace dtc::test
