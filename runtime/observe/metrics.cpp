#include "runtime/observe/metrics.h"

#include "runtime/support/time_text.h"

#include <nlohmann/json.hpp>
#include <sys/resource.h>

namespace dtc {

using Json = nlohmann::ordered_json;

void StepMetrics::setRates(int64_t tokens, double seconds, int ranks, double flopsPerToken, double peakFlops) {
  stepSeconds = seconds;
  tokensPerSecond = static_cast<double>(tokens) / seconds / ranks;
  teraflops = tokensPerSecond * flopsPerToken / 1e12;
  if (peakFlops > 0)
    utilisation = 100 * teraflops * 1e12 / peakFlops;
}

MetricsWriter::MetricsWriter(const std::string &path, const std::string &eventFolder) : file(path) {
  if (!eventFolder.empty())
    events.emplace(eventFolder);
}

void MetricsWriter::begin(bool append) {
  file.begin(append);
  if (events)
    append ? events->begin() : events->goOnAfter(0);
}

void MetricsWriter::goOnAfter(int64_t step) {
  file.goOnAfter(step);
  if (events)
    events->goOnAfter(step);
}

void MetricsWriter::close() {
  file.close();
  if (events)
    events->close();
}

/// Returns the messages about either file.
std::string MetricsWriter::write(int64_t step, StepMetrics::Time time, const Json &figures) {
  Json line = {{"step", step}, {"time", utcText(time, /*thousandths=*/true)}};
  line.update(figures);
  std::string words = file.append(step, line.dump() + "\n");
  if (!events)
    return words;
  std::vector<std::pair<std::string, double>> values;
  for (const auto &[key, value] : figures.items())
    values.emplace_back(key, value.get<double>());
  std::string others = events->append(step, std::chrono::duration<double>(time.time_since_epoch()).count(), values);
  return words + (words.empty() || others.empty() ? "" : "; ") + others;
}

std::string MetricsWriter::step(const StepMetrics &metrics) {
  Json line = {{"loss_metrics/global_avg_loss", metrics.loss}};
  if (metrics.gradientNorm)
    line["grad_norm"] = *metrics.gradientNorm;
  line["lr"] = metrics.learningRate;
  line["n_tokens_seen"] = metrics.tokensSeen;
  line["throughput(tps)"] = metrics.tokensPerSecond;
  line["tflops"] = metrics.teraflops;
  if (metrics.utilisation)
    line["mfu(%)"] = *metrics.utilisation;
  line["time_metrics/end_to_end(s)"] = metrics.stepSeconds;
  line["time_metrics/data_loading(s)"] = metrics.dataSeconds;
  line["time_metrics/data_loading(%)"] = 100 * metrics.dataSeconds / metrics.stepSeconds;
  if (metrics.checkpointSeconds)
    line["time_metrics/checkpoint_wait(s)"] = *metrics.checkpointSeconds;
  if (metrics.replicaSeconds > 0)
    line["time_metrics/replica_check(s)"] = metrics.replicaSeconds;
  if (metrics.deviceWaitSeconds)
    line["time_metrics/device_wait(s)"] = *metrics.deviceWaitSeconds;
  if (metrics.compute) {
    line["time_metrics/compute_min(s)"] = metrics.compute->min;
    line["time_metrics/compute_median(s)"] = metrics.compute->median;
    line["time_metrics/compute_max(s)"] = metrics.compute->max;
    line["time_metrics/compute_variation(%)"] = 100 * metrics.compute->variation;
    line["time_metrics/slowest_rank"] = metrics.compute->slowest;
  }
  line["memory/max_active(GiB)"] = metrics.arenaGiB;
  line["memory/max_reserved(GiB)"] = metrics.peakMemoryGiB;
  return write(metrics.step, metrics.time, line);
}

std::string MetricsWriter::validation(int64_t step, StepMetrics::Time time, double loss) {
  return write(step, time, {{"validation_metrics/loss", loss}});
}

double peakMemoryGiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

} // namespace dtc
