// GPT-NeoX: Black et al., arXiv:2204.06745; Pythia: Biderman et al., arXiv:2304.01373. Layer norms, attention and MLP
// side by side on the residual stream, and rotary positions in a part of each head.
#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Rope.h"

#include <cmath>

using namespace dtc;
using namespace dtc::huggingface;
using mlir::Value;

namespace {

struct GptNeox final : Family {
  int64_t vocab, embed, layers, heads, headDim, mlp, positions;
  double attentionDropout, hiddenDropout, epsilon, initializerRange;
  Activation activation;
  Rope rope;
  bool tied, parallel, attentionBias;

  GptNeox(Config &config, const ModelOptions &options);
  Symbols symbols() const override;
  Value build(ModelBuilder &b) const override;

private:
  Value layerOf(ModelBuilder &b, Value x) const;
  Value attention(ModelBuilder &b, Value x) const;
  Value feedForward(ModelBuilder &b, Value x) const;
  Value linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef fileDims,
               llvm::StringRef logicalDims, llvm::StringRef biasDims) const;
};

} // namespace

GptNeox::GptNeox(Config &config, const ModelOptions &options) {
  vocab = config.size("vocab_size");
  embed = config.size("hidden_size");
  layers = config.size("num_hidden_layers");
  heads = config.size("num_attention_heads");
  mlp = config.size("intermediate_size");
  positions = config.size("max_position_embeddings");
  attentionDropout = options.dropout.value_or(config.probability("attention_dropout"));
  hiddenDropout = options.dropout.value_or(config.probability("hidden_dropout"));
  epsilon = config.nonNegative("layer_norm_eps");
  initializerRange = config.nonNegative("initializer_range");
  activation = config.activation("hidden_act");
  tied = config.flag("tie_word_embeddings");
  parallel = config.flag("use_parallel_residual");
  attentionBias = config.flag("attention_bias");
  if (embed % heads != 0)
    config.fail("hidden_size", "is " + std::to_string(embed) + ", which is not a multiple of the " +
                                   std::to_string(heads) + " heads (num_attention_heads)");
  headDim = embed / heads;
  rope = readRope(config, positions, {.theta = "rotary_emb_base", .share = "rotary_pct"});
  rope.check(config, headDim, "rotary_pct");
  config.mustBeUnset("gradient_checkpointing", "activations are not recomputed on request");
  // The last two are old names of the dropouts, which nothing reads.
  config.checkAllUsed({"classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob"});
}

Symbols GptNeox::symbols() const {
  return {{"vocab", vocab},      {"embed", embed}, {"layers", layers},      {"heads", heads},
          {"head_dim", headDim}, {"mlp", mlp},     {"positions", positions}};
}

/// Stored as [out, in]; without `biasDims` there is no bias.
Value GptNeox::linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef fileDims,
                      llvm::StringRef logicalDims, llvm::StringRef biasDims) const {
  Scope scope(b, name);
  x = b.contract(spec, x, b.parameter("weight", fileDims, ModelBuilder::Init::normal(initializerRange), logicalDims));
  return biasDims.empty() ? x : b.addBias(x, b.parameter("bias", biasDims, ModelBuilder::Init::zeros()));
}

// b batch, s sequence, d embed, h heads, t query, key or value, e head_dim, f mlp, v vocab.

/// Each head's query, key and value are stored together.
Value GptNeox::attention(ModelBuilder &b, Value x) const {
  Scope scope(b, "attention");
  Value qkv = linear(b, "query_key_value", "bsd,dhte->bshte", x, "heads qkv=3 head_dim, embed",
                     "embed, heads, qkv, head_dim", attentionBias ? "heads qkv=3 head_dim" : "");
  ModelBuilder::Rotary rotary = rope.of(b.size("head_dim"));
  llvm::SmallVector<int64_t> ungrouped = {b.size("batch"), b.size("sequence"), b.size("heads"), 1, b.size("head_dim")};
  Value q = b.reshape(b.rotary(b.select(qkv, 3, 0), rotary), ungrouped);
  Value k = b.rotary(b.select(qkv, 3, 1), rotary), v = b.select(qkv, 3, 2);
  Value mixed = b.attention(q, k, v, {1 / std::sqrt(static_cast<double>(b.size("head_dim"))), attentionDropout});
  Value joined = b.reshape(mixed, {b.size("batch"), b.size("sequence"), b.size("heads"), b.size("head_dim")});
  return linear(b, "dense", "bshe,hed->bsd", joined, "embed, heads head_dim", "heads, head_dim, embed",
                attentionBias ? "embed" : "");
}

Value GptNeox::feedForward(ModelBuilder &b, Value x) const {
  Scope scope(b, "mlp");
  Value hidden = linear(b, "dense_h_to_4h", "bsd,df->bsf", x, "mlp, embed", "embed, mlp", "mlp");
  return linear(b, "dense_4h_to_h", "bsf,fd->bsd", b.activate(activation, hidden), "embed, mlp", "mlp, embed", "embed");
}

Value GptNeox::layerOf(ModelBuilder &b, Value x) const {
  Value attended = b.dropout(attention(b, b.layerNorm("input_layernorm", "embed", x, epsilon)), hiddenDropout);
  Value after = b.tag(b.add(x, attended), "residual_attn", residualDims);
  Value read = b.layerNorm("post_attention_layernorm", "embed", parallel ? x : after, epsilon);
  return b.tag(b.add(after, b.dropout(feedForward(b, read), hiddenDropout)), "residual_mlp", residualDims);
}

Value GptNeox::build(ModelBuilder &b) const {
  ModelBuilder::Init normal = ModelBuilder::Init::normal(initializerRange);
  Value x, table;
  {
    Scope model(b, "gpt_neox");
    {
      Scope embedding(b, "embed_in");
      table = b.parameter("weight", "vocab, embed", normal);
      x = b.dropout(b.gather(table, b.tokens()), hiddenDropout);
    }
    x = b.tag(x, "residual", residualDims);
    for (int64_t i = 0; i < b.size("layers"); ++i) {
      Layer layer(b, "layers", i);
      x = layerOf(b, x);
    }
    x = b.predicting(b.layerNorm("final_layer_norm", "embed", x, epsilon));
  }
  Scope scope(b, "lm_head");
  Value head = tied ? b.tied("weight", table) : b.parameter("weight", "vocab, embed", normal);
  return b.tag(b.contract("bsd,vd->bsv", x, head), "logits", {"batch", "sequence", "vocab"});
}

static std::unique_ptr<Family> readGptNeox(Config &config, const ModelOptions &options) {
  return std::make_unique<GptNeox>(config, options);
}

FamilyDefinition dtc::huggingface::defineGptNeox() {
  return {"gpt_neox",
          "GPT-NeoX, Pythia",
          "arXiv:2204.06745, arXiv:2304.01373",
          readGptNeox,
          {{"vocab_size", 50432},
           {"hidden_size", 6144},
           {"num_hidden_layers", 44},
           {"num_attention_heads", 64},
           {"intermediate_size", 24576},
           {"max_position_embeddings", 2048},
           {"attention_dropout", 0},
           {"hidden_dropout", 0},
           {"classifier_dropout", 0.1},
           {"layer_norm_eps", 1e-5},
           {"initializer_range", 0.02},
           {"hidden_act", "gelu"},
           {"tie_word_embeddings", false},
           {"use_parallel_residual", true},
           {"attention_bias", true},
           {"rotary_emb_base", 10000},
           {"rotary_pct", 0.25}}};
}
