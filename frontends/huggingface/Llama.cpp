// Llama: Touvron et al., arXiv:2302.13971 and 2307.09288, as Hugging Face's llama family writes it: RMS norms, rotary
// positions, gated MLP, key/value heads that serve several query heads, linear layers stored as [out, in], no biases.
#include "frontends/huggingface/Families.h"

#include <cmath>
#include <utility>

using namespace dtc;
using namespace dtc::huggingface;
using mlir::Value;

namespace {

struct Llama final : Family {
  int64_t vocab, embed, layers, kvHeads, group, headDim, mlp, positions;
  double attentionDropout, epsilon, initializerRange, theta;
  Activation activation;
  bool tied;
  std::optional<int64_t> padding; ///< the token whose embedding is not trained, as PyTorch's Embedding(padding_idx)

  Llama(Config &config, const ModelOptions &options);
  Symbols symbols() const override;
  Value build(ModelBuilder &b) const override;

private:
  void readHeads(Config &config);
  void readPadding(Config &config);
  void readRotary(Config &config);
  Value attention(ModelBuilder &b, Value x) const;
  Value feedForward(ModelBuilder &b, Value x) const;
  Value norm(ModelBuilder &b, llvm::StringRef name, Value x) const;
  Value weight(ModelBuilder &b, llvm::StringRef fileDims, llvm::StringRef logicalDims) const {
    return b.parameter("weight", fileDims, ModelBuilder::Init::normal(initializerRange), logicalDims);
  }
  /// A linear layer of this name, its weight stored as [out, in].
  Value linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef fileDims,
               llvm::StringRef logicalDims) const {
    Scope scope(b, name);
    return b.contract(spec, x, weight(b, fileDims, logicalDims));
  }
};

constexpr llvm::StringRef residualDims[] = {"batch", "sequence", "embed"};

} // namespace

Llama::Llama(Config &config, const ModelOptions &options) {
  vocab = config.size("vocab_size", 32000);
  embed = config.size("hidden_size", 4096);
  layers = config.size("num_hidden_layers", 32);
  mlp = config.size("intermediate_size", 11008);
  positions = config.size("max_position_embeddings", 2048);
  attentionDropout = options.dropout.value_or(config.probability("attention_dropout", 0));
  epsilon = config.nonNegative("rms_norm_eps", 1e-6);
  initializerRange = config.nonNegative("initializer_range", 0.02);
  activation = config.activation("hidden_act", "silu");
  tied = config.flag("tie_word_embeddings", false);
  readHeads(config);
  readRotary(config);
  readPadding(config);
  config.mustBeUnset("attention_bias", "biases of the attention projections are not supported");
  config.mustBeUnset("mlp_bias", "biases of the MLP are not supported");
  config.mustBeUnset("sliding_window", "sliding windows are not supported; attention is over all earlier positions");
  config.mustBeUnset("gradient_checkpointing", "activations are not recomputed on request");
  config.mustBeUnset("rope_interleaved", "rotary positions turn the two halves of a head, not neighbours");
  config.checkAllUsed({"pretraining_tp"}); // how a product is cut, not what it is
}

void Llama::readHeads(Config &config) {
  int64_t heads = config.size("num_attention_heads", 32);
  kvHeads = config.size("num_key_value_heads", heads);
  if (heads % kvHeads != 0)
    config.fail("num_key_value_heads", "is " + std::to_string(kvHeads) + ", which does not divide the " +
                                           std::to_string(heads) + " query heads (num_attention_heads)");
  if (embed % heads != 0)
    config.fail("hidden_size", "is " + std::to_string(embed) + ", which is not a multiple of the " +
                                   std::to_string(heads) + " query heads (num_attention_heads)");
  group = heads / kvHeads;
  headDim = config.size("head_dim", std::max<int64_t>(embed / heads, 1));
  if (headDim % 2 != 0)
    config.fail("head_dim", "is " + std::to_string(headDim) +
                                "; rotary positions need an even size (by default it is "
                                "hidden_size / num_attention_heads)");
}

/// The family's embedding is made with this padding_idx: the row starts as it is in the weights and gets no gradient
/// from where it is looked up. Negative ids count from the vocabulary's end.
void Llama::readPadding(Config &config) {
  const nlohmann::json *value = config.integer("pad_token_id");
  if (!value)
    return;
  bool inside = value->is_number_unsigned() ? value->get<uint64_t>() < static_cast<uint64_t>(vocab)
                                            : value->get<int64_t>() >= -vocab;
  if (!inside)
    config.fail("pad_token_id", "is " + value->dump() + ", which is no token of a vocabulary of " +
                                    std::to_string(vocab) + " (vocab_size)");
  padding = value->get<int64_t>();
  if (*padding < 0)
    *padding += vocab;
}

