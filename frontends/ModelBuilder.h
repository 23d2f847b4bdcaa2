// Building blocks for frontends, so that a model reads like a page of its paper.
//
// A ModelBuilder writes the function @loss, or those that generate text: the same model, which then reads positions
// from an input and keeps its keys and values in caches. Parameters become a function's arguments when they are first
// mentioned, under the names they have in the model file. Names nest as the model's modules do: within
// `Scope attn(builder, "attn")` the parameter "c_attn.weight" is "h.3.attn.c_attn.weight" and operations carry that
// place as their location.
#pragma once

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <optional>
#include <string>

namespace dtc {

/// The named sizes of a model: the one table from which every shape is computed.
using Symbols = std::map<std::string, int64_t>;

/// The activations that config files name ("gelu_new", "silu", ...).
enum class Activation { GeluTanh, Gelu, Silu, Tanh };

class ModelBuilder {
public:
  using Value = mlir::Value;
  using StringRef = llvm::StringRef;

  /// Begins a module without functions; symbols must name "batch" and "sequence".
  ModelBuilder(mlir::MLIRContext &context, StringRef modelName, const Symbols &symbols);

  /// Starts @loss with the inputs tokens and targets [batch, sequence], with the documents' starts [batch, sequence] if
  /// documents are separated, and with key [4].
  void beginLoss(bool separateDocuments);
  /// Ends @loss: the sum of the targets' negative log-likelihoods under the logits [B,S,V], and the number of targets
  /// that count (-100 does not).
  void endLoss(Value logits);

  /// Starts @prompt, which reads `count` positions of each row from an input and gives the logits of one of them, the
  /// one in the input last_position. "sequence" is `count` until the end. `capacity`: positions of the caches, which
  /// each layer writes its keys and values to and reads them from; without caches, positions see only what is read
  /// together with them.
  void beginPrompt(int64_t count, std::optional<int64_t> capacity);
  /// Starts @generate, which reads one position.
  void beginGenerate(int64_t capacity);
  /// Ends @prompt or @generate: logits [B,1,V].
  void endGeneration(Value logits);

  mlir::OwningOpRef<mlir::ModuleOp> take() { return std::move(module); }

  Value tokens() const { return tokensValue; }
  /// The positions in the sequence of what is read: in @loss 0, 1, ...
  Value positions();
  /// The place of each token within its document: [sequence], or [batch, sequence] where documents are separated.
  Value places();

  /// How a new parameter starts: "zeros", "ones" or "normal" with a standard deviation.
  struct Init {
    StringRef kind;
    double stddev = 0;
    static Init zeros() { return {"zeros"}; }
    static Init ones() { return {"ones"}; }
    static Init normal(double stddev) { return {"normal", stddev}; }
  };

  /// A parameter of the current scope. `fileDims` writes the shape of the tensor in the file with named sizes: commas
  /// separate its dimensions, a dimension that is a product names its factors, most significant first; "name=3" is a
  /// size that belongs to no symbol. The logical tensor has one dimension for each name, in the order of `logicalDims`,
  /// or the file's order where that is empty.
  ///
  ///   parameter("c_attn.weight", "embed, qkv=3 heads head_dim", init)
  ///     file [768, 2304], logical [embed 768, qkv 3, heads 12, head_dim 64]
  ///   parameter("k_proj.weight", "kv_heads head_dim, embed", init, "embed, kv_heads, head_dim")
  ///     file [1024, 4096], logical [embed 4096, kv_heads 8, head_dim 128]
  ///
  /// Weight decay applies to tensors that have two or more dimensions in the file (the convention of nanoGPT).
  Value parameter(StringRef name, StringRef fileDims, Init init, StringRef logicalDims = "");
  /// The same parameter under another name, in the current scope: files may hold it a second time.
  Value tied(StringRef name, Value parameter);

  /// Einsum of an activation and a weight, in letters: contract("bsd,df->bsf", x, w).
  Value contract(StringRef spec, Value lhs, Value rhs);
  /// x plus a bias that has x's last dimensions.
  Value addBias(Value x, Value bias);
  Value add(Value lhs, Value rhs);
  Value multiply(Value lhs, Value rhs);
  /// Rows of a table [rows, width]. The table gets no gradient where the index is `padding`.
  Value gather(Value table, Value indices, std::optional<int64_t> padding = std::nullopt);
  Value layerNorm(Value x, Value scale, Value bias, double epsilon);
  /// The same, with a scope of this name for its parameters weight and bias, which have x's last dimension.
  Value layerNorm(StringRef name, StringRef dim, Value x, double epsilon);
  Value rmsNorm(Value x, Value scale, double epsilon);
  Value activate(Activation function, Value x);
  /// The operand itself where the rate is zero. Each dropout has its own site; sites are numbered through the model.
  Value dropout(Value x, double rate);
  /// x times a number; x itself where that is 1.
  Value scale(Value x, double factor);
  Value addOne(Value x);
  /// cap tanh(x / cap): values far from zero stay within `cap`.
  Value softCap(Value x, double cap);

