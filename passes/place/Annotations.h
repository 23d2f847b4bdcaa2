// What a strategy says: which mesh axes split which named dimensions of parameters, activations and inputs.
//
// A strategy is a preset (Presets.cpp) or a TOML file:
//
//   preset = "megatron"                                  # optional: a preset to start from
//   [parameters]                                         # patterns over parameter names; * matches any text
//   "h.*.mlp.c_fc.weight" = { mlp = ["tp"] }             # dimension name = axes, major to minor
//   "wte.weight" = { vocab = [] }                        # [] splits it over nothing
//   [tags]                                               # patterns over the names of tagged activations
//   "h.0.residual*" = { sequence = ["tp:(1)2"] }         # the first half-axis of tp: (parts before it) its size
//   [inputs]
//   tokens = { batch = ["dp"] }
//   [storage]                                            # how parameters are stored between uses; with no entry: as
//   "*" = { any = ["dp"] }                               # [parameters] says. any: the first dimension that divides
//                                                        # any = [] takes back what earlier entries of the section say
//   [slots]                                              # what the optimizer keeps, and where it updates; without an
//   "*" = { any = ["dp"] }                               # entry: as [storage] says
//   [gradients]                                          # where they are added up; without an entry: as they appear,
//   "*" = { any = ["dp"] }                               # partial, and reduced once a step
//   [stages]                                             # of a pipeline, mesh axis pp; default: as evenly as possible
//   layers = [9, 3]                                      # how many layers each has
//
// [storage], [slots] and [gradients] say what splits a parameter further than [parameters] does. Entries are applied in
// order of file, later ones over earlier ones, dimension by dimension. Everything is strict: an unknown key, name,
// dimension or axis is an error that suggests the nearest.
#pragma once

#include "dialect/IR/Attributes.h"

#include <map>

namespace dtc {

/// One entry: what matches `pattern` has these dimensions split over these axes.
struct DimAnnotation {
  std::string pattern;
  std::vector<std::pair<std::string, std::vector<std::string>>> dims;
  bool required = true; ///< an error when nothing matches; presets name dimensions a model may lack
  std::string where;    ///< "file:line" for messages
};

struct Annotations {
  std::vector<DimAnnotation> parameters, tags, inputs, storage, slots, gradients;
  std::vector<int64_t> layers;   ///< of each stage of a pipeline; none: as evenly as possible
  std::vector<std::string> axes; ///< that the strategy knows; the mesh may lack those of a preset
};

using ErrorCallback = llvm::function_ref<void(const llvm::Twine &)>;

/// A mesh from text such as "dp=2,tp=2".
mlir::FailureOr<mlir::dt::MeshAttr> parseMesh(mlir::MLIRContext *context, llvm::StringRef text, ErrorCallback error);

/// An axis from text such as "tp" or "tp:(1)2", which the mesh must have.
mlir::FailureOr<mlir::dt::AxisRefAttr> parseAxis(mlir::dt::MeshAttr mesh, llvm::StringRef text, ErrorCallback error);

/// The strategy of this name or in this file. `text` is what the file says where that has been read already.
mlir::FailureOr<Annotations> loadStrategy(llvm::StringRef nameOrFile, mlir::dt::MeshAttr mesh,
                                          llvm::ArrayRef<mlir::dt::ParamAttr> parameters, ErrorCallback error,
                                          llvm::StringRef text = "");

/// Adds one more entry after a strategy's own, written on one line: [storage] "*" = { any = [] }.
mlir::LogicalResult addEntry(Annotations &annotations, llvm::StringRef line, mlir::dt::MeshAttr mesh,
                             ErrorCallback error);

/// " (did you mean 'x'?)" with the candidate nearest to `name`, or "" when there is none.
std::string suggest(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

} // namespace dtc
