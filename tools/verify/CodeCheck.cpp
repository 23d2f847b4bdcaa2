#include "tools/verify/CodeCheck.h"

#include "runtime/abi/resolve.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/GeneratedKernel.h"
#include "tools/verify/LibraryCode.h"

#include <set>
#include <tuple>

using namespace mlir::dt;

namespace dtc::verify {

namespace {

/// How launches call a kernel: the inputs that its outputs overwrite, and one launch for each such pattern.
struct Calls {
  const abi::Launch *launch = nullptr;
  std::set<std::vector<int>> inPlace;
};

/// All that the code of a library kernel sees of a launch.
struct LibraryLaunchKey {
  std::vector<abi::DataType> types;
  std::vector<int> over; ///< for each buffer the one whose memory it shares, or -1
  std::vector<int64_t> scalars;
  int64_t grid;
  unsigned draw;

  auto operator<=>(const LibraryLaunchKey &) const = default;
};

class CodeChecker {
public:
  CodeChecker(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds);
  CodeReport check();

private:
  void collect(const abi::Launch &launch);
  void collectLibrary(const abi::Launch &launch);
  std::vector<int64_t> scalarsOf(const abi::Launch &launch, int64_t rank) const;
  void check(const abi::Kernel &kernel, const Calls &calls);
  void checkLibrary(const std::string &symbol, const std::set<LibraryLaunchKey> &launches);
  int64_t rankOf(unsigned draw) const { return draw == 0 ? 0 : mesh.getNumRanks() - 1; }
  CodeResult run(const GeneratedKernel &kernel, const CodeFunction &function, const Calls &calls, int64_t rank,
                 const CodeTrial &trial) const;

  const abi::Manifest &program;
  const FindCode &find;
  mlir::MLIRContext &context;
  MeshAttr mesh;
  std::vector<Calls> calls;                                          ///< of each generated kernel
  std::map<std::string, std::set<LibraryLaunchKey>> libraryLaunches; ///< of each symbol
  double workOfTrial = 0;
  std::vector<abi::CommandList> lists; ///< of all roles, resolved
  CodeReport report;
};

} // namespace

/// Draws of inputs, with different magnitudes and signs; the first runs the whole grid, on the first rank.
static constexpr unsigned draws = 2;
static int partsOf(unsigned draw) { return 1 + 2 * int(draw); }

CodeChecker::CodeChecker(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds)
    : program(program), find(find), context(context), mesh(toAttribute(program.mesh(), context)),
      calls(program.kernels_size()) {
  for (const abi::Role &role : program.roles())
    for (abi::CommandList &list : abi::Resolver(program, role).all())
      lists.push_back(std::move(list));
  for (const abi::CommandList &list : lists)
    for (const abi::Command &command : list.commands())
      if (command.has_launch() && command.launch().kernel() < calls.size())
        program.kernels(int(command.launch().kernel())).library() ? collectLibrary(command.launch())
                                                                  : collect(command.launch());
  size_t trials = 0;
  for (const Calls &call : calls)
    trials += call.inPlace.size() * draws;
  constexpr double workOfSecond = 4e6, most = 2e6;
  workOfTrial = std::min(most, seconds * workOfSecond / double(std::max<size_t>(trials, 1)));
}

std::vector<int64_t> CodeChecker::scalarsOf(const abi::Launch &launch, int64_t rank) const {
  std::vector<int64_t> scalars;
  for (const abi::Scalar &scalar : launch.scalars())
    scalars.push_back(valueOf(scalar, program.mesh(), mesh, rank));
  return scalars;
}

/// An output overwrites an input whose buffer begins where its own does.
void CodeChecker::collect(const abi::Launch &launch) {
  const abi::Kernel &kernel = program.kernels(int(launch.kernel()));
  if (launch.buffers_size() != int(kernel.inputs() + kernel.outputs()))
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

void CodeChecker::collectLibrary(const abi::Launch &launch) {
  const abi::Kernel &kernel = program.kernels(int(launch.kernel()));
  LibraryLaunchKey key{{}, {}, {}, launch.grid(), 0};
  for (int i = 0; i < launch.buffers_size(); ++i) {
    auto begin = launch.buffers().begin(), own = begin + i, first = std::find(begin, own, launch.buffers(i));
    bool isOver = i >= int(kernel.inputs()) && first != own;
    key.over.push_back(isOver ? int(first - begin) : -1);
    key.types.push_back(launch.buffer_types(i));
  }
  for (; key.draw < draws; ++key.draw) {
    key.scalars = scalarsOf(launch, rankOf(key.draw));
    libraryLaunches[kernel.symbol()].insert(key);
  }
}

CodeResult CodeChecker::run(const GeneratedKernel &kernel, const CodeFunction &function, const Calls &call,
                            int64_t rank, const CodeTrial &trial) const {
  std::vector<int64_t> sites;
  return kernel.code(function, {mesh, rank, true}, scalarsOf(*call.launch, rank), sites).run(trial);
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
      trial.parts = partsOf(trial.draw);
      CodeResult result = run(generated, function, call, rankOf(trial.draw), trial);
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

void CodeChecker::checkLibrary(const std::string &symbol, const std::set<LibraryLaunchKey> &launches) {
  CodeFunction function = find(symbol);
  if (!function)
    throw ProgramFault("kernel '" + symbol + "' is not in the library");
  bool isCut = false;
  ++report.kernels;
  for (const LibraryLaunchKey &launch : launches) {
    LibraryCode code(symbol, launch.types, {launch.scalars, launch.grid}, function);
    CodeResult result = code.run({launch.over, partsOf(launch.draw), launch.draw});
    report.compared += result.compared;
    isCut |= !result.isWhole;
    if (!result.failure.empty()) {
      report.failure = "the code of the library's kernel '" + symbol + "': " + result.failure;
      return;
    }
  }
  if (isCut)
    report.cut.push_back(symbol);
}

CodeReport CodeChecker::check() {
  try {
    for (int kernel = 0; kernel < program.kernels_size() && report.failure.empty(); ++kernel)
      if (calls[kernel].launch)
        check(program.kernels(kernel), calls[kernel]);
    for (const auto &[symbol, launches] : libraryLaunches)
      if (report.failure.empty())
        checkLibrary(symbol, launches);
  } catch (const ProgramFault &fault) {
    report.failure = fault.what();
  }
  return report;
}

CodeReport checkCode(const abi::Manifest &program, const FindCode &find, mlir::MLIRContext &context, double seconds) {
  return CodeChecker(program, find, context, seconds).check();
}

} // namespace dtc::verify
