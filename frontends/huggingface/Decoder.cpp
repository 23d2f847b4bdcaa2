// Builds the forward pass of the families of Llama's kind.
#include "frontends/huggingface/Decoder.h"

#include <cmath>

using namespace dtc;
using namespace dtc::huggingface;
using mlir::Value;

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

Value Decoder::norm(ModelBuilder &b, llvm::StringRef name, Value x, llvm::StringRef dims) const {
  Scope scope(b, name);
  Value scale = b.parameter("weight", dims, normsAddOne ? ModelBuilder::Init::zeros() : ModelBuilder::Init::ones());
  if (normsAddOne)
    scale = b.addOne(scale);
  if (dims.contains(' ')) // one norm over several dimensions, which are one in x
    scale = b.reshape(scale, mlir::cast<mlir::RankedTensorType>(x.getType()).getShape().take_back());
  return b.rmsNorm(x, scale, epsilon);
}

// b batch, s sequence, d embed, g key/value heads, r query heads per key/value head, e head_dim, f mlp, v vocab.

Decoder::Heads Decoder::project(ModelBuilder &b, Value x) const {
  Bias ofQueries{queryBias, "kv_heads group head_dim", "kv_heads, group, head_dim"};
  Bias ofKeys{queryBias, "kv_heads head_dim", "kv_heads, head_dim"};
  Value q = linear(b, "q_proj", "bsd,dgre->bsgre", x, "kv_heads group head_dim, embed",
                   "embed, kv_heads, group, head_dim", ofQueries);
  auto ofKey = [&](llvm::StringRef name) {
    return linear(b, name, "bsd,dge->bsge", x, "kv_heads head_dim, embed", "embed, kv_heads, head_dim", ofKeys);
  };
  Value k = ofKey("k_proj");
  return {q, k, ofKey("v_proj")};
}

/// All queries' rows, then all keys', then all values'.
Decoder::Heads Decoder::projectFused(ModelBuilder &b, Value x) const {
  int64_t keys = b.size("kv_heads"), queries = keys * b.size("group"), width = b.size("head_dim");
  std::string rows = "rows=" + std::to_string(queries + 2 * keys) + " head_dim, embed";
  Value all = linear(b, "qkv_proj", "bsd,dhe->bshe", x, rows, "embed, rows, head_dim", {});
  Value q = b.reshape(b.slice(all, 2, 0, queries), {b.size("batch"), b.size("sequence"), keys, b.size("group"), width});
  return {q, b.slice(all, 2, queries, keys), b.slice(all, 2, queries + keys, keys)};
}

/// `dims` are the dimensions of a position's heads.
Value Decoder::headNorm(ModelBuilder &b, llvm::StringRef name, Value x, llvm::StringRef dims) const {
  if (headNorms == HeadNorms::None)
    return x;
  if (headNorms == HeadNorms::EachHead)
    return norm(b, name, x, "head_dim");
  auto shape = llvm::to_vector(mlir::cast<mlir::RankedTensorType>(x.getType()).getShape());
  int64_t width = 1;
  for (int64_t size : llvm::ArrayRef(shape).drop_front(2))
    width *= size;
  return b.reshape(norm(b, name, b.reshape(x, {shape[0], shape[1], width}), dims), shape);
}

Value Decoder::attention(ModelBuilder &b, Value x, int64_t layer) const {
  Scope scope(b, "self_attn");
  auto [q, k, v] = fused ? projectFused(b, x) : project(b, x);
  q = headNorm(b, "q_norm", q, "kv_heads group head_dim");
  k = headNorm(b, "k_norm", k, "kv_heads head_dim");
  if (hasRotary[layer]) {
    ModelBuilder::Rotary rotary = (hasWindow[layer] && windowRope ? *windowRope : rope).of(b.size("head_dim"));
    q = b.rotary(q, rotary);
    k = b.rotary(k, rotary);
  }
  ModelBuilder::Scores scores{scoreScale.value_or(1 / std::sqrt(static_cast<double>(b.size("head_dim")))),
                              attentionDropout, hasWindow[layer] ? window : std::nullopt, scoreCap};
  Value mixed = b.attention(q, k, v, scores);
  return linear(b, "o_proj", "bsgre,gred->bsd", mixed, "embed, kv_heads group head_dim",
                "kv_heads, group, head_dim, embed", {outputBias, "embed"});
}

Value Decoder::feedForward(ModelBuilder &b, Value x) const {
  Scope scope(b, "mlp");
  Bias ofHidden{mlpBias, "mlp"};
  Value gate, up;
  if (fused) {
    Value both = linear(b, "gate_up_proj", "bsd,dtf->bstf", x, "halves=2 mlp, embed", "embed, halves, mlp", {});
    gate = b.select(both, 2, 0);
    up = b.select(both, 2, 1);
  } else {
    gate = linear(b, "gate_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp", ofHidden);
    up = linear(b, "up_proj", "bsd,df->bsf", x, "mlp, embed", "embed, mlp", ofHidden);
  }
  Value hidden = b.multiply(b.activate(activation, gate), up);
  return linear(b, "down_proj", "bsf,fd->bsd", hidden, "embed, mlp", "mlp, embed", {mlpBias, "embed"});
}

Value Decoder::addBlock(ModelBuilder &b, Value x, const BlockNorms &norms, llvm::function_ref<Value(Value)> run) const {
  Value added = run(norms.before.empty() ? x : norm(b, norms.before, x));
  if (!norms.after.empty())
    added = norm(b, norms.after, added);
  return b.add(x, b.scale(b.dropout(added, residualDropout), residualFactor));
}

Value Decoder::embedding(ModelBuilder &b, Value &table) const {
  Scope scope(b, "embed_tokens");
  table = weight(b, "vocab, embed", "vocab, embed");
  // Where a smaller model is built, its vocabulary may end before the padding.
  Value rows = b.gather(table, b.tokens(), padding ? std::optional(*padding % b.size("vocab")) : std::nullopt);
  return b.scale(rows, scalesEmbedding ? std::sqrt(static_cast<double>(b.size("embed"))) : embeddingFactor);
}

Value Decoder::build(ModelBuilder &b) const {
  Value x, table;
  {
    Scope model(b, "model");
    x = b.tag(embedding(b, table), "residual", residualDims);
    for (int64_t i = 0; i < b.size("layers"); ++i) {
      Layer layer(b, "layers", i);
      int64_t kind = i % layers; // repeats where more layers are built than the config has
      x = addBlock(b, x, attentionNorms, [&](Value read) { return attention(b, read, kind); });
      x = b.tag(x, "residual_attn", residualDims);
      x = addBlock(b, x, mlpNorms, [&](Value read) { return feedForward(b, read); });
      x = b.tag(x, "residual_mlp", residualDims);
    }
    x = b.predicting(norm(b, "norm", x));
  }
  Value logits;
  {
    Scope scope(b, "lm_head");
    Value head = tied ? b.tied("weight", table) : weight(b, "vocab, embed", "vocab, embed");
    logits = b.scale(b.contract("bsd,vd->bsv", x, head), logitFactor);
    if (logitCap)
      logits = b.softCap(logits, *logitCap);
  }
  return b.tag(logits, "logits", {"batch", "sequence", "vocab"});
}
