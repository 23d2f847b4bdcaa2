// dtc verify PROGRAM: builds the model again and compares it with the program's own command lists.
#include "tools/dtc/verify/VerifyProgram.h"

#include "frontends/text/Nesting.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/certify/certify.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/verify/VerifyEffort.h"
#include "tools/verify/Marks.h"
#include "tools/verify/Statements.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>

using namespace dtc;

bool dtc::looksLikeProgram(const std::string &path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem))
    return false;
  std::array<char, 4> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == "\177ELF";
}

/// A program's sizes are fixed: they cannot be shrunk.
static void requirePossible(const abi::Manifest &program, const std::string &path, bool noLimit) {
  requireEffort(VerifyEffort::of(program), path,
                "--code runs its kernels alone, and dtc verify MODEL with its --mesh and --strategy checks the same "
                "layout at smaller sizes",
                noLimit);
}

/// MLIR's parser would end the process on some texts.
std::string dtc::findUnreadableKernel(const abi::Manifest &program) {
  for (const abi::Kernel &kernel : program.kernels())
    if (std::string problem = text::findExcess(kernel.reference()); !problem.empty())
      return fmt::format("kernel '{}': its reference {}", kernel.symbol(), problem);
  return "";
}

/// The timetables that run the model's functions.
static abi::Role timetableOf(const abi::Manifest &program) {
  if (!program.has_generation())
    return verify::timetableOf(program.training().accumulation(), verify::hasCopies(program));
  const abi::Timetable &generation = abi::timetableOf(program.roles(0), abi::generationTimetable);
  return verify::generationTimetables(!generation.period().empty());
}

/// Compares what the program states about itself without showing it in its results.
static std::string findStated(const abi::Manifest &program, mlir::ModuleOp logical, double flopsOfToken) {
  if (std::string difference = verify::findStatementDifference(logical, program); !difference.empty())
    return difference;
  if (program.flops_per_token() != flopsOfToken)
    return fmt::format("a token takes {} flops, the model's {}", program.flops_per_token(), flopsOfToken);
  return findUnreadableKernel(program);
}

/// Its certificate against deadlock must equal the one that it gets now.
static std::string findWrongCertificate(const abi::Manifest &program) {
  try {
    std::string proven = certificateText(timing::certify(program)), stated = certificateText(program.certificate());
    return proven == stated ? ""
                            : fmt::format("its certificate against deadlock is of {}, and it has {}", stated, proven);
  } catch (const Error &error) {
    return error.what();
  }
}

verify::VerifyReport dtc::verifyProgram(const abi::Manifest &program, const std::string &path, const std::string &model,
                                        bool noLimit) {
  if (int ranks = Mesh(program.mesh()).ranks(); ranks > verify::mostRanks)
    throw Error(ExitCode::BadInput, fmt::format("{}: {} ranks: verify runs them all in this process, at most {}", path,
                                                ranks, verify::mostRanks));
  LoadedModel logical(program, path, model);
  mlir::FailureOr<double> flops = flopsPerToken(logical.module());
  if (failed(flops))
    throw Error(ExitCode::BadInput, path + ": the work of its model cannot be counted");
  requirePossible(program, path, noLimit);
  logical.runPhases(Phase::What);
  if (std::string difference = findStated(program, logical.module(), *flops); !difference.empty())
    return {{}, difference};
  CompiledProgram again = LoadedModel(program, path, model).compile(/*generateCode=*/false);
  if (program.model_defaults_json() != again.manifest.model_defaults_json())
    return {{},
            fmt::format("where a config.json is silent it takes {}, the model's family {}",
                        program.model_defaults_json(), again.manifest.model_defaults_json())};
  if (std::string difference = verify::findMarkDifference(program, again.manifest); !difference.empty())
    return {{}, difference};
  verify::Expectation expectation(logical.module(), timetableOf(program), verify::vocabularyOf(program));
  try {
    verify::VerifyReport report = verify::verify(expectation, program, verify::f64Tolerance, tellProgress());
    if (report.failure.empty())
      report.failure = findWrongCertificate(program);
    return report;
  } catch (const Error &error) { // a program that keeps no such tensor is not this model's
    return {{}, error.what()};
  }
}
