// What there is to choose about a program besides its layout, as data. A choice is given by the user or made by a
// planner, stored in the program, and replayed: on the same model, or on one with other sizes and fewer layers. So it
// names layers by their class ("h.*"), never by number. docs/choices.md shows the file.
#pragma once

#include "passes/choices/Gathers.h"
#include "passes/choices/Recompute.h"
#include "runtime/abi/bucket_size.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Moves a command to right before or after another one; in each layer if it belongs to a layer.
struct OrderRule {
  std::string list = "*"; ///< a pattern over the lists' names
  std::string move;       ///< a command as FlatCommand::name has it: "update all_reduce h.*.mlp.c_fc.weight"
  bool isBefore = false;
  std::string anchor; ///< the command before or after which it goes; it stays where it is
  /// The anchor's layer, counted from the command's own; where the command belongs to no layer, or to another list of
  /// layers, from the first (0, 1, ...) or the last (-1, -2, ...).
  int64_t layer = 0;
  std::string where; ///< "file:line", for messages

  bool operator==(const OrderRule &other) const;
};

/// What is chosen for some parameters.
struct ParameterRule {
  std::string parameters; ///< a pattern over names
  std::string how;
  std::string where; ///< "file:line", for messages
};

/// Starts of one kind, group and type that are one start of several parts (a bucket): those with these names, in this
/// many layers in a row. A start outside the layers goes with those around it.
struct BucketRule {
  std::vector<std::string> starts; ///< as FlatCommand::name has them
  int64_t layers = 1;
  std::string why;   ///< why this many, for people
  std::string where; ///< "file:line", for messages
};

/// In how many parts something is done.
struct SplitRule {
  std::string pattern; ///< over names
  int64_t parts = 1;
  std::string where; ///< "file:line", for messages
};

struct Choices {
  std::string timetable = "1f1b";  ///< for a pipeline; see PipelineTimetable.h
  bool overlapSteps = false;       ///< of a pipeline: updates come before what all ranks know; see docs/pipelines.md
  std::vector<int64_t> layers;     ///< of each stage of a pipeline; none: as the strategy says
  /// How what crosses a cut of a pipeline travels, "whole" or "sliced": one word for each cut, or one for all; none: by
  /// costs where these are known, else whole. See passes/keep/cut/Crossings.h.
  std::vector<std::string> crossing;
  uint64_t gatherAhead = 2;        ///< see dt-gather-ahead
  std::vector<GatherRule> gathers; ///< the last that fits counts; `gatherAhead` decides for what none names
  std::vector<OrderRule> order;    ///< one after the other, from the order that the passes give
  /// Whether rows that are added late to a parameter's gradient are "gathered", or the whole gradient is "reduced" with
  /// them; the last that fits counts. See dt-gather-rows, which decides about the others.
  std::vector<ParameterRule> rows;
  std::vector<BucketRule> buckets;                                      ///< a name's last one counts; ...
  abi::BucketSize bucketSize;                                           ///< ... of what none names: see chooseBuckets
  std::vector<RecomputeRule> recompute = {{"*", {RecomputeRun()}, ""}}; ///< the last that fits counts
  /// In how many parts of the batch the layers of a class ("h.*") are done, and in how many parts of its rows a
  /// parameter's gradient is made and reduced; the last that fits counts, and what no rule fits is not split. See
  /// dt-split-products and dt-split-gradients.
  std::vector<SplitRule> split, splitGradients;
};

using ChoicesError = llvm::function_ref<void(const llvm::Twine &)>;

/// What a file of choices says; what it does not say is as in `given`. `path` names the file in messages. Returns
/// nothing after an error.
std::optional<Choices> parseChoices(llvm::StringRef text, llvm::StringRef path, Choices given, ChoicesError error);

/// The text from which parseChoices reads them back. `isPipeline`: includes what concerns stages.
std::string printChoices(const Choices &choices, bool isPipeline);

} // namespace dtc
