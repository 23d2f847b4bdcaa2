// What a timetable costs: when each entry runs, how long ranks wait, and how much they keep.
//
// The model. A rank computes one entry at a time, in the order of its list, as soon as the entry's inputs are there.
// What comes from another rank is there `transfer` seconds after the entry that computed it ended; transfers hide
// behind compute and do not wait for each other. Two co-scheduled entries begin when the inputs of both are there, and
// end together. Equal input gives equal output, to the bit.
//
// Two bubbles, often confused. With the mean over ranks of the time in which they compute as work:
//   overhead  (length - work) / work: of the ideal time. (p - 1) / m for gpipe and 1f1b, (p - 1) / (v m) interleaved
//   fraction  (length - work) / length: of the whole. (p - 1) / (m + p - 1) for gpipe and 1f1b
// (Narayanan et al., arXiv:2104.04473.) The length of a step is the time from the beginning of its first entry to the
// end of its last. Where no rank waits for all others between steps, a step takes less: see simulateSteps().
#pragma once

#include "timing/timetables/timetable.h"

namespace dtc::timetables {

/// Of one micro-batch in one stage; in seconds, and in bytes or any other unit of memory.
struct StageCosts {
  double forward = 1;
  double input = 1;          ///< of the backward pass the input gradient
  double weight = 1;         ///< of the backward pass the weight gradients
  double backward = 2;       ///< of a whole backward pass
  double stash = 1;          ///< kept from the beginning of the forward pass to the end of the input gradient
  double stashForWeight = 1; ///< of that, what stays until the weight gradients end; of a whole backward pass nothing
  double gradientStash = 0;  ///< kept from the beginning of the input gradient to the end of the weight gradients
};

struct Costs {
  std::vector<StageCosts> stages;
  double transfer = 0;    ///< seconds from rank to rank
  double coScheduled = 1; ///< the time of two co-scheduled entries, as a share of the sum of their times
};

/// All stages alike, with B = I + W.
Costs equalCosts(int32_t stages, double forward = 1, double input = 1, double weight = 1, double transfer = 0);

struct Interval {
  double begin = 0, end = 0;
};

struct Simulated {
  std::vector<std::vector<Interval>> entries; ///< of each rank's list
  double seconds = 0;                         ///< the length of a step
  std::vector<double> work, idle;             ///< of each rank; they add up to the length
  std::vector<double> peakMemory;             ///< of each rank's stashes

  double meanWork() const;
  double bubbleOverhead() const { return meanWork() > 0 ? (seconds - meanWork()) / meanWork() : 0; }
  double bubbleFraction() const { return seconds > 0 ? (seconds - meanWork()) / seconds : 0; }
};

/// A valid timetable (check.h) with the costs of each of its stages.
Simulated simulate(const Timetable &timetable, const Costs &costs);

/// The length of a step alone; infinity where ranks wait for each other for ever.
double stepSeconds(const Timetable &timetable, const Costs &costs);

/// The memory that each rank's stashes take at most.
std::vector<double> peakMemory(const Timetable &timetable, const Costs &costs);

/// Steps one behind the other without a barrier: a rank begins the next step when it has ended its own part of one.
struct SteadyState {
  double seconds = 0;             ///< from the end of one step to the end of the next, once it no longer changes
  std::vector<double> rankBubble; ///< of each rank: the time in which it waits in such a step
};

/// Of each rank: how many entries of the next step it has begun when the last rank ends one, after `steps` steps
/// without a barrier. At least as many steps as ranks show the steady state.
std::vector<size_t> begunBeforeEnd(const Timetable &timetable, const Costs &costs, int32_t steps);

/// Over `steps` steps, of which the last is taken. At least as many as ranks show the steady state.
SteadyState simulateSteps(const Timetable &timetable, const Costs &costs, int32_t steps);

} // namespace dtc::timetables
