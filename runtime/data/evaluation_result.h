// What an evaluation found: how a program tells it to `dtc eval`, and `dtc eval` to its caller.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Of targets that count, over all ranks.
struct LossSum {
  double loss = 0; ///< nats
  double tokens = 0;

  LossSum &operator+=(const LossSum &other) {
    loss += other.loss;
    tokens += other.tokens;
    return *this;
  }
  /// Nats a token; none without tokens.
  std::optional<double> mean() const { return tokens > 0 ? std::optional(loss / tokens) : std::nullopt; }
  /// e^mean().
  std::optional<double> perplexity() const;
};

/// "tokens", "loss" and "perplexity", as docs/json.md says.
nlohmann::ordered_json toJson(const LossSum &sum);

struct EvaluationResult {
  LossSum all;
  int64_t windows = 0;            ///< rows that were computed
  double seconds = 0;             ///< that it took, without reading weights
  std::vector<LossSum> documents; ///< where each was evaluated by itself

  /// To and from the bytes of a file.
  std::string write() const;
  static EvaluationResult read(std::string_view bytes);
};

} // namespace dtc
