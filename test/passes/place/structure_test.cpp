// Which collectives the presets give the shipped examples.
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Pass/Pass.h"
#include "passes/pipelines/Compile.h"
#include "test/passes/place/support.h"
#include "test/runtime/temporary_directory.h"
#include "gmock/gmock.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;
using testing::AllOf;
using testing::HasSubstr;

namespace {

/// Collectives by name.
struct Counts {
  int allReduce = 0, allGather = 0, reduceScatter = 0, allToAll = 0;
  bool operator==(const Counts &) const = default;
};

void PrintTo(const Counts &counts, std::ostream *stream) {
  *stream << counts.allReduce << " all_reduce, " << counts.allGather << " all_gather, " << counts.reduceScatter
          << " reduce_scatter, " << counts.allToAll << " all_to_all";
}

class Structure : public dtc::test::WhereTest {
protected:
  void compile(const std::string &model, const std::string &mesh, const std::string &strategy,
               std::map<std::string, int64_t> symbols = {}) {
    ModelOptions options;
    options.batch = 8;
    options.sequence = 64;
    options.symbols = std::move(symbols);
    module = buildWhat(model, options);
    ASSERT_TRUE(succeeded(runWhere(*module, mesh, strategy))) << errors;
  }

  func::FuncOp function(StringRef name) { return module->lookupSymbol<func::FuncOp>(name); }

  /// In all of a function, or in one layer.
  Counts count(StringRef name, StringRef layer = "") {
    Counts counts;
    function(name).walk([&](CollectiveOpInterface op) {
      LayerAttr opLayer = marksOf(op).layer;
      if (!layer.empty() && (!opLayer || opLayer.fullName() != layer))
        return;
      counts.allReduce += isa<AllReduceOp>(op);
      counts.allGather += isa<AllGatherOp>(op);
      counts.reduceScatter += isa<ReduceScatterOp>(op);
      counts.allToAll += isa<AllToAllOp>(op);
    });
    return counts;
  }

