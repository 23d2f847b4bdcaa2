// The phase "where" changes nothing: a training step on whole tensors and the same step on all ranks' pieces, both run
// by the reference interpreter in f64.
#include "dialect/IR/Names.h"
#include "dialect/reference/Shards.h"
#include "passes/place/Attributes.h"
#include "test/passes/place/support.h"

#include <random>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

struct Case {
  const char *name;
  const char *model; ///< below test/e2e/oracle
  const char *mesh;
  const char *strategy;
  int64_t accumulation = 1;
  std::map<std::string, int64_t> symbols = {};
  int64_t sequence = 8;
  const char *compute = "f32", *gradients = "f32";
};

void PrintTo(const Case &c, std::ostream *stream) { *stream << c.name; }

/// A tensor of the step: whole, and as every rank holds it.
struct Twin {
  HostTensor whole;
  HostTensors pieces;
};

class Where : public dtc::test::WhereTest, public testing::WithParamInterface<Case> {
protected:
  void compile() {
    const Case &c = GetParam();
    ModelOptions options;
    options.batch = 4;
    options.sequence = c.sequence;
    options.dropout = 0.2;
    options.symbols = c.symbols;
    whole = buildWhat(std::string("test/e2e/oracle/") + c.model, options, c.accumulation, c.compute, c.gradients);
    local = whole->clone();
    ASSERT_TRUE(succeeded(runWhere(*local, c.mesh, c.strategy))) << errors;
    mesh = (*local)->getAttrOfType<MeshAttr>(module_attr::mesh);
  }

  /// Runs a function on both sides; its results are compared and kept for the functions after it.
  void step(StringRef name) {
    auto before = whole->lookupSymbol<func::FuncOp>(name), after = local->lookupSymbol<func::FuncOp>(name);
    ASSERT_TRUE(before && after) << name.str();
    HostTensors arguments;
    SmallVector<HostTensors> ranks(mesh.getNumRanks());
    for (unsigned i = 0; i < after.getNumArguments(); ++i) {
      Twin &twin = argument(after, i);
      arguments.push_back(twin.whole);
      for (auto [rank, piece] : llvm::enumerate(twin.pieces))
        ranks[rank].push_back(piece);
    }
    FailureOr<HostTensors> expected = interpret(before, arguments);
    FailureOr<SmallVector<HostTensors>> actual = interpret(after, mesh, ranks);
    ASSERT_TRUE(succeeded(expected) && succeeded(actual)) << name.str() << ": " << errors;
    for (unsigned i = 0; i < after.getNumResults(); ++i) {
      Twin twin{(*expected)[i], {}};
      for (const HostTensors &rank : *actual)
        twin.pieces.push_back(rank[i]);
      PortAttr port = resultPort(after, i);
      compare(twin, port.getStored(), name.str() + ": " + port.describe(), port.isOfParameter());
      tensors[port.identity()] = std::move(twin);
    }
  }

  /// The result of an earlier function, or an initial value made up here.
  Twin &argument(func::FuncOp function, unsigned i) {
    PortAttr port = argumentPort(function, i);
    auto found = tensors.find(port.identity());
    if (found != tensors.end())
      return found->second;
    Twin twin{makeUp(port), {}};
    twin.pieces = scatter(twin.whole, port.getStored(), mesh, port.isState() ? 0 : poisonValue);
    return tensors[port.identity()] = std::move(twin);
  }

  HostTensor makeUp(PortAttr port) {
    HostTensor tensor(port.getWhole().getShape());
    StringRef name = port.getName();
    int64_t vocab =
        cast<IntegerAttr>(whole->getOperation()->getAttrOfType<DictionaryAttr>(module_attr::symbols).get("vocab"))
            .getInt();
    std::normal_distribution<double> normal(0, 0.3);
    std::uniform_int_distribution<int64_t> token(0, vocab - 1);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if (name == "key")
        tensor[i] = std::array<double, 4>{3, 5, 8, 0}[i];
      else if (name == "tokens" || name == "targets")
        tensor[i] = name == "targets" && i % 5 == 0 ? -100 : static_cast<double>(token(random));
      else
        tensor[i] = port.getKind() == PortKind::Slot || port.getKind() == PortKind::Input ? std::abs(normal(random))
                                                                                          : normal(random);
    }
    return tensor;
  }

  void compare(const Twin &twin, ShardingAttr sharding, const std::string &what, bool state) {
    std::string problem;
    std::optional<HostTensor> gathered = gather(twin.pieces, sharding, mesh, twin.whole.shape, problem);
    ASSERT_TRUE(gathered) << what << ": " << problem;
    double scale = 1e-3;
    for (double element : *twin.whole.elements)
      scale = std::max(scale, std::abs(element));
    for (int64_t i = 0; i < twin.whole.size(); ++i)
      ASSERT_NEAR(twin.whole[i], (*gathered)[i], 1e-9 * scale) << what << ", element " << i;
    if (state && sharding.getPartial().empty()) // padding is zero
      for (auto [piece, zeroPadded] : llvm::zip_equal(twin.pieces, scatter(*gathered, sharding, mesh, 0)))
        ASSERT_EQ(*piece.elements, *zeroPadded.elements) << what;
  }

  OwningOpRef<ModuleOp> whole, local;
  MeshAttr mesh;
  llvm::DenseMap<PortIdentity, Twin> tensors;
  std::mt19937 random{7};
};

