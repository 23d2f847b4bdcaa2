// Metrics as JSON lines: one object per step, with the keys that torchtitan logs, so that its users' tools work.
#pragma once

#include "runtime/observe/log_file.h"
#include "runtime/observe/stragglers.h"
#include "runtime/observe/tensorboard.h"

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace dtc {

/// The contents of one line. Rates are per rank, as torchtitan's are per device.
struct StepMetrics {
  using Time = std::chrono::system_clock::time_point;

  int64_t step = 0;                   ///< "step", counted from 1
  Time time = {};                     ///< "time", at the end of the step: UTC in ISO 8601
  double loss = 0;                    ///< "loss_metrics/global_avg_loss": mean over the step's valid tokens
  std::optional<double> gradientNorm; ///< "grad_norm", before clipping
  double learningRate = 0;            ///< "lr"
  int64_t tokensSeen = 0;             ///< "n_tokens_seen": by all ranks, since step 1
  double tokensPerSecond = 0;         ///< "throughput(tps)"
  double teraflops = 0;               ///< "tflops": model flops, without recomputation
  std::optional<double> utilisation;  ///< "mfu(%)": teraflops over what this rank's share of the device can do
  double stepSeconds = 0;             ///< "time_metrics/end_to_end(s)"
  double dataSeconds = 0;             ///< "time_metrics/data_loading(s)"; its share in "time_metrics/data_loading(%)"
  /// "time_metrics/device_wait(s)": time that the host waited for a device other than itself.
  std::optional<double> deviceWaitSeconds;
  /// "time_metrics/checkpoint_wait(s)": time that training has waited for checkpoints since the previous line.
  std::optional<double> checkpointSeconds;
  /// "time_metrics/replica_check(s)": time for comparisons of replicas since the previous line; 0: left out.
  double replicaSeconds = 0;
  double arenaGiB = 0;      ///< "memory/max_active(GiB)": the memory plan's arena
  double peakMemoryGiB = 0; ///< "memory/max_reserved(GiB)": the peak of device memory that this rank had
  /// "time_metrics/compute_min(s)", "..._median(s)", "..._max(s)" and "..._variation(%)" over all ranks of the time
  /// that they computed rather than waited for each other, and "time_metrics/slowest_rank", which took the longest.
  std::optional<ComputeTimes> compute = std::nullopt;

  /// Sets the rates and the duration of a step in which all `ranks` together worked on `tokens`. `peakFlops` is the
  /// peak of one rank per second, on processors from peakShare; 0 if unknown.
  void setRates(int64_t tokens, double seconds, int ranks, double flopsPerToken, double peakFlops);
};

/// Writes lines to a file, and the same numbers to an event file of TensorBoard. Its functions are those of LogFile.
class MetricsWriter {
public:
  /// Without `eventFolder` it writes no event file.
  explicit MetricsWriter(const std::string &path, const std::string &eventFolder = "");

  void begin(bool append);
  void goOnAfter(int64_t step);
  [[nodiscard]] std::string step(const StepMetrics &metrics);
  /// "validation_metrics/loss" after a step.
  [[nodiscard]] std::string validation(int64_t step, StepMetrics::Time time, double loss);
  void close();

private:
  std::string write(int64_t step, StepMetrics::Time time, const nlohmann::ordered_json &figures);

  LogFile file;
  std::optional<EventWriter> events;
};

/// This process's peak resident memory.
double peakMemoryGiB();

} // namespace dtc