  OwningOpRef<ModuleOp> module;
};

TEST_F(Structure, DataParallelismReducesEachGradientOnceAStep) {
  compile("examples/gpt-small", "dp=4", "ddp");
  EXPECT_EQ(count(function::micro), Counts());
  int parameters = static_cast<int>((*module)->getAttrOfType<ArrayAttr>(module_attr::parameters).size());
  EXPECT_EQ(count(function::reduce), Counts{.allReduce = parameters + 1}); // and one for loss and count
  EXPECT_EQ(count(function::update), Counts());
}

// For the 12 parameters of a layer.
TEST_F(Structure, ZeroScattersGradientsAndGathersParameters) {
  compile("examples/gpt-small", "dp=4", "zero1");
  EXPECT_EQ(count(function::micro), Counts());
  EXPECT_EQ(count(function::reduce, "h.1"), Counts{.reduceScatter = 12});
  EXPECT_EQ(count(function::update, "h.1"), Counts{.allGather = 12});
  compile("examples/gpt-small", "dp=4", "zero2");
  EXPECT_EQ(count(function::micro, "h.1"), Counts{.reduceScatter = 12});
  EXPECT_EQ(count(function::reduce, "h.1"), Counts());
  EXPECT_EQ(count(function::update, "h.1"), Counts{.allGather = 12});
  // Each is read forward; the four matrices and the scales of two norms are read backward too.
  compile("examples/gpt-small", "dp=4", "zero3");
  EXPECT_EQ(count(function::micro, "h.1"), (Counts{.allGather = 12 + 6, .reduceScatter = 12}));
  EXPECT_EQ(count(function::eval, "h.1"), Counts{.allGather = 12});
  EXPECT_EQ(count(function::update), Counts());
  // Shards are exchanged within pairs of ranks, their sums between the pairs.
  compile("examples/gpt-small", "dp=4", "hsdp:2");
  EXPECT_EQ(count(function::micro, "h.1"), (Counts{.allReduce = 12, .allGather = 12 + 6, .reduceScatter = 12}));
}

// What is gathered for the forward pass is gathered again for the backward pass, not kept.
TEST_F(Structure, GatheredParametersAreReadOnce) {
  compile("examples/gpt-small", "dp=2", "zero3");
  function(function::micro).walk([&](AllGatherOp gather) {
    EXPECT_TRUE(gather.getResult().hasOneUse()) << gather.getReason()->str();
  });
}

TEST_F(Structure, TensorParallelismReducesOncePerBlockAndDirection) {
  compile("examples/gpt-small", "dp=2,tp=2", "megatron");
  EXPECT_EQ(count(function::micro, "h.1"), Counts{.allReduce = 4});
  EXPECT_EQ(count(function::eval, "h.1"), Counts{.allReduce = 2});
  compile("examples/llama-small", "tp=2", "megatron");
  EXPECT_EQ(count(function::micro, "model.layers.1"), Counts{.allReduce = 4});
}

// The key/value heads that ranks share get partial gradients, which join the one reduction of the block.
TEST_F(Structure, FewerKeyValueHeadsThanRanksCostNothingMore) {
  compile("test/e2e/oracle/llama", "dp=2,tp=4", "megatron", {{"positions", 64}});
  EXPECT_EQ(count(function::micro, "model.layers.1"), Counts{.allReduce = 4});
}

// Six key/value heads over four ranks: two each, the last two padding. Groups of query heads stay together.
TEST_F(Structure, MoreKeyValueHeadsThanRanksAreSplitAlone) {
  compile("test/e2e/oracle/llama", "tp=4", "megatron", {{"positions", 64}, {"kv_heads", 6}});
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  EXPECT_EQ(text.find("\"tp\":("), std::string::npos);
  EXPECT_EQ(count(function::micro, "model.layers.1"), Counts{.allReduce = 4});
}

TEST_F(Structure, SequenceParallelismGathersBeforeAndScattersAfterEachBlock) {
  for (auto [model, layer] : {std::pair("examples/gpt-small", "h.1"), {"examples/llama-small", "model.layers.1"}}) {
    compile(model, "dp=2,tp=2", "megatron-sp");
    EXPECT_EQ(count(function::micro, layer), (Counts{.allGather = 4, .reduceScatter = 4})) << model;
    EXPECT_EQ(count(function::eval, layer), (Counts{.allGather = 2, .reduceScatter = 2})) << model;
  }
}

// Of all activations, only keys and values are gathered; dimensions that another axis splits stay split.
TEST_F(Structure, ContextParallelismGathersKeysAndValues) {
  for (auto [model, layer] : {std::pair("examples/gpt-small", "h.1"), {"examples/llama-small", "model.layers.1"}}) {
    compile(model, "dp=2,cp=2", "cp");
    EXPECT_EQ(count(function::micro), (Counts{.allGather = 2 * 4, .reduceScatter = 2 * 4})) << model;
    EXPECT_EQ(count(function::eval, layer), Counts{.allGather = 2}) << model;
    function(function::micro).walk([&](AllGatherOp gather) {
      EXPECT_THAT(gather.getReason()->str(), HasSubstr("needed whole by dt.attention"));
      EXPECT_EQ(gather.getRemedy()->str(), "[inputs] \"*\" = { sequence = [] }");
    });
    compile(model, "cp=2,tp=2", "cp");
    EXPECT_EQ(count(function::micro, layer), (Counts{.allReduce = 4, .allGather = 2, .reduceScatter = 2})) << model;
    compile(model, "cp=2,tp=2", "megatron-sp+cp");
    EXPECT_EQ(count(function::micro, layer), (Counts{.allGather = 4 + 2, .reduceScatter = 4 + 2})) << model;
  }
}

// The ranks of cp hold the same parameters as those of dp, so state is split among all of them.
TEST_F(Structure, ContextParallelRanksShareState) {
  for (auto [mesh, axes] : {std::pair("dp=2,cp=2", "split over dp, cp along"), {"cp=4", "split over cp along"}}) {
    compile("examples/gpt-small", mesh, "zero3+cp");
    EXPECT_EQ(count(function::micro, "h.1"), (Counts{.allGather = 12 + 6 + 2, .reduceScatter = 12 + 2})) << mesh;
    int stored = 0;
    function(function::micro).walk([&, axes = axes](AllGatherOp gather) {
      stored += gather.getReason()->starts_with(axes) && gather.getRemedy()->starts_with("[storage]");
    });
    EXPECT_GE(stored, 4 * (12 + 6)) << mesh;
  }
  // Two ranks of dp and two of cp hold a copy together.
  compile("examples/gpt-small", "dp=4,cp=2", "hsdp:2+cp");
  EXPECT_EQ(count(function::micro, "h.1"), (Counts{.allReduce = 12, .allGather = 12 + 6 + 2, .reduceScatter = 12 + 2}));
}

// Three numbers a token: the maximum, the sum of exponentials and the target's logit.
TEST_F(Structure, LossNeverGathersLogits) {
  compile("examples/gpt-small", "tp=4", "megatron", {{"vocab", 50257}});
  int perToken = 0;
  function(function::micro).walk([&](CollectiveOpInterface op) {
    perToken += op.getValueType().getRank() == 2;
    EXPECT_TRUE(op.getValueType().getRank() == 2 || op.getValueType().getShape().back() == 256);
  });
  EXPECT_EQ(perToken, 3);
}

TEST_F(Structure, CollectivesSayWhyTheyAreThere) {
  compile("examples/gpt-small", "dp=2,tp=2", "megatron");
  bool found = false;
  function(function::micro).walk([&](AllReduceOp op) {
    found |= op.getReason() == "partial over tp (dt.contract at h.1.attn.c_proj over heads), needed whole by dt.add at "
                               "h.1.attn.c_proj" &&
             op.getRemedy() == "[parameters] \"h.1.attn.*\" = { heads = [] }";
  });
  EXPECT_TRUE(found);
}

class StrategyFile : public Structure {
protected:
  // Each test has its own file: ctest runs several at once.
  std::string write(const std::string &text) { return directory.write("strategy.toml", text); }
  test::TemporaryDirectory directory;

