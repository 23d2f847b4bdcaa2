// Advice on a compiled program or a plan: what commonly costs time, memory or accuracy, with figures and a remedy.
//
// A lint looks at one cause. It fires when a figure is beyond its threshold, and it stops when the cause is gone: its
// remedy is a change of the mesh, the strategy, a setting or a file, never a way to silence it. `--silence NAME` does
// that. Lints know the program, its simulated step and the cluster; without a cluster those that need one stay silent.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"
#include "timing/events/forecast.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// What lints look at.
struct AdviceFacts {
  const abi::Manifest &program;
  const timing::Layout *layout = nullptr;     ///< where its ranks are; null: no cluster was named
  const timing::Forecast *forecast = nullptr; ///< of a step there; null where `layout` is
  double referenceBatch = 0; ///< samples: the global batch at which the learning rate was chosen; 0: not said
  double referenceRate = 0;  ///< that learning rate
  std::vector<double> sampleTokens = {}; ///< lengths of a corpus's documents, if data were named
};

struct Finding {
  std::string_view name; ///< of the lint: "tensor-parallel-over-slow-link"
  std::string text;      ///< what was found, with its figures and the threshold
  std::string remedy;    ///< what to change
  double share = 0;      ///< of a step's time, or of memory, that it concerns: what sorts findings
};

struct Lint {
  std::string_view name;
  std::string_view threshold; ///< in words, for docs and `--help`: "a group of axis tp crosses nodes"
  std::optional<Finding> (*look)(const AdviceFacts &facts);
};

/// The lint of a program that needs too much memory. It needs no simulated step.
inline constexpr std::string_view doesNotFitName = "data-parallel-does-not-fit";

/// All of them, by theme: links.cpp, batch.cpp, memory.cpp, training.cpp.
std::span<const Lint> lints();

/// The findings of all lints but those silenced, the weightiest first. Throws Error (Usage) for a name that no lint has.
std::vector<Finding> advise(const AdviceFacts &facts, const std::vector<std::string> &silenced);

inline constexpr size_t shownAdvice = 3; ///< by default; --advice all shows all

/// "advice: NAME: ..." lines to the standard error; the last says how many more there are, and how to see them.
void printAdvice(const std::vector<Finding> &findings, bool all);
nlohmann::ordered_json toJson(const std::vector<Finding> &findings);

} // namespace dtc