TEST_P(Where, StepIsUnchanged) {
  compile();
  if (HasFatalFailure())
    return;
  step(function::micro);
  if (GetParam().accumulation > 1)
    step(function::microNext);
  step(function::reduce);
  step(function::update);
  step(function::eval);
}

INSTANTIATE_TEST_SUITE_P(
    Presets, Where,
    testing::Values(
        Case{"gpt2_one", "gpt2", "dp=1", "ddp"}, Case{"gpt2_dp4", "gpt2", "dp=4", "ddp", 2},
        Case{"gpt2_tp4", "gpt2", "tp=4", "megatron"}, Case{"gpt2_dp2_tp2", "gpt2", "dp=2,tp=2", "megatron", 2},
        Case{"gpt2_sp4", "gpt2", "tp=4", "megatron-sp"}, Case{"gpt2_dp2_sp2", "gpt2", "dp=2,tp=2", "megatron-sp", 2},
        Case{"gpt2_odd_sequence", "gpt2", "dp=2,tp=2", "megatron-sp", 1, {}, 7},
        Case{"gpt2_tp3", "gpt2", "tp=3", "megatron"}, Case{"gpt2_sp3", "gpt2", "tp=3", "megatron-sp", 2},
        Case{"llama_dp4", "llama", "dp=4", "ddp"}, Case{"llama_tp2", "llama", "tp=2", "megatron"},
        Case{"llama_tp4", "llama", "tp=4", "megatron", 2}, Case{"llama_dp2_tp4", "llama", "dp=2,tp=4", "megatron", 2},
        Case{"gpt2_more_ranks_than_heads", "gpt2", "tp=8", "megatron-sp", 2},
        Case{"gpt2_tp2_dp2", "gpt2", "tp=2,pp=1,dp=2", "megatron"}, Case{"llama_tp8", "llama", "tp=8", "megatron", 2},
        Case{"llama_sp4_odd", "llama", "tp=4", "megatron-sp", 2, {}, 7},
        Case{"llama_one_key_head", "llama", "dp=2,tp=4", "megatron", 2, {{"kv_heads", 1}}},
        Case{"llama_dp2_sp2", "llama", "dp=2,tp=2", "megatron-sp", 2},
        Case{"llama_tied_sp4", "llama_tied", "tp=4", "megatron-sp", 2}, Case{"gpt2_zero1", "gpt2", "dp=4", "zero1", 2},
        Case{"gpt2_zero2", "gpt2", "dp=4", "zero2", 2}, Case{"gpt2_zero3", "gpt2", "dp=4", "zero3", 2},
        Case{"gpt2_hsdp", "gpt2", "dp=4", "hsdp:2", 2}, Case{"gpt2_zero3_tp2", "gpt2", "dp=2,tp=2", "zero3", 2},
        Case{"gpt2_zero3_uneven", "gpt2", "dp=4,tp=3", "zero3", 2, {{"mlp", 10}}},
        Case{"gpt2_zero2_sp2", "gpt2", "dp=2,tp=2", "megatron-sp+zero2"},
        Case{"gpt2_zero1_one_micro_batch", "gpt2", "dp=2,tp=2", "zero1"},
        Case{"llama_zero1", "llama", "dp=4", "zero1", 2}, Case{"llama_zero2_tp2", "llama", "dp=2,tp=2", "zero2", 2},
        Case{"llama_zero3_sp4", "llama", "dp=2,tp=4", "megatron-sp+zero3", 2},
        Case{"llama_hsdp_tp2", "llama", "dp=4,tp=2", "hsdp:2", 2},
        Case{"llama_tied_zero3", "llama_tied", "dp=4", "zero3", 2}, Case{"gpt2_cp2", "gpt2", "cp=2", "cp"},
        Case{"llama_dp2_cp4", "llama", "dp=2,cp=4", "cp", 2}, Case{"gpt2_cp8", "gpt2", "cp=8", "cp", 2},
        Case{"llama_cp2_tp4", "llama", "cp=2,tp=4", "cp", 2},
        Case{"gpt2_cp3_tp2_sp", "gpt2", "cp=3,tp=2", "megatron-sp+cp", 2, {}, 9},
        Case{"llama_tied_cp2_zero3", "llama_tied", "dp=2,cp=2", "zero3+cp", 2},
        Case{"gpt2_cp2_zero1", "gpt2", "dp=2,cp=2,tp=2", "zero1+cp", 2},
        Case{"llama_cp2_hsdp", "llama", "dp=4,cp=2", "hsdp:2+cp"},
        Case{"llama_bf16_cp2_zero2", "llama", "dp=2,cp=2", "zero2+cp", 2, {}, 8, "bf16", "bf16"},
        Case{"gpt2_bf16_dp2_tp2", "gpt2", "dp=2,tp=2", "megatron", 2, {}, 8, "bf16"},
        Case{"gpt2_bf16_zero3_tp2", "gpt2", "dp=2,tp=2", "zero3", 2, {}, 8, "bf16", "bf16"},
        Case{"gpt2_bf16_zero2", "gpt2", "dp=4", "zero2", 1, {}, 8, "bf16", "bf16"},
        Case{"gpt2_bf16_gradients", "gpt2", "dp=4", "ddp", 2, {}, 8, "f32", "bf16"},
        Case{"llama_bf16_sp2", "llama", "dp=2,tp=2", "megatron-sp", 1, {}, 7, "bf16", "bf16"},
        Case{"llama_bf16_zero3", "llama", "dp=4", "zero3", 1, {}, 8, "bf16"}),
    [](const testing::TestParamInfo<Case> &info) { return std::string(info.param.name); });

} // namespace