  /// How heads are rotated by their positions: dt.rotary.
  struct Rotary {
    double theta;
    int64_t pairs; ///< of each head's elements; the elements after them stay
    std::optional<abi::RotaryScaling> scaling;
  };
  Value rotary(Value x, const Rotary &how);

  /// What attention does with products of queries and keys: dt.attention.
  struct Scores {
    double scale;
    double dropout = 0;
    std::optional<int64_t> window = std::nullopt; ///< how many positions a query sees, its own among them
    std::optional<double> softCap = std::nullopt;
  };
  /// Causal attention of q [B,S,G,R,E] over k and v [B,S,G,E], within documents if these are separated. With caches it
  /// is over what these hold, which includes k and v.
  Value attention(Value q, Value k, Value v, const Scores &scores);
  /// The positions of x [B,S,D] whose logits are asked for: all of them in @loss, otherwise one, [B,1,D].
  Value predicting(Value x);
  /// Indices [begin, begin + count) of dimension `dim`.
  Value slice(Value x, int64_t dim, int64_t begin, int64_t count);
  /// Index `i` of dimension `dim`, which disappears.
  Value select(Value x, int64_t dim, int64_t index);
  Value reshape(Value x, llvm::ArrayRef<int64_t> shape);
  /// Names an activation and its dimensions, so that strategies can place it: "h.3." + name.
  Value tag(Value x, StringRef name, llvm::ArrayRef<StringRef> dims);

  int64_t size(StringRef symbol) const;

private:
  friend class Scope;
  friend class Layer;

  template <typename Op, typename... Args> Op create(Args &&...args) {
    Op op = Op::create(builder, location(), std::forward<Args>(args)...);
    mlir::dt::mark(op, {layer, {}});
    return op;
  }
  mlir::Location location() const;
  std::string qualified(StringRef name) const { return prefix.empty() ? name.str() : prefix + "." + name.str(); }
  Value addInput(StringRef name, mlir::dt::SourceKind from, mlir::RankedTensorType type,
                 llvm::ArrayRef<StringRef> dims);
  mlir::NamedAttrList portAttributes(mlir::dt::PortAttr port);
  mlir::ArrayAttr stringArray(llvm::ArrayRef<StringRef> strings);
  void beginFunction(StringRef name);
  /// Ends a function with these results.
  void endFunction(llvm::ArrayRef<std::pair<Value, mlir::dt::PortAttr>> results);
  void addGenerationInputs(const std::string &namesBegin);
  /// The cache `name` of the current scope, with `rows` written at the positions that are read; the function returns
  /// it.
  Value cached(StringRef name, Value rows);

  mlir::OpBuilder builder;
  Symbols symbols;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  // About the function that is being written:
  mlir::func::FuncOp function;
  mlir::Block *body = nullptr;
  llvm::SmallVector<mlir::Attribute> parameters;         ///< #dt.param of each parameter argument
  llvm::SmallVector<mlir::Attribute> argumentAttributes; ///< of each argument
  llvm::SmallVector<std::pair<Value, mlir::dt::PortAttr>> caches; ///< as the function leaves them
  std::optional<int64_t> capacity;                                ///< of the caches, where there are any
  std::string prefix;                                    ///< of the current scope, e.g. "h.3.attn"
  mlir::dt::LayerAttr layer;                             ///< null outside the layers
  Value tokensValue, targetsValue, key;
  Value positionsValue, keyPositions; ///< null until they are asked for; of the caches
  Value startsOfDocuments;            ///< null where documents are not separated
  Value lastPosition;                 ///< null where all positions' logits are asked for, or there is one
  int64_t nextSite = 0;
};

/// One level of the model's names, for as long as this object lives.
class Scope {
public:
  Scope(ModelBuilder &builder, llvm::StringRef name)
      : builder(builder), savedPrefix(builder.prefix), savedLayer(builder.layer) {
    builder.prefix = builder.qualified(name);
  }
  ~Scope() {
    builder.prefix = savedPrefix;
    builder.layer = savedLayer;
  }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

private:
  ModelBuilder &builder;
  std::string savedPrefix;
  mlir::dt::LayerAttr savedLayer;
};

/// A scope that is a layer: its operations and parameters are its members (dt.layer).
class Layer : public Scope {
public:
  Layer(ModelBuilder &builder, llvm::StringRef list, int64_t index)
      : Layer(builder, builder.qualified(list), list, index) {}

private:
  Layer(ModelBuilder &builder, const std::string &listName, llvm::StringRef list, int64_t index)
      : Scope(builder, (list + "." + llvm::Twine(index)).str()) {
    builder.layer =
        mlir::dt::LayerAttr::get(builder.builder.getContext(), builder.builder.getStringAttr(listName), index);
  }
};

} // namespace dtc
