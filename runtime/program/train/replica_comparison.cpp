#include "runtime/program/train/replica_comparison.h"

#include <fmt/format.h>

namespace dtc {

void ReplicaComparison::takeNews(const std::vector<StepNews> &news) {
  int64_t interval = news.front().interval;
  if (replicas.setInterval(interval) && !overlaps)
    report.note(fmt::format("replicas are compared every {} steps and before each checkpoint", interval));
}

/// A comparison is too short to count as taking long.
bool ReplicaComparison::afterStep(const TrainerState &done, bool isUnderWay) {
  if (replicas.isDue(done.step) && !isUnderWay)
    replicas.compare(done.step);
  return false;
}

} // namespace dtc
