// What the families of Llama's kind have in common: decoders of RMS norms before each block, rotary positions,
// key/value heads that serve several query heads, a gated MLP, and linear layers that are stored as [out, in].
#pragma once

#include "frontends/huggingface/Families.h"

namespace dtc::huggingface {

struct Decoder : Family {
  /// Reads what all of them say under the same keys. The family reads the rest, and calls Config::checkAllUsed.
  Decoder(Config &config, const ModelOptions &options);

  Symbols symbols() const override;
  mlir::Value build(ModelBuilder &b) const override;

  /// Reads sliding_window, which must hold the whole sequence: then it hides nothing.
  void readWindow(Config &config, const ModelOptions &options) const;
  /// Reads layer_types, which may name a window's layers where there is a window.
  void readLayerTypes(Config &config, bool haveWindow) const;

  bool queryBias = false;  ///< on the projections to queries, keys and values
  bool outputBias = false; ///< on the projection of attention's output
  bool mlpBias = false;

private:
  /// A linear layer's bias, if there is one, with its dimensions as in ModelBuilder::parameter.
  struct Bias {
    bool exists = false;
    llvm::StringRef fileDims = {}, logicalDims = {};
  };

  void readHeads(Config &config);
  void readPadding(Config &config);
  void readRotary(Config &config);
  mlir::Value weight(ModelBuilder &b, llvm::StringRef fileDims, llvm::StringRef logicalDims) const;
  /// A linear layer of this name, its weight stored as [out, in].
  mlir::Value linear(ModelBuilder &b, llvm::StringRef name, llvm::StringRef spec, mlir::Value x,
                     llvm::StringRef fileDims, llvm::StringRef logicalDims, Bias bias) const;
  mlir::Value attention(ModelBuilder &b, mlir::Value x) const;
  mlir::Value feedForward(ModelBuilder &b, mlir::Value x) const;
  mlir::Value norm(ModelBuilder &b, llvm::StringRef name, mlir::Value x) const;

  int64_t vocab, embed, layers, kvHeads, group, headDim, mlp, positions;
  double attentionDropout, epsilon, initializerRange, theta;
  Activation activation;
  bool tied;
  std::optional<int64_t> padding; ///< the token whose embedding is not trained, as PyTorch's Embedding(padding_idx)
};

} // namespace dtc::huggingface
