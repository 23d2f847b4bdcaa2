// GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), as Hugging Face's gpt2 family
// writes it: learned positions, layer norms before attention and MLP, linear layers stored as [in, out].
#include "frontends/huggingface/Families.h"

#include "runtime/weights/config_rules.h"

#include <cmath>

using namespace dtc;
using namespace dtc::huggingface;
using mlir::Value;

namespace {

struct Gpt2 final : Family {
  int64_t vocab, embed, layers, heads, headDim, mlp, positions;
  double embedDropout, attentionDropout, residualDropout;
  double epsilon, initializerRange;
  Activation activation;
  bool tied, scaleScores, scaleByLayer;

  Gpt2(Config &config, const ModelOptions &options);
  Symbols symbols() const override;
  Value build(ModelBuilder &b) const override;

private:
  Value joinEmbeddings(ModelBuilder &b, Value tokenRows, Value positionRows) const;
  Value attention(ModelBuilder &b, Value x, int64_t layer) const;
  Value feedForward(ModelBuilder &b, Value x) const;
  Value linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef inputs,
               llvm::StringRef outputs, double stddev) const;
  double residualInit() const { return initializerRange / std::sqrt(2.0 * layers); }
};

} // namespace

Gpt2::Gpt2(Config &config, const ModelOptions &options) {
  vocab = config.size("vocab_size");
  embed = config.size("n_embd");
  layers = config.size("n_layer");
  heads = config.size("n_head");
  mlp = config.size("n_inner", config_rules::innerSize(embed));
  positions = config.size("n_positions");
  embedDropout = options.dropout.value_or(config.probability("embd_pdrop"));
  attentionDropout = options.dropout.value_or(config.probability("attn_pdrop"));
  residualDropout = options.dropout.value_or(config.probability("resid_pdrop"));
  epsilon = config.nonNegative("layer_norm_epsilon");
  initializerRange = config.nonNegative("initializer_range");
  activation = config.activation("activation_function");
  tied = config.flag("tie_word_embeddings");
  scaleScores = config.flag("scale_attn_weights");
  scaleByLayer = config.flag("scale_attn_by_inverse_layer_idx");
  config.mustBeUnset("add_cross_attention", "cross attention is not supported");
  config.mustBeUnset("gradient_checkpointing", "activations are not recomputed on request");
  config.checkAllUsed();
  if (embed % heads != 0)
    config.fail("n_embd", "is " + std::to_string(embed) + ", which is not a multiple of " + std::to_string(heads) +
                              " heads (n_head)");
  headDim = embed / heads;
}

Symbols Gpt2::symbols() const {
  return {{"vocab", vocab},      {"embed", embed}, {"layers", layers},      {"heads", heads},
          {"head_dim", headDim}, {"mlp", mlp},     {"positions", positions}};
}

/// A layer of the family's Conv1D: weight [in, out] and bias [out] in the file.
Value Gpt2::linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef inputs,
                   llvm::StringRef outputs, double stddev) const {
  Scope scope(b, name);
  Value weight = b.parameter("weight", (inputs + ", " + outputs).str(), ModelBuilder::Init::normal(stddev));
  Value bias = b.parameter("bias", outputs, ModelBuilder::Init::zeros());
  return b.addBias(b.contract(spec, x, weight), bias);
}

// b batch, s sequence, d embed, t query, key or value, h heads, e head_dim, f mlp, v vocab.