  OwningOpRef<ModuleOp> gptSmall(int64_t batch = 8) {
    ModelOptions options;
    options.batch = batch;
    options.sequence = 64;
    return buildWhat("examples/gpt-small", options);
  }

  struct Refusal {
    const char *mesh, *strategy, *message;
  };
  void expectRefused(ArrayRef<Refusal> cases) {
    OwningOpRef<ModuleOp> what = gptSmall();
    for (const auto &[mesh, strategy, message] : cases) {
      errors.clear();
      OwningOpRef<ModuleOp> copy = what->clone();
      EXPECT_TRUE(failed(runWhere(*copy, mesh, strategy)));
      EXPECT_THAT(errors, HasSubstr(message));
    }
  }

  /// The error that a strategy file causes.
  std::string errorOf(const std::string &text) {
    module = gptSmall();
    EXPECT_TRUE(failed(runWhere(*module, "dp=2,tp=2", write(text))));
    return errors;
  }
};

TEST_F(StrategyFile, StartsFromAPresetAndOverridesIt) {
  compile("examples/gpt-small", "dp=2,tp=2",
          write("preset = \"megatron\"\n[parameters]\n\"h.1.mlp.*\" = { mlp = [] }\n"));
  EXPECT_EQ(count(function::micro, "h.1"), Counts{.allReduce = 2});
  EXPECT_EQ(count(function::micro, "h.2"), Counts{.allReduce = 4});
}

TEST_F(StrategyFile, UnknownParameterSuggestsTheNearest) {
  EXPECT_THAT(
      errorOf("[parameters]\n\"h.1.mlp.c_fd.weight\" = { mlp = [\"tp\"] }\n"),
      HasSubstr("strategy.toml:2: no parameter is named 'h.1.mlp.c_fd.weight' (did you mean 'h.1.mlp.c_fc.weight'?)"));
}

TEST_F(StrategyFile, UnknownAxisSuggestsTheNearest) {
  EXPECT_THAT(errorOf("[inputs]\ntokens = { batch = [\"dq\"] }\n"),
              HasSubstr("strategy.toml:2: the mesh has no axis 'dq' (did you mean 'dp'?)"));
}

TEST_F(StrategyFile, UnknownDimensionSuggestsTheNearest) {
  EXPECT_THAT(errorOf("[parameters]\n\"h.1.mlp.c_fc.weight\" = { mpl = [\"tp\"] }\n"),
              HasSubstr("has no dimension 'mpl' (did you mean 'mlp'?)"));
}

TEST_F(StrategyFile, DimensionOfOthersSaysWhose) {
  EXPECT_THAT(
      errorOf("[parameters]\n\"h.1.mlp.c_fc.weight\" = { vocab = [\"tp\"] }\n"),
      HasSubstr("what 'h.1.mlp.c_fc.weight' matches has no dimension 'vocab', which parameter 'wte.weight' has"));
}

TEST_F(StrategyFile, UnknownKeySuggestsTheNearest) {
  EXPECT_THAT(errorOf("[parameter]\n"), HasSubstr("unknown key 'parameter' (did you mean 'parameters'?)"));
}

// Thousands of parts once caused a segmentation fault.
TEST_F(StrategyFile, DepthIsLimited) {
  std::string deep;
  for (int i = 0; i < 50000; ++i)
    deep += "a.";
  EXPECT_THAT(errorOf("[parameters]\n" + deep + "a = 1\n"),
              HasSubstr("strategy.toml:2: a dotted key has more than 16 parts"));
  EXPECT_THAT(errorOf("[" + deep + "a]\n"), HasSubstr("strategy.toml:1: a dotted key has more than 16 parts"));
}

TEST_F(StrategyFile, OneAxisCannotSplitTwoDimensions) {
  EXPECT_THAT(errorOf("[parameters]\n\"h.1.mlp.c_fc.weight\" = { embed = [\"tp\"], mlp = [\"tp\"] }\n"),
              HasSubstr("cannot place 'h.1.mlp.c_fc.weight': axis tp is used twice"));
}

TEST_F(StrategyFile, AnAxisUsedTwiceSaysByWhom) {
  EXPECT_THAT(errorOf("[parameters]\n\"*mlp*\" = { mlp = [\"tp\"] }\n[storage]\n\"h.1.*\" = { mlp = [\"tp\"] }\n"),
              AllOf(HasSubstr("axis tp is used twice (C1); '*mlp*' ("),
                    HasSubstr("strategy.toml:2) in [parameters] says mlp = [tp]; 'h.1.*' ("),
                    HasSubstr("strategy.toml:4) in [storage] says mlp = [tp]")));
}

TEST_F(StrategyFile, BatchMustDivide) {
  module = gptSmall(/*batch=*/6);
  EXPECT_TRUE(failed(runWhere(*module, "dp=4", "ddp")));
  EXPECT_THAT(errors,
              HasSubstr("dimension batch of size 6 does not divide over 4 ranks; change the batch or the mesh"));
}

TEST_F(StrategyFile, SequenceMustDivide) {
  module = gptSmall(); // sequences of 64
  EXPECT_TRUE(failed(runWhere(*module, "cp=3", "cp")));
  EXPECT_THAT(errors,
              HasSubstr("dimension sequence of size 64 does not divide over 3 ranks; change the sequence length "
                        "or the mesh"));
}

// Storage, slots and gradients of chosen parameters; the rest is stored as it is computed with.
TEST_F(StrategyFile, PlacesEachThatBelongsToAParameter) {
  compile(
      "examples/gpt-small", "dp=2,tp=2",
      write(
          "preset = \"megatron\"\n[storage]\n\"h.1.mlp.*\" = { any = [\"dp\"] }\n"
          "[slots]\n\"h.2.*\" = { any = [\"dp\"] }\n[gradients]\n\"h.2.attn.c_attn.weight\" = { embed = [\"dp\"] }\n"));
  // Read forward: two matrices and two biases; backward: two matrices.
  EXPECT_EQ(count(function::micro, "h.1").allGather, 6);
  EXPECT_EQ(count(function::micro, "h.2").allGather, 0);
  EXPECT_EQ(count(function::micro, "h.2").reduceScatter, 1);
  // Slots follow the storage unless they are placed themselves; then the new value is gathered.
  EXPECT_EQ(count(function::update, "h.1"), Counts());
  EXPECT_EQ(count(function::update, "h.2"), Counts{.allGather = 12});
  EXPECT_EQ(count(function::update, "h.3"), Counts());
}

// What is taken back is gone: a later entry may split another dimension over the same axis.
TEST_F(StrategyFile, AnyOfNothingTakesBackWhatEarlierEntriesSay) {
  compile("examples/gpt-small", "dp=2",
          write("preset = \"zero3\"\n[storage]\n\"*\" = { any = [] }\n"
                "\"h.1.mlp.c_fc.weight\" = { mlp = [\"dp\"] }\n"));
  EXPECT_EQ(count(function::micro, "h.1").allGather, 2); // read forward and backward
  EXPECT_EQ(count(function::micro, "h.2").allGather, 0);
}

// Shards of one copy are neighbours: rank 0 shares with rank 1, not with rank 2.
TEST_F(StrategyFile, HybridShardsAreNeighbours) {
  compile("examples/gpt-small", "dp=4", "hsdp:2");
  func::FuncOp micro = function(function::micro);
  for (unsigned i = 0; i < micro.getNumArguments(); ++i)
    if (PortAttr port = argumentPort(micro, i); port.getName() == "wte.weight") {
      SmallVector<AxisRefAttr> axes = port.getStored().getDimAxes(0);
      ASSERT_EQ(axes.size(), 1U);
      EXPECT_EQ(axes.front().getPre(), 2);
      EXPECT_EQ(axes.front().getSize(), 2);
    }
}

TEST_F(StrategyFile, PresetsThatTheMeshCannotHaveAreRefused) {
  Refusal cases[] = {
      {"tp=2", "zero3", "preset 'zero3' splits state over the axis dp, which the mesh lacks; add dp=N to the mesh"},
      {"dp=4", "hsdp:3", "preset 'hsdp:3' needs a number of shards that divides dp=4; write for example hsdp:2"},
      {"dp=4", "hsdp", "preset 'hsdp:' needs a number of shards"},
      {"dp=4", "megatron+zero4", "strategy 'megatron+zero4' is neither a preset nor a file"},
      {"dp=4", "zero3:2", "strategy 'zero3:2' is neither a preset nor a file"},
  };
  expectRefused(cases);
}

TEST_F(StrategyFile, AnAxisThatSplitsNothingSuggestsTheNearest) {
  Refusal cases[] = {
      {"fsdp=2", "megatron",
       "axis 'fsdp' of the mesh splits nothing under strategy 'megatron': its 2 ranks would all "
       "repeat the same work; the strategy's axes are dp, tp (did you mean 'dp'?)"},
      {"dp=2,tq=4", "megatron", "axis 'tq' of the mesh splits nothing under strategy 'megatron': its 4 ranks"},
      {"dp=2,tq=4", "megatron", "are dp, tp (did you mean 'tp'?)"},
      {"dp=2,tp=2", "ddp", "axis 'tp' of the mesh splits nothing under strategy 'ddp'"},
      {"dp=2,cp=2", "zero3",
       "; the preset 'cp' splits the sequence over it; add it to the strategy, as in megatron+cp"},
      {"dp=2,sp=2", "cp", "; the preset 'cp' splits the sequence over an axis called 'cp'. Rename the axis"},
      {"stage=2,pipeline=2", "cp", "axis 'stage' of the mesh splits nothing"},
      {"pipeline=2", "cp", "; the axis of a pipeline is called 'pp'. Rename the axis"},
  };
  expectRefused(cases);
  // An annotation that a later one takes back splits nothing; one rank repeats nothing.
  EXPECT_THAT(errorOf("preset = \"ddp\"\n[parameters]\n\"*\" = { mlp = [\"tp\"] }\n\"h.*\" = { mlp = [] }\n"),
              HasSubstr("axis 'tp' of the mesh splits nothing"));
  EXPECT_TRUE(succeeded(runWhere(*gptSmall(), "dp=2,data=1", "ddp"))) << errors;
}

TEST_F(StrategyFile, UnknownPresetSuggestsTheNearest) {
  module = gptSmall();
  EXPECT_TRUE(failed(runWhere(*module, "dp=4", "megatorn")));
  EXPECT_THAT(errors, HasSubstr("(did you mean 'megatron'?)"));
}

/// Lets an operation read a result of a later one, as a wrong pass may do.
struct Breaker : PassWrapper<Breaker, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Breaker)
  void runOnOperation() override {
    Block &block = (*getOperation().getOps<func::FuncOp>().begin()).front();
    std::prev(block.end(), 2)->moveBefore(&block.front());
  }
};