/// Older files say rope_theta and rope_scaling; newer ones put both into rope_parameters.
void Llama::readRotary(Config &config) {
  constexpr double usual = 10000;
  theta = config.number("rope_theta", usual);
  bool seen = false;
  for (std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json *settings = config.object(key);
    if (!settings || settings->empty())
      continue;
    if (std::exchange(seen, true))
      config.fail(key, "stands beside rope_scaling, which says the same; leave one");
    for (std::string type : {"rope_type", "type"})
      if (settings->contains(type) && settings->at(type) != "default")
        config.fail(key,
                    "asks for rotary scaling " + settings->at(type).dump() + "; only \"default\" (none) is supported");
    for (const auto &[name, value] : settings->items()) {
      if (name == "rope_theta" && value.is_number())
        theta = value.get<double>();
      else if (name != "rope_type" && name != "type")
        config.fail(key, "has the entry '" + name + "': " + value.dump() + ", which is not supported");
    }
  }
  if (!(theta > 1))
    config.fail("rope_theta", "must be greater than 1, is " + std::to_string(theta));
}

Symbols Llama::symbols() const {
  return {{"vocab", vocab}, {"embed", embed},      {"layers", layers}, {"kv_heads", kvHeads},
          {"group", group}, {"head_dim", headDim}, {"mlp", mlp},       {"positions", positions}};
}

Value Llama::norm(ModelBuilder &b, llvm::StringRef name, Value x) const {
  Scope scope(b, name);
  return b.rmsNorm(x, b.parameter("weight", "embed", ModelBuilder::Init::ones()), epsilon);
}

// b batch, s sequence, d embed, g key/value heads, r query heads a key/value head, e head_dim, f mlp, v vocab.

Value Llama::attention(ModelBuilder &b, Value x) const {
  Scope scope(b, "self_attn");
  Value q =
      linear(b, "q_proj", "bsd,dgre->bsgre", x, "kv_heads group head_dim, embed", "embed, kv_heads, group, head_dim");
  q = b.rotary(q, theta);
  Value k = linear(b, "k_proj", "bsd,dge->bsge", x, "kv_heads head_dim, embed", "embed, kv_heads, head_dim");
  k = b.rotary(k, theta);
  Value v = linear(b, "v_proj", "bsd,dge->bsge", x, "kv_heads head_dim, embed", "embed, kv_heads, head_dim");
  double scale = 1 / std::sqrt(static_cast<double>(b.size("head_dim")));
  Value mixed = b.attention(q, k, v, scale, attentionDropout);
  return linear(b, "o_proj", "bsgre,gred->bsd", mixed, "embed, kv_heads group head_dim",
                "kv_heads, group, head_dim, embed");
}

Value Llama::feedForward(ModelBuilder &b, Value x) const {
  Scope scope(b, "mlp");
  Value gate = linear(b, "gate_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp");
  Value up = linear(b, "up_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp");
  Value hidden = b.multiply(b.activate(activation, gate), up);
  return linear(b, "down_proj", "bsf,fd->bsd", hidden, "embed, mlp", "mlp, embed");
}

Value Llama::build(ModelBuilder &b) const {
  Value x, table;
  {
    Scope model(b, "model");
    {
      Scope embedding(b, "embed_tokens");
      table = weight(b, "vocab, embed", "vocab, embed");
      // Where a smaller model is built, its vocabulary may end before the padding.
      x = b.gather(table, b.tokens(), padding ? std::optional(*padding % b.size("vocab")) : std::nullopt);
    }
    x = b.tag(x, "residual", residualDims);
    for (int64_t i = 0; i < b.size("layers"); ++i) {
      Layer layer(b, "layers", i);
      x = b.tag(b.add(x, attention(b, norm(b, "input_layernorm", x))), "residual_attn", residualDims);
      x = b.tag(b.add(x, feedForward(b, norm(b, "post_attention_layernorm", x))), "residual_mlp", residualDims);
    }
    x = norm(b, "norm", x);
  }
  Value logits;
  {
    Scope scope(b, "lm_head");
    Value head = tied ? b.tied("weight", table) : weight(b, "vocab, embed", "vocab, embed");
    logits = b.contract("bsd,vd->bsv", x, head);
  }
  return b.tag(logits, "logits", {"batch", "sequence", "vocab"});
}

std::unique_ptr<Family> dtc::huggingface::readLlama(Config &config, const ModelOptions &options) {
  return std::make_unique<Llama>(config, options);
}
