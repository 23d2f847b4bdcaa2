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
  /// Throws ProgramFault when the kernel's reference is not a dt.kernel or cannot be compiled, or when the kernel's
  /// launch shape differs from that of `target`.
  GeneratedKernel(const abi::Kernel &kernel, const std::string &target, mlir::MLIRContext &context);
  GeneratedKernel(GeneratedKernel &&) noexcept;
  ~GeneratedKernel();

  /// Runs one launch of `rank` on `buffers`, inputs first. Throws ProgramFault unless
  ///   - the scalars are the size that the code needs, sites that draws can have, one for each number by which the
  ///     kernel knows a site, and where this rank's pieces begin;
  ///   - the indices [0, grid) write each element of each output once;
  ///   - outputs overwrite inputs only where the code may work in place.
  /// With `part`, only the first `part` indices are run, and what the others would write stays unchanged.
  /// Wrong launches are refused instead of run: some change no number that anybody compares (a mask of padding that
  /// happens to be zero, a maximum that only shifts exponents), and are wrong all the same.
  void launch(const mlir::dt::RankContext &rank, const std::vector<Buffer> &buffers,
              const std::vector<int64_t> &scalars, int64_t grid, std::optional<int64_t> part = std::nullopt) const;

  /// The kernel's code, called with the scalars that a launch on `rank` has. `sites` is memory for the launch's sites;
  /// it and this object outlive the result. Throws ProgramFault where the scalars are not what the kernel needs.
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
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< the module that the plan refers to
  std::unique_ptr<KernelPlan> plan;
  std::vector<std::vector<unsigned>> mayOverwrite; ///< for each output the inputs
};

} // namespace dtc::verify
