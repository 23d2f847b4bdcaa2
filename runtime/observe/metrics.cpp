#include "runtime/observe/metrics.h"

#include "runtime/abi/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

namespace dtc {

using Json = nlohmann::ordered_json;

MetricsWriter::MetricsWriter(const std::string &path, bool append)
    : path(path), file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0644)) {
  if (file < 0)
    throw Error(fmt::format("cannot write the metrics to '{}': {}", path, std::strerror(errno)));
}

MetricsWriter::~MetricsWriter() { close(file); }

void MetricsWriter::write(const std::string &line) {
  if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw Error(fmt::format("cannot write the metrics to '{}': {}", path, std::strerror(errno)));
}

void StepMetrics::setRates(int64_t tokens, double seconds, int ranks, double flopsPerToken, double peakFlops) {
  stepSeconds = seconds;
  tokensPerSecond = static_cast<double>(tokens) / seconds / ranks;
  teraflops = tokensPerSecond * flopsPerToken / 1e12;
  utilisation = 100 * teraflops * 1e12 / peakFlops;
}

void MetricsWriter::step(const StepMetrics &metrics) {
  Json line = {{"step", metrics.step}, {"loss_metrics/global_avg_loss", metrics.loss}};
  if (metrics.gradientNorm)
    line["grad_norm"] = *metrics.gradientNorm;
  line["lr"] = metrics.learningRate;
  line["n_tokens_seen"] = metrics.tokensSeen;
  line["throughput(tps)"] = metrics.tokensPerSecond;
  line["tflops"] = metrics.teraflops;
  line["mfu(%)"] = metrics.utilisation;
  line["time_metrics/end_to_end(s)"] = metrics.stepSeconds;
  line["time_metrics/data_loading(s)"] = metrics.dataSeconds;
  line["time_metrics/data_loading(%)"] = 100 * metrics.dataSeconds / metrics.stepSeconds;
  line["memory/max_active(GiB)"] = metrics.arenaGiB;
  line["memory/max_reserved(GiB)"] = metrics.peakMemoryGiB;
  write(line.dump() + "\n");
}

void MetricsWriter::validation(int64_t step, double loss) {
  write(Json({{"step", step}, {"validation_metrics/loss", loss}}).dump() + "\n");
}

double peakMemoryGiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

} // namespace dtc
