// Frontends turn a model file into a module of dt in its first form: one function @loss over whole tensors, its
// parameters with their bijection to the tensors of the file, and the table of named sizes. See dialect/IR/Dialect.td.
// Weights are not loaded, only checked: their names and shapes, and that a stored output projection which is tied to
// the embedding equals it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dtc {

/// The sizes for which functions that generate text are made.
struct GenerationSizes {
  int64_t capacity = 0;  ///< positions of a row: the prompt's and the new ones
  int64_t prompt = 0;    ///< how many positions of a prompt are read at a time; without caches all of `capacity`
  bool hasCaches = true; ///< of keys and values; without them the whole row is read again for each new token
};

/// What a user decides about a model that its file does not say.
struct ModelOptions {
  /// Rows of one micro-batch over all ranks together: global batch / accumulation.
  int64_t batch = 1;
  /// Tokens per row; 0: as many as the model has positions.
  int64_t sequence = 0;
  /// Replaces every dropout probability of the model; none: as the model file says.
  std::optional<double> dropout = std::nullopt;
  /// Replaces entries of the module's dt.symbols ("vocab", "embed", "layers", ...) before the model is built, so that
  /// the same builder makes the shrunk model that `dtc verify` runs. Weights next to the model are then ignored.
  std::map<std::string, int64_t> symbols = {};
  /// Tokens see only their own document, whose first place is 0: an input says where documents begin.
  bool separateDocuments = false;
  /// Functions that generate text, @prompt and @generate, take the place of @loss; `batch` is the number of rows.
  std::optional<GenerationSizes> generation = std::nullopt;
};

/// A model as a frontend leaves it.
struct Model {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The directory of its weights (safetensors); empty: seeded initialisation.
  std::string weightsDirectory;
  /// The model's own config.json, written back next to every checkpoint; empty for a model given as text.
  std::string configJson;
  /// What its family assumes where a config.json is silent: a JSON object, empty where configJson is.
  std::string configDefaults;
};

/// Loads a Hugging Face directory (config.json of a family we know, with or without safetensors weights) or a .mlir
/// file in the dialect's own text. The context must have the dialects that registerFrontendDialects names.
/// Throws Error (BadInput), naming the file, the key or tensor, its value and what to do.
Model load(const std::string &path, const ModelOptions &options, mlir::MLIRContext &context);

/// The model of a config.json's text, as a program carries it; `name` stands for it in messages. There are no weights.
/// Throws as load does.
Model loadConfig(const std::string &text, const std::string &name, const ModelOptions &options,
                 mlir::MLIRContext &context);

/// The dialects that a frontend's module is written in.
void registerFrontendDialects(mlir::DialectRegistry &registry);

} // namespace dtc