/// The exit code depends on who is to blame.
TEST_F(StrategyFile, TheCompilersOwnMistakesAreNoBadInput) {
  ModelOptions sizes;
  sizes.batch = 8;
  sizes.sequence = 64;
  auto isBroken = [&](const std::string &mesh, const std::function<void(PassManager &)> &configure) {
    CompileOptions options;
    options.where.mesh = mesh;
    options.configure = configure;
    OwningOpRef<ModuleOp> module = load(DTC_SOURCE_DIR "/examples/gpt-small", sizes, context).module;
    EXPECT_TRUE(failed(runPhases(*module, options, Phase::Where)));
    return (*module)->hasAttr(module_attr::broken);
  };
  EXPECT_FALSE(isBroken("dp=3", {}));
  int phases = 0;
  EXPECT_TRUE(isBroken("dp=2", [&](PassManager &manager) {
    if (++phases == 2) // at the end of the last
      manager.addPass(std::make_unique<Breaker>());
  }));
}

/// The compiler's result in a context with threads, or without.
std::string manifestOf(const CompileOptions &options, bool hasThreads) {
  MLIRContext context(hasThreads ? MLIRContext::Threading::ENABLED : MLIRContext::Threading::DISABLED);
  ModelOptions sizes;
  sizes.batch = 8;
  sizes.sequence = 64;
  Model model = load(DTC_SOURCE_DIR "/examples/gpt-small", sizes, context);
  FailureOr<CompiledProgram> program = compile(*model.module, options, /*generateCode=*/false);
  return succeeded(program) ? program->manifest.SerializeAsString() : "";
}

TEST(Threads, FunctionsThatAreCompiledSideBySideAreTheSame) {
  for (const char *strategy : {"megatron", "megatron-sp+zero3"}) {
    CompileOptions options;
    options.what.accumulation = 2;
    options.where.mesh = "dp=2,tp=2";
    options.where.strategy = strategy;
    std::string alone = manifestOf(options, /*hasThreads=*/false);
    ASSERT_FALSE(alone.empty());
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(manifestOf(options, /*hasThreads=*/true) == alone) << strategy; // it is no text to be printed
  }
}

} // namespace
