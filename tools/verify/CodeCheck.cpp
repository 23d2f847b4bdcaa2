#include "tools/verify/CodeCheck.h"

#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/GeneratedKernel.h"

#include <set>

using namespace mlir::dt;

namespace dtc::verify {

namespace {

/// How launches call a kernel: the inputs that its outputs lie over, and one of the launches that have it so.
struct Calls {
  const abi::Launch *launch = nullptr;
  std::set<std::vector<int>> inPlace;
};

class CodeChecker {
public:
  CodeChecker(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds);
  CodeReport check();

private:
  void collect(const abi::Launch &launch);
  void check(const abi::Kernel &kernel, const Calls &calls);
  CodeResult run(const GeneratedKernel &kernel, const CodeFunction &function, const Calls &calls, int64_t rank,
                 const CodeTrial &trial) const;

  const abi::Manifest &program;
  const FindCode &find;
  mlir::MLIRContext &context;
  MeshAttr mesh;
  std::vector<Calls> calls; ///< of each kernel
  double workOfTrial = 0;
  CodeReport report;
};

} // namespace

/// Draws of inputs: of any sign, and positive ones.
static constexpr unsigned draws = 2;

CodeChecker::CodeChecker(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds)
    : program(program), find(find), context(context), mesh(toAttribute(program.mesh(), context)),
      calls(program.kernels_size()) {
  for (const abi::Role &role : program.roles())
    for (const abi::CommandList &list : role.lists())
      for (const abi::Command &command : list.commands())
        if (command.has_launch() && command.launch().kernel() < calls.size())
          collect(command.launch());
  size_t trials = 0;
  for (const Calls &call : calls)
    trials += call.inPlace.size() * draws;
  constexpr double workOfSecond = 4e6, most = 2e6;
  workOfTrial = std::min(most, seconds * workOfSecond / double(std::max<size_t>(trials, 1)));
}

/// An output lies over an input whose buffer begins where its own does.
void CodeChecker::collect(const abi::Launch &launch) {
  const abi::Kernel &kernel = program.kernels(int(launch.kernel()));
  if (kernel.library() || launch.buffers_size() != int(kernel.inputs() + kernel.outputs()))
    return;
  std::vector<int> inPlace;
  for (int output = int(kernel.inputs()); output < launch.buffers_size(); ++output) {
    auto end = launch.buffers().begin() + kernel.inputs();
    auto input = std::find(launch.buffers().begin(), end, launch.buffers(output));
    inPlace.push_back(input == end ? -1 : int(input - launch.buffers().begin()));
  }
  Calls &call = calls[launch.kernel()];
  call.launch = &launch;
  call.inPlace.insert(inPlace);
  call.inPlace.insert(std::vector<int>(inPlace.size(), -1));
}

CodeResult CodeChecker::run(const GeneratedKernel &kernel, const CodeFunction &function, const Calls &call,
                            int64_t rank, const CodeTrial &trial) const {
  std::vector<int64_t> scalars, sites;
  for (const abi::Scalar &scalar : call.launch->scalars())
    scalars.push_back(valueOf(scalar, program.mesh(), mesh, rank));
  return kernel.code(function, {mesh, rank, true}, scalars, sites).run(trial);
}

void CodeChecker::check(const abi::Kernel &kernel, const Calls &call) {
  CodeFunction function = find(kernel.symbol());
  if (!function) {
    report.failure = "kernel '" + kernel.symbol() + "' has no code in the program";
    return;
  }
  GeneratedKernel generated(kernel, program.target(), context);
  CodeTrial trial{.mostWork = workOfTrial};
  bool isCut = false;
  ++report.kernels;
  for (const std::vector<int> &inPlace : call.inPlace)
    for (trial.draw = 0; trial.draw < draws; ++trial.draw) {
      trial.inPlace = inPlace;
      trial.parts = 1 + 2 * int(trial.draw);
      int64_t rank = trial.draw == 0 ? 0 : mesh.getNumRanks() - 1;
      CodeResult result = run(generated, function, call, rank, trial);
      if (result.isTooMuch) {
        report.left.push_back(kernel.symbol());
        --report.kernels;
        return;
      }
      report.compared += result.compared;
      isCut |= !result.isWhole;
      if (!result.failure.empty()) {
        report.failure = "the code of kernel '" + kernel.symbol() + "': " + result.failure;
        return;
      }
    }
  if (isCut)
    report.cut.push_back(kernel.symbol());
}

CodeReport CodeChecker::check() {
  try {
    for (int kernel = 0; kernel < program.kernels_size() && report.failure.empty(); ++kernel)
      if (calls[kernel].launch)
        check(program.kernels(kernel), calls[kernel]);
  } catch (const ProgramFault &fault) {
    report.failure = fault.what();
  }
  return report;
}

CodeReport checkCode(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds) {
  return CodeChecker(program, find, context, seconds).check();
}

} // namespace dtc::verify
