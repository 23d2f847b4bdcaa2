#include "timing/plans/work.h"

#include <algorithm>

namespace dtc::plans {

double productFlops(const ModelFacts &model) {
  double hidden = real(model.hidden), share = model.vocabulary > 0 ? 1 : 2.0 / 3;
  return share * model.flops() * (hidden > 0 ? hidden / (hidden + 1.5) : 1);
}

double headElements(const ModelFacts &model) { return real(model.hidden) * real(model.vocabulary); }

double multipliers(const ModelFacts &model) {
  double head = headElements(model);
  return real(model.layers) * model.layerParameters + model.lastParameters + (model.lastParameters < head ? head : 0);
}

double attentionFlops(const ModelFacts &model) {
  if (model.vocabulary == 0 || model.layers == 0)
    return 0;
  return std::max(0.0, productFlops(model) - 6 * multipliers(model) * model.tokens());
}

double layerFlops(const ModelFacts &model) {
  if (model.hidden < 8 || model.vocabulary == 0 || model.layers == 0)
    return 0;
  double flops = 6 * real(model.layers) * model.layerParameters * (1 - 4 / real(model.hidden)) * model.tokens();
  return flops + 6 * headElements(model) * model.tokens() <= model.flops() ? flops : 0;
}

} // namespace dtc::plans