Value Gpt2::attention(ModelBuilder &b, Value x, int64_t layer) const {
  Scope scope(b, "attn");
  Value qkv = linear(b, "c_attn", "bsd,dthe->bsthe", x, "embed", "qkv=3 heads head_dim", initializerRange);
  llvm::SmallVector<int64_t> ungrouped = {b.size("batch"), b.size("sequence"), b.size("heads"), 1, b.size("head_dim")};
  Value q = b.reshape(b.select(qkv, 2, 0), ungrouped);
  Value k = b.select(qkv, 2, 1), v = b.select(qkv, 2, 2);

  double scale = scaleScores ? 1 / std::sqrt(static_cast<double>(b.size("head_dim"))) : 1.0;
  if (scaleByLayer)
    scale /= static_cast<double>(layer + 1);
  Value mixed = b.attention(q, k, v, {scale, attentionDropout});
  Value joined = b.reshape(mixed, {b.size("batch"), b.size("sequence"), b.size("heads"), b.size("head_dim")});
  return linear(b, "c_proj", "bshe,hed->bsd", joined, "heads head_dim", "embed", residualInit());
}

Value Gpt2::feedForward(ModelBuilder &b, Value x) const {
  Scope scope(b, "mlp");
  Value hidden = b.activate(activation, linear(b, "c_fc", "bsd,df->bsf", x, "embed", "mlp", initializerRange));
  return linear(b, "c_proj", "bsf,fd->bsd", hidden, "mlp", "embed", residualInit());
}

/// The residual stream's beginning.
Value Gpt2::joinEmbeddings(ModelBuilder &b, Value tokenRows, Value positionRows) const {
  Scope scope(b, "embeddings");
  bool isAlike = tokenRows.getType() == positionRows.getType(); // each token has a row of its own
  return b.dropout(isAlike ? b.add(tokenRows, positionRows) : b.addBias(tokenRows, positionRows), embedDropout);
}

Value Gpt2::build(ModelBuilder &b) const {
  ModelBuilder::Init normal = ModelBuilder::Init::normal(initializerRange);
  auto embedding = [&](llvm::StringRef name, llvm::StringRef dims, Value indices) {
    Scope scope(b, name);
    Value table = b.parameter("weight", dims, normal);
    return std::pair(table, b.gather(table, indices));
  };
  auto [tokenTable, tokenRows] = embedding("wte", "vocab, embed", b.tokens());
  auto [positionTable, positionRows] = embedding("wpe", "positions, embed", b.places());
  Value x = b.tag(joinEmbeddings(b, tokenRows, positionRows), "residual", residualDims);

  for (int64_t i = 0; i < b.size("layers"); ++i) {
    Layer layer(b, "h", i);
    x = b.add(x, b.dropout(attention(b, b.layerNorm("ln_1", "embed", x, epsilon), i), residualDropout));
    x = b.tag(x, "residual_attn", residualDims);
    x = b.add(x, b.dropout(feedForward(b, b.layerNorm("ln_2", "embed", x, epsilon)), residualDropout));
    x = b.tag(x, "residual_mlp", residualDims);
  }
  x = b.predicting(b.layerNorm("ln_f", "embed", x, epsilon));

  Scope scope(b, "lm_head");
  Value head = tied ? b.tied("weight", tokenTable) : b.parameter("weight", "vocab, embed", normal);
  return b.tag(b.contract("bsd,vd->bsv", x, head), "logits", {"batch", "sequence", "vocab"});
}

static std::unique_ptr<Family> readGpt2(Config &config, const ModelOptions &options) {
  return std::make_unique<Gpt2>(config, options);
}

FamilyDefinition dtc::huggingface::defineGpt2() {
  return {"gpt2",
          "GPT-2",
          "Radford et al. 2019",
          readGpt2,
          {{"vocab_size", 50257},
           {"n_embd", 768},
           {"n_layer", 12},
           {"n_head", 12},
           {"n_positions", 1024},
           {"embd_pdrop", 0.1},
           {"attn_pdrop", 0.1},
           {"resid_pdrop", 0.1},
           {"layer_norm_epsilon", 1e-5},
           {"initializer_range", 0.02},
           {"activation_function", "gelu_new"},
           {"tie_word_embeddings", true},
           {"scale_attn_weights", true},
           {"scale_attn_by_inverse_layer_idx", false}}};
}
