// The result of an evaluation, as a program passes it to `dtc eval`, and `dtc eval` to its caller.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Sums over targets that count, over all ranks.
struct LossSum {
  double loss = 0; ///< nats
  double tokens = 0;

  LossSum &operator+=(const LossSum &other) {
    loss += other.loss;
    tokens += other.tokens;
    return *this;
  }
  /// Nats per token; nullopt without tokens.
  std::optional<double> mean() const { return tokens > 0 ? std::optional(loss / tokens) : std::nullopt; }
  /// e^mean().
  std::optional<double> perplexity() const;
};

/// "tokens", "loss" and "perplexity", as described in docs/json.md.
nlohmann::ordered_json toJson(const LossSum &sum);

struct EvaluationResult {
  LossSum all;
  int64_t windows = 0;            ///< rows that were computed
  double seconds = 0;             ///< time taken, without reading weights
  std::vector<LossSum> documents; ///< if each was evaluated separately

  /// Conversion to and from the bytes of a file.
  std::string write() const;
  static EvaluationResult read(std::string_view bytes);
};

} // namespace dtc
