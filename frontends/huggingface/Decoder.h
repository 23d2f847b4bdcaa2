// What the families of Llama's kind have in common: decoders of RMS norms around each block, rotary positions,
// key/value heads that serve several query heads, a gated MLP, and linear layers that are stored as [out, in]. A family
// reads its own settings into the fields below.
#pragma once

#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Rope.h"

#include <functional>
#include <vector>

namespace dtc::huggingface {

struct Decoder : Family {
  /// Reads what all of them say under the same keys, except rotary positions. The family reads these and its own
  /// settings, and calls Config::checkAllUsed.
  Decoder(Config &config, const ModelOptions &options, std::string_view activationKey = "hidden_act");

  Symbols symbols() const override;
  mlir::Value build(ModelBuilder &b) const override;

  /// Reads rope_theta and what may scale the frequencies.
  void readRotary(Config &config, const RopeKeys &keys = {});
  /// Sets which layers have a window: what layer_types says, or else `usual` of a layer's number. Without a window none
  /// may have one.
  void readLayerTypes(Config &config, const std::function<bool(int64_t layer)> &usual);
  /// Qwen's windows: files name one even where none is used, and only the layers after a given number have it.
  void readUpperWindows(Config &config);

  /// The names of a block's norms: of the norm on what it reads, and of the one on what it adds to the residual stream;
  /// empty: there is none.
  struct BlockNorms {
    llvm::StringRef before, after;
  };
  BlockNorms attentionNorms = {"input_layernorm", ""}, mlpNorms = {"post_attention_layernorm", ""};
  bool normsAddOne = false; ///< norms multiply by 1 + weight

  bool queryBias = false;  ///< on the projections to queries, keys and values
  bool outputBias = false; ///< on the projection of attention's output
  bool mlpBias = false;
  bool fused = false; ///< one projection to queries, keys and values, one to the MLP's gate and its other half

  /// Norms of queries and keys before they are rotated: over each head, or over all heads at once.
  enum class HeadNorms { None, EachHead, AllHeads };
  HeadNorms headNorms = HeadNorms::None;

  std::optional<double> scoreScale; ///< instead of 1 / sqrt(head_dim)
  std::optional<double> scoreCap, logitCap;
  std::optional<int64_t> window; ///< of the layers that have one
  std::vector<bool> hasWindow;   ///< by layer
  std::vector<bool> hasRotary;   ///< by layer
  Rope rope;
  std::optional<Rope> windowRope; ///< of layers with a window, where theirs differs
  double residualDropout = 0;
  double embeddingFactor = 1, residualFactor = 1, logitFactor = 1;
  bool scalesEmbedding = false; ///< by sqrt(hidden_size)

  int64_t vocab, embed, layers, kvHeads, group, headDim, mlp, positions;

private:
  /// A linear layer's bias, if there is one, with its dimensions as in ModelBuilder::parameter.
  struct Bias {
    bool exists = false;
    llvm::StringRef fileDims = {}, logicalDims = {};
  };
  struct Heads {
    mlir::Value q, k, v; ///< [B,S,G,R,E], and [B,S,G,E] twice
  };

  void readHeads(Config &config);
  void readPadding(Config &config);
  mlir::Value weight(ModelBuilder &b, llvm::StringRef fileDims, llvm::StringRef logicalDims) const;
  /// A linear layer of this name, its weight stored as [out, in].
  mlir::Value linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, mlir::Value x,
                     llvm::StringRef fileDims, llvm::StringRef logicalDims, Bias bias) const;
  Heads project(ModelBuilder &b, mlir::Value x) const;
  Heads projectFused(ModelBuilder &b, mlir::Value x) const;
  mlir::Value headNorm(ModelBuilder &b, llvm::StringRef name, mlir::Value x, llvm::StringRef dims) const;
  mlir::Value attention(ModelBuilder &b, mlir::Value x, int64_t layer) const;
  mlir::Value feedForward(ModelBuilder &b, mlir::Value x) const;
  mlir::Value norm(ModelBuilder &b, llvm::StringRef name, mlir::Value x, llvm::StringRef dims = "embed") const;
  /// The residual stream after a block: `run` computes the block from what it reads.
  mlir::Value addBlock(ModelBuilder &b, mlir::Value x, const BlockNorms &norms,
                       llvm::function_ref<mlir::Value(mlir::Value)> run) const;
  mlir::Value embedding(ModelBuilder &b, mlir::Value &table) const;

  double attentionDropout, epsilon, initializerRange;
  Activation activation;
  bool tied;
  std::optional<int64_t> padding; ///< the token whose embedding is not trained, as PyTorch's Embedding(padding_idx)
};

/// FamilyDefinition::read of a family that is a Decoder with rotary positions: `readOwn` reads what it alone has, and
/// calls Config::checkAllUsed.
template <void (*readOwn)(Decoder &decoder, Config &config)>
std::unique_ptr<Family> readDecoder(Config &config, const ModelOptions &options) {
  auto decoder = std::make_unique<Decoder>(config, options);
  decoder->readRotary(config);
  readOwn(*decoder, config);
  return decoder;
}

/// What no family of Llama's kind takes over from another where a file is silent.
struct DefaultSizes {
  int64_t vocab;     ///< vocab_size
  int64_t mlp;       ///< intermediate_size
  int64_t positions; ///< max_position_embeddings
};

/// What llama and the families of its kind assume where a file is silent, with the sizes of one of them and what it has
/// of its own.
ConfigValues decoderDefaults(const DefaultSizes &sizes, const ConfigValues &own = {});

} // namespace dtc::huggingface
