#include "timing/events/bound.h"

namespace dtc::timing {

LowerBound lowerBound(const Step &step, const Layout &layout, const Conditions &conditions,
                      const Simulated &simulated) {
  LowerBound bound;
  auto consider = [&](double seconds, LowerBound::Reason reason, int ofClass, int level) {
    constexpr double Rounding = 1 + 1e-9; // the first reason stands where two give one time
    if (seconds > bound.seconds * Rounding)
      bound = {seconds, reason, ofClass, level};
  };
  for (size_t number = 0; number < simulated.classes.size(); ++number)
    consider(simulated.classes[number].host + simulated.classes[number].compute, LowerBound::Compute,
             static_cast<int>(number), -1);
  for (size_t number = 0; number < simulated.classes.size(); ++number)
    for (size_t link = 0; link < simulated.classes[number].needed.size(); ++link)
      consider(simulated.classes[number].needed[link], LowerBound::Link, static_cast<int>(number),
               static_cast<int>(link / 2)); // of each level both directions
  Conditions free = conditions;
  free.unlimited = true;
  Simulated chains = simulate(step, layout, free);
  for (size_t number = 0; number < chains.classes.size(); ++number)
    consider(chains.classes[number].end, LowerBound::CriticalPath, static_cast<int>(number), -1);
  return bound;
}

} // namespace dtc::timing
