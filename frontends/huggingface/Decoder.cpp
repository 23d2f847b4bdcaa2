// Reads what the families of Llama's kind say alike, and builds their forward pass.
#include "frontends/huggingface/Decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace dtc;
using namespace dtc::huggingface;
using mlir::Value;

static constexpr llvm::StringRef residualDims[] = {"batch", "sequence", "embed"};

Decoder::Decoder(Config &config, const ModelOptions &options) {
  vocab = config.size("vocab_size");
  embed = config.size("hidden_size");
  layers = config.size("num_hidden_layers");
  mlp = config.size("intermediate_size");
  positions = config.size("max_position_embeddings");
  attentionDropout = options.dropout.value_or(config.probability("attention_dropout"));
  epsilon = config.nonNegative("rms_norm_eps");
  initializerRange = config.nonNegative("initializer_range");
  activation = config.activation("hidden_act");
  tied = config.flag("tie_word_embeddings");
  readHeads(config);
  readRotary(config);
  readPadding(config);
  config.mustBeUnset("gradient_checkpointing", "activations are not recomputed on request");
  config.mustBeUnset("rope_interleaved", "rotary positions turn the two halves of a head, not neighbours");
}

void Decoder::readHeads(Config &config) {
  int64_t heads = config.size("num_attention_heads");
  kvHeads = config.isNull("num_key_value_heads") ? heads : config.size("num_key_value_heads", heads);
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

void Decoder::readWindow(Config &config, const ModelOptions &options) const {
  int64_t window = config.size("sliding_window"), sequence = options.sequence ? options.sequence : positions;
  if (window < sequence)
    config.fail("sliding_window", "is " + std::to_string(window) + ", shorter than the sequence of " +
                                      std::to_string(sequence) +
                                      " tokens, which is not supported; set training.sequence_length to at most that");
}

void Decoder::readLayerTypes(Config &config, bool haveWindow) const {
  const nlohmann::json *types = config.list("layer_types");
  if (!types)
    return;
  if (static_cast<int64_t>(types->size()) != layers)
    config.fail("layer_types", "has " + std::to_string(types->size()) + " entries for " + std::to_string(layers) +
                                   " layers (num_hidden_layers)");
  for (const nlohmann::json &type : *types)
    if (type != "full_attention" && !(haveWindow && type == "sliding_attention"))
      config.fail("layer_types", "names " + type.dump() + "; supported are \"full_attention\" and, where a window is " +
                                     "used, \"sliding_attention\"");
}

/// The family's embedding is made with this padding_idx: the row starts as it is in the weights and gets no gradient
/// from where it is looked up. Negative ids count from the vocabulary's end.
void Decoder::readPadding(Config &config) {
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
void Decoder::readRotary(Config &config) {
  theta = config.number("rope_theta");
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

Symbols Decoder::symbols() const {
  return {{"vocab", vocab}, {"embed", embed},      {"layers", layers}, {"kv_heads", kvHeads},
          {"group", group}, {"head_dim", headDim}, {"mlp", mlp},       {"positions", positions}};
}

Value Decoder::weight(ModelBuilder &b, llvm::StringRef fileDims, llvm::StringRef logicalDims) const {
  return b.parameter("weight", fileDims, ModelBuilder::Init::normal(initializerRange), logicalDims);
}

Value Decoder::linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, Value x, llvm::StringRef fileDims,
                      llvm::StringRef logicalDims, Bias bias) const {
  Scope scope(b, name);
  x = b.contract(spec, x, weight(b, fileDims, logicalDims));
  if (!bias.exists)
    return x;
  return b.addBias(x, b.parameter("bias", bias.fileDims, ModelBuilder::Init::zeros(), bias.logicalDims));
}

Value Decoder::norm(ModelBuilder &b, llvm::StringRef name, Value x) const {
  Scope scope(b, name);
  return b.rmsNorm(x, b.parameter("weight", "embed", ModelBuilder::Init::ones()), epsilon);
}

// b batch, s sequence, d embed, g key/value heads, r query heads a key/value head, e head_dim, f mlp, v vocab.

Value Decoder::attention(ModelBuilder &b, Value x) const {
  Scope scope(b, "self_attn");
  Bias ofQueries{queryBias, "kv_heads group head_dim", "kv_heads, group, head_dim"};
  Bias ofKeys{queryBias, "kv_heads head_dim", "kv_heads, head_dim"};
  Value q = linear(b, "q_proj", "bsd,dgre->bsgre", x, "kv_heads group head_dim, embed",
                   "embed, kv_heads, group, head_dim", ofQueries);
  q = b.rotary(q, theta);
  Value k = linear(b, "k_proj", "bsd,dge->bsge", x, "kv_heads head_dim, embed", "embed, kv_heads, head_dim", ofKeys);
  k = b.rotary(k, theta);
  Value v = linear(b, "v_proj", "bsd,dge->bsge", x, "kv_heads head_dim, embed", "embed, kv_heads, head_dim", ofKeys);
  double scale = 1 / std::sqrt(static_cast<double>(b.size("head_dim")));
  Value mixed = b.attention(q, k, v, scale, attentionDropout);
  return linear(b, "o_proj", "bsgre,gred->bsd", mixed, "embed, kv_heads group head_dim",
                "kv_heads, group, head_dim, embed", {outputBias, "embed"});
}

Value Decoder::feedForward(ModelBuilder &b, Value x) const {
  Scope scope(b, "mlp");
  Bias ofHidden{mlpBias, "mlp"};
  Value gate = linear(b, "gate_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp", ofHidden);
  Value up = linear(b, "up_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp", ofHidden);
  Value hidden = b.multiply(b.activate(activation, gate), up);
  return linear(b, "down_proj", "bsf,fd->bsd", hidden, "embed, mlp", "mlp, embed", {mlpBias, "embed"});
}

Value Decoder::build(ModelBuilder &b) const {
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
