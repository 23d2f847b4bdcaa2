// The compiler's inputs: configurations, strategies and models in the dialect's text.
#include "frontends/Frontend.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/place/Annotations.h"
#include "runtime/support/error.h"
#include "test/fuzz/harness.h"
#include "test/fuzz/mutators.h"
#include "test/runtime/temporary_directory.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace dtc;
using namespace dtc::fuzz;

namespace {

test::TemporaryDirectory *directory; // of this process; children write their mutants into it

constexpr const char *Configs[] = {
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 16, "n_positions": 8, "n_embd": 8,
        "n_layer": 1, "n_head": 2, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05,
        "initializer_range": 0.02, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.0,
        "scale_attn_weights": true, "tie_word_embeddings": true})",
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "hidden_act": "silu", "max_position_embeddings": 8, "initializer_range": 0.02, "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0, "rope_scaling": null, "attention_bias": false, "mlp_bias": false,
        "tie_word_embeddings": false})"};

constexpr const char *Strategies[] = {
    "preset = \"megatron\"\n[parameters]\n\"h.*.mlp.c_fc.weight\" = { mlp = [\"tp\"] }\n\"wte.weight\" = { vocab = [] "
    "}\n"
    "[tags]\n\"h.0.residual*\" = { sequence = [\"tp:(1)2\"] }\n[inputs]\ntokens = { batch = [\"dp\"] }\n",
    "[inputs]\ntokens = { batch = [\"dp\", \"tp:(2)2\"], sequence = [] }\ntargets = { batch = [\"dp\"] }\n"};

/// A context that keeps diagnostics to itself.
struct Context : mlir::MLIRContext {
  Context() : mlir::MLIRContext(Threading::DISABLED) {
    mlir::DialectRegistry registry;
    registerFrontendDialects(registry);
    appendDialectRegistry(registry);
    getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  }
};

std::string modelDirectory(const std::string &name, const std::string &config) {
  std::filesystem::create_directories(*directory / name);
  return directory->write(name + "/config.json", config), *directory / name;
}

void readConfig(const std::string &mutant) {
  Context context;
  load(modelDirectory("config", mutant), ModelOptions(), context);
}

void readText(const std::string &mutant) {
  Context context;
  load(directory->write("mutant.mlir", mutant), ModelOptions(), context);
}

/// The models above in the dialect's text.
std::vector<std::string> textSeeds() {
  std::vector<std::string> seeds;
  for (const char *config : Configs) {
    Context context;
    Model model = load(modelDirectory("seed", config), ModelOptions(), context);
    llvm::raw_string_ostream stream(seeds.emplace_back());
    model.module->print(stream);
  }
  return seeds;
}

void readStrategy(const std::string &mutant) {
  Context context;
  Model model = load(modelDirectory("model", Configs[0]), ModelOptions(), context);
  llvm::SmallVector<mlir::dt::ParamAttr> parameters;
  for (mlir::Attribute parameter : model.module->getOperation()->getAttrOfType<mlir::ArrayAttr>("dt.parameters"))
    parameters.push_back(mlir::cast<mlir::dt::ParamAttr>(parameter));
  auto refuse = [](const llvm::Twine &why) { throw Error(ExitCode::BadInput, why.str()); };
  mlir::dt::MeshAttr mesh = *parseMesh(&context, "dp=2,tp=4", refuse);
  Annotations annotations = *loadStrategy(directory->write("strategy.toml", mutant), mesh, parameters, refuse);
  for (const auto *list : {&annotations.parameters, &annotations.tags, &annotations.inputs})
    for (const DimAnnotation &annotation : *list)
      for (const auto &[dim, axes] : annotation.dims)
        for (const std::string &axis : axes)
          if (failed(parseAxis(mesh, axis, refuse)))
            throw Finding("an axis was refused without a word");
}

std::vector<Target> targets() {
  std::vector<std::string> texts = textSeeds();
  auto mutated = [](const auto &seeds, TextFormat format) {
    return [&seeds, format](Random &random) { return mutateText(random, random.pick(seeds), format); };
  };
  return {
      {"config", mutated(Configs, jsonFormat()), readConfig},
      {"strategy", mutated(Strategies, tomlFormat()), readStrategy},
      {"dialect", [=](Random &random) { return mutateText(random, random.pick(texts), mlirFormat()); }, readText},
  };
}

} // namespace

int main(int argc, char **argv) {
  test::TemporaryDirectory temporary;
  directory = &temporary;
  return runTargets(targets(), argc, argv);
}
