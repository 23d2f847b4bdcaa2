// A generated kernel as a launch calls it: its meaning is the dt function that the manifest carries, its scalars and
// grid are the launch's.
#pragma once

#include "dialect/IR/Ops.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/abi/manifest.pb.h"
#include "tools/verify/Buffer.h"
#include "tools/verify/KernelCode.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtc {
struct KernelPlan;
}

namespace dtc::verify {

class GeneratedKernel {
public:
  /// Throws ProgramFault when the kernel's reference is no dt.kernel or one that no code can be generated for, or when
  /// the kernel is launched otherwise than `target` does it.
  GeneratedKernel(const abi::Kernel &kernel, const std::string &target, mlir::MLIRContext &context);
  GeneratedKernel(GeneratedKernel &&) noexcept;
  ~GeneratedKernel();

  /// Does one launch of `rank` on `buffers`, inputs first. Throws ProgramFault unless
  ///   - the scalars are the size that the code asks for, sites that draws can have, one for each number that the
  ///   kernel
  ///     knows a site by, and where this rank's pieces begin;
  ///   - the indices [0, grid) write each element of each output once;
  ///   - outputs lie over inputs only where the code may work in place.
  /// With `part`, only its first so many indices are run, and what others would write stays.
  /// Wrong ones are refused rather than run: some change no number that anybody compares (the mask of padding that
  /// happens to be zero, a maximum that only shifts exponents), and are wrong all the same.
  void launch(const mlir::dt::RankContext &rank, const std::vector<Buffer> &buffers,
              const std::vector<int64_t> &scalars, int64_t grid, std::optional<int64_t> part = std::nullopt) const;

  /// The kernel's code, called with the scalars that a launch on `rank` has. `sites` is memory for the launch's sites;
  /// like this, it outlives what is given. Throws ProgramFault where the scalars are not what the kernel needs.
  KernelCode code(CodeFunction function, mlir::dt::RankContext rank, std::vector<int64_t> scalars,
                  std::vector<int64_t> &sites) const;

private:
  std::vector<int64_t> checkScalars(const mlir::dt::RankContext &rank, const std::vector<int64_t> &scalars) const;
  void checkGrid(int64_t grid) const;
  void checkTypes(const std::vector<Buffer> &buffers) const;
  void checkOverlaps(const std::vector<Buffer> &buffers) const;
  void checkPasses(const abi::Kernel &kernel) const;
  int64_t written(unsigned output, int64_t indices) const;

  std::string symbol;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< what the plan speaks of
  std::unique_ptr<KernelPlan> plan;
  std::vector<std::vector<unsigned>> mayOverwrite; ///< for each output the inputs
};

} // namespace dtc::verify
