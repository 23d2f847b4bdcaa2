// The native program in bf16: how far it differs from f64, compared with PyTorch's autocast and between layouts.
#include "runtime/weights/safetensors.h"
#include "test/e2e/native_subject.h"

#include <map>

namespace dtc::test {
namespace {

using mlir::dt::PortKind;

double squares(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return sum;
}

/// The record of make_bf16.py for one model, and the model's weights.
class Record {
public:
  explicit Record(const std::string &model)
      : directory(std::string(DTC_SOURCE_DIR) + "/test/e2e/oracle/" + model), weights(directory),
        file(directory + "/bf16.safetensors") {}

  std::vector<double> read(const std::string &name) const { return read({&file, file.find(name)}, name); }
  std::vector<double> weight(const std::string &name) const { return read(weights.find(name), name); }

private:
  static std::vector<double> read(const SafetensorsModel::Found &found, const std::string &name) {
    if (!found.entry)
      throw std::logic_error("no tensor " + name);
    std::vector<double> values(found.entry->elements());
    if (found.entry->type != "I32") {
      found.file->read(*found.entry, 0, 1, std::span<double>(values));
      return values;
    }
    std::vector<int32_t> integers(values.size());
    std::memcpy(integers.data(), found.file->bytes(*found.entry).data(), integers.size() * sizeof(int32_t));
    values.assign(integers.begin(), integers.end());
    return values;
  }

