// What a program's step will cost on a cluster, and where the time goes.
#pragma once

#include "timing/events/bound.h"
#include "timing/events/simulate.h"

#include <map>
#include <string>
#include <vector>

namespace dtc::timing {

/// The forecast for one class of ranks. All but `idle` and `end` are as in ClassTimes; host + compute + stolen + moving
/// + idle = the step.
struct RankForecast {
  int rank = 0;      ///< the lowest of them
  int64_t ranks = 1; ///< how many there are
  std::string role;
  double host = 0, compute = 0, stolen = 0, moving = 0;
  double idle = 0;                ///< waiting for other ranks, or done before them
  std::vector<double> sent, busy; ///< by level: bytes, and the share of the step in which something moves
};

/// A command for which ranks wait.
struct Culprit {
  int rank = 0; ///< the lowest of the class that waits longest for it
  std::string list;
  uint32_t command = 0; ///< in that list of the program
  double late = 0, moving = 0;
  int64_t times = 0;
};

struct Forecast {
  double seconds = 0;
  double band = 0; ///< relative: the step takes seconds (1 ± band)
  LowerBound bound;
  std::vector<RankForecast> ranks;
  std::vector<Culprit> culprits;              ///< the worst first
  std::map<abi::Work::Class, double> kernels; ///< seconds of a rank, mean over ranks
  double moved = 0;  ///< seconds in which something moves for a rank, hidden or not, mean over ranks
  double tokens = 0; ///< of a step
  double modelFlops = 0, executedFlops = 0; ///< of a step, all ranks
  double peakFlops = 0;                     ///< of all devices together, in the type in which the program multiplies

  /// Means over ranks, of the step's time.
  double host() const { return mean(&RankForecast::host); }
  double compute() const { return mean(&RankForecast::compute); }
  double stolen() const { return mean(&RankForecast::stolen); }
  double moving() const { return mean(&RankForecast::moving); }
  double idle() const { return mean(&RankForecast::idle); }
  /// Chowdhery et al., arXiv:2204.02311; Korthikanti et al., arXiv:2205.05198, where recomputation counts too.
  double mfu() const { return peakFlops > 0 ? modelFlops / (seconds * peakFlops) : 0; }
  double hfu() const { return peakFlops > 0 ? executedFlops / (seconds * peakFlops) : 0; }
  /// Idle time relative to a rank's compute, and as a share of the step (Narayanan et al., arXiv:2104.04473).
  double bubbleOverhead() const { return compute() > 0 ? idle() / compute() : 0; }
  double bubbleFraction() const { return seconds > 0 ? idle() / seconds : 0; }

private:
  double mean(double RankForecast::*part) const;
};

/// What a training step of a program takes: by itself, or, where steps overlap, one of many in a row, none of which is
/// redone. Of such a step the lower bound is the work of the busiest rank.
Forecast forecastStep(const abi::Manifest &manifest, const Layout &layout, const Conditions &conditions = {});

/// What a simulation of a step says about each class of ranks.
std::vector<RankForecast> rankForecasts(const Step &step, const EqualRanks &classes, const Simulated &simulated);

/// Of all ranks' devices together, in the type in which the step does most of its products' work.
double peakFlopsOf(const Step &step, const Layout &layout, const EqualRanks &classes);

/// `step` was read from `manifest`, whose mesh `layout` has laid out.
Forecast forecast(const abi::Manifest &manifest, const Step &step, const Layout &layout,
                  const Conditions &conditions = {}, Watcher *watcher = nullptr);

} // namespace dtc::timing
