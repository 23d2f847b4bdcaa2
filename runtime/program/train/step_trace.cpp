#include "runtime/program/train/step_trace.h"

#include "runtime/support/error.h"

#include <fmt/format.h>
#include <utility>

namespace dtc {

StepTrace::StepTrace(Executor &executor, TrainingReport &report, int64_t first, int64_t last, std::string path)
    : executor(executor), report(report), first(first), last(last), path(std::move(path)) {}

void StepTrace::beginStep(int64_t step) {
  if (step != first)
    return;
  trace = std::make_unique<Trace>(executor.manifest(), executor.rank());
  executor.observe(trace.get());
}

void StepTrace::stepComputed(const ComputedStep &step) {
  done = step.number;
  if (trace)
    trace->step(step.number, step.begin, step.end);
  if (step.number == last)
    finish();
}

void StepTrace::finish() {
  if (!trace)
    return;
  executor.observe(nullptr);
  try {
    writeTrace(*trace, executor.communicator(), path);
    report.note(fmt::format("trace: {} (open it at ui.perfetto.dev)", path));
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &error) { // on all ranks; the one that met it has words
    if (*error.what()) {
      report.noteUnwritten(error.what());
      report.warn(fmt::format("step {}: the trace: {}. Training goes on", done, error.what()));
    }
  }
  trace.reset();
}

} // namespace dtc
