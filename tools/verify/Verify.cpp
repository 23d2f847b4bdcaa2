#include "tools/verify/Verify.h"

#include "runtime/support/error.h"
#include "tools/verify/CommandSubject.h"
#include "tools/verify/FileLayout.h"

#include <cmath>
#include <cstdio>

using namespace mlir::dt;

namespace dtc::verify {

static double distance(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Appends the comparison of one result; empty, or what disagrees.
static std::string compare(const std::string &list, const ExpectedResult &expected, const Subject &subject,
                           double tolerance, VerifyReport &report) {
  const auto &[port, value, scale] = expected;
  Pieces pieces = subject.read(port.key);
  std::string problem;
  std::optional<HostTensor> actual =
      gather(pieces.ofRanks, pieces.sharding, pieces.mesh, port.type.getShape(), problem);
  if (!actual)
    return port.key.describe() + ": " + problem;
  Comparison comparison = {list, port.key.describe(), distance(value, *actual), tolerance * scale};
  report.comparisons.push_back(comparison);
  if (comparison.agrees())
    return "";
  char text[96];
  std::snprintf(text, sizeof text, " differs by %.3g, allowed is %.3g", comparison.error, comparison.bound);
  return comparison.tensor + text;
}

VerifyReport verify(const Expectation &expectation, Subject &subject, double tolerance) {
  VerifyReport report;
  try {
    for (const ExpectedRun &run : expectation.runs()) {
      subject.run(run, [&](const ExpectedList &part) {
        for (const ExpectedResult &result : part.results)
          if (std::string difference = compare(part.list, result, subject, tolerance, report); !difference.empty()) {
            report.failure = "after list '" + part.list + "': " + difference + "; " + subject.explain(result.port.key);
            return false;
          }
        return true;
      });
      if (!report.failure.empty())
        return report;
    }
    subject.finish();
  } catch (const ProgramFault &fault) {
    report.failure = fault.what();
  }
  return report;
}

static void follow(const Expectation &expectation, CommandSubject &subject, const Progress &progress) {
  double all = 0;
  for (const ExpectedRun &run : expectation.runs())
    all += static_cast<double>(subject.commandsIn(run));
  subject.onCommand([all, &progress, done = 0.0]() mutable { progress(++done / all); });
}

VerifyReport verify(const Expectation &expectation, const abi::Manifest &compiled, double tolerance,
                    const Progress &progress) {
  if (std::string difference = findParameterDifference(expectation.logicalModule(), compiled); !difference.empty())
    return {{}, difference};
  try {
    CommandSubject subject(compiled, expectation.context());
    if (progress)
      follow(expectation, subject, progress);
    return verify(expectation, subject, tolerance);
  } catch (const ProgramFault &fault) { // its kernels have no references
    return {{}, fault.what()};
  }
}

int64_t vocabularyOf(const abi::Manifest &manifest) {
  for (const abi::Symbol &symbol : manifest.symbols())
    if (symbol.name() == "vocab")
      return symbol.size();
  throw Error(ExitCode::BadInput, "the program has no symbol 'vocab', which bounds the tokens");
}

} // namespace dtc::verify
