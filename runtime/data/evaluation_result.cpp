#include "runtime/data/evaluation_result.h"

#include <cmath>

namespace dtc {

std::optional<double> LossSum::perplexity() const {
  std::optional<double> loss = mean();
  return loss ? std::optional(std::exp(*loss)) : std::nullopt;
}

static nlohmann::ordered_json orNull(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json toJson(const LossSum &sum) {
  return {{"tokens", static_cast<int64_t>(sum.tokens)},
          {"loss", orNull(sum.mean())},
          {"perplexity", orNull(sum.perplexity())}};
}

std::string EvaluationResult::write() const {
  nlohmann::json sums = nlohmann::json::array();
  for (const LossSum &document : documents)
    sums.push_back({document.loss, document.tokens});
  return nlohmann::json{
      {"all", {all.loss, all.tokens}}, {"windows", windows}, {"seconds", seconds}, {"documents", sums}}
      .dump();
}

EvaluationResult EvaluationResult::read(std::string_view bytes) {
  auto sumOf = [](const nlohmann::json &pair) { return LossSum{pair[0], pair[1]}; };
  nlohmann::json content = nlohmann::json::parse(bytes);
  EvaluationResult result{sumOf(content["all"]), content["windows"], content["seconds"], {}};
  for (const nlohmann::json &document : content["documents"])
    result.documents.push_back(sumOf(document));
  return result;
}

} // namespace dtc