  std::string directory;
  SafetensorsModel weights;
  SafetensorsFile file;
};

/// A tensor of the file as the parameter's logical tensor: permute(reshape(file, factored)).
HostTensor toLogical(const abi::Parameter &parameter, llvm::ArrayRef<double> file) {
  int rank = parameter.factored_shape_size();
  std::vector<int64_t> strides(rank, 1);
  for (int dim = rank - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * parameter.factored_shape(dim + 1);
  HostTensor logical(llvm::ArrayRef<int64_t>(parameter.logical_shape().data(), size_t(rank)));
  for (int64_t i = 0; i < logical.size(); ++i) {
    int64_t rest = i, source = 0;
    for (int dim = rank - 1; dim >= 0; --dim) {
      source += rest % logical.shape[dim] * strides[parameter.permutation(dim)];
      rest /= logical.shape[dim];
    }
    logical[i] = file[source];
  }
  return logical;
}

class Autocast : public testing::TestWithParam<const char *> {};

/// Losses and gradients of six batches, for the loss and for each parameter: more than twice the deviation of autocast
/// fails.
TEST_P(Autocast, StraysTwiceAsFarAtLeast) {
  constexpr int64_t batches = 6, samples = 2, sequence = 16;
  Record record(GetParam());
  CompiledModel compiled({.model = std::string("test/e2e/oracle/") + GetParam(),
                          .mesh = "dp=1",
                          .strategy = "ddp",
                          .batch = samples,
                          .sequence = sequence,
                          .dropout = 0,
                          .generateCode = true,
                          .expect = false,
                          .compute = "bf16"});
  ASSERT_TRUE(compiled.succeeded);
  NativeSubject subject(compiled);
  for (const abi::Parameter &parameter : compiled.manifest.parameters())
    subject.provide({PortKind::Parameter, parameter.name(), ""}, toLogical(parameter, record.weight(parameter.name())));
  std::vector<double> tokens = record.read("tokens"), targets = record.read("targets"),
                      losses = record.read("loss_sum");
  std::map<std::string, std::vector<double>> exact, differences;
  for (int64_t batch = 0; batch < batches; ++batch) {
    auto provide = [&](const char *name, const std::vector<double> &all) {
      HostTensor tensor({samples, sequence});
      std::copy_n(all.begin() + batch * tensor.size(), tensor.size(), tensor.elements->begin());
      subject.provide({PortKind::Input, name, ""}, tensor);
    };
    provide("tokens", tokens);
    provide("targets", targets);
    subject.provide({PortKind::Input, "key", ""}, HostTensor({4}));
    subject.run("micro_last");
    auto compare = [&](const std::string &name, const HostTensor &expected, const verify::TensorKey &key) {
      HostTensor actual = subject.read(key).ofRanks[0];
      for (int64_t i = 0; i < expected.size(); ++i) {
        exact[name].push_back(expected[i]);
        differences[name].push_back(actual[i] - expected[i]);
      }
    };
    compare("loss", HostTensor({}, losses[batch]), {PortKind::Output, "loss_sum", ""});
    for (const abi::Parameter &parameter : compiled.manifest.parameters()) {
      std::vector<double> all = record.read("gradient." + parameter.name());
      llvm::ArrayRef<double> own = llvm::ArrayRef(all).slice(batch * (all.size() / batches), all.size() / batches);
      compare(parameter.name(), toLogical(parameter, own), {PortKind::ReducedGradient, parameter.name(), ""});
    }
  }
  double meanSquare = 0;
  for (const abi::Parameter &parameter : compiled.manifest.parameters())
    meanSquare += squares(exact[parameter.name()]) / compiled.manifest.parameters_size();
  for (const auto &[name, values] : exact) {
    double least = name == "loss" ? 0 : 1e-6 * meanSquare;
    double deviation = std::sqrt(squares(differences[name]) / std::max(squares(values), least));
    double autocast = record.read("autocast." + name)[0];
    EXPECT_LE(deviation, 2 * autocast) << name;
    EXPECT_GE(deviation, 1e-6) << name << ": nothing was rounded";
    RecordProperty(name, std::to_string(deviation) + " autocast " + std::to_string(autocast));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Autocast, testing::Values("gpt2", "llama"));

class Bf16 : public testing::TestWithParam<std::tuple<const char *, Layout>> {};

/// On its way through two layers and back a value is rounded about 48 times, each time by at most 2^-9 of itself: as a
/// random walk that is 1.4e-2 of a gradient. Three times that is allowed; it includes what a layout adds, a rounding
/// where partial sums meet. All layouts are that close to the same numbers in f64, so any two of them agree within
/// twice the bound. The loss is a sum over tokens, whose errors cancel.
TEST_P(Bf16, LayoutsStayNearF64) {
  constexpr double ofGradients = 0.04, ofLoss = 6e-4;
  auto [model, layout] = GetParam();
  CompiledModel compiled(smallSetup(model, layout, {.generateCode = true, .compute = "bf16", .gradients = "bf16"}));
  ASSERT_TRUE(compiled.expectation);
  NativeSubject subject(compiled);
  verify::VerifyReport report = verify::verify(*compiled.expectation, subject, /*tolerance=*/1);
  size_t gradients = 0, losses = 0;
  for (const verify::Comparison &comparison : report.comparisons) {
    bool isGradient = comparison.tensor.find("gradient of") != std::string::npos;
    bool isLoss = comparison.tensor.find("loss_sum") != std::string::npos;
    gradients += isGradient, losses += isLoss;
    if (isGradient || isLoss) {
      EXPECT_LE(comparison.error, (isLoss ? ofLoss : ofGradients) * comparison.bound)
          << comparison.list << ": " << comparison.tensor;
    }
  }
  EXPECT_GT(gradients, 20u);
  EXPECT_GT(losses, 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Bf16,
    testing::Combine(testing::Values("gpt-small", "llama-small"),
                     testing::Values(Layout{"one", "dp=1", "ddp", 1}, Layout{"dp4", "dp=4", "ddp", 1},
                                     Layout{"tp4", "tp=4", "megatron", 1},
                                     Layout{"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
                                     Layout{"zero3", "dp=4", "zero3", 2}, Layout{"tp3_sp", "tp=3", "megatron-sp", 1})),
    nameOf);

} // namespace
} // namespace dtc::test
