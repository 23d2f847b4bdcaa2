// Compiles kernels from text, runs them and compares them with the reference interpreter.
#pragma once

#include "dialect/reference/Interpreter.h"
#include "passes/lower/cpu/NativeCode.h"
#include "passes/lower/kernels/KernelInterface.h"
#include "runtime/program/start/kernel_library.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dtc::test {

/// The bits of a dense tensor of four-byte elements, as kernels see it.
using Buffer = std::vector<uint32_t>;

/// Element `index` of argument `argument`.
using Fill = std::function<double(unsigned argument, int64_t index)>;

/// Values between -2 and 2 for f32, 0 to 6 for i32, 0 or 1 for masks; different for each seed.
Fill randomFill(unsigned seed = 0);

/// A module of kernels, compiled and loaded.
class CompiledKernels {
public:
  explicit CompiledKernels(const std::string &text, const std::string &target = "native");

  mlir::dt::KernelOp kernel(llvm::StringRef name);
  dtc_kernel_fn function(llvm::StringRef name) { return library->find(name.str()); }
  bool good() const { return library != nullptr; }

  /// Runs a kernel on its grid cut into pieces of `piece` (0: whole). Output o overwrites input inPlace[o] where that
  /// is not negative. Returns the outputs.
  std::vector<Buffer> run(llvm::StringRef name, const Fill &fill, int64_t piece = 0, llvm::ArrayRef<int> inPlace = {});

  /// Runs a kernel in f64 by the interpreter.
  std::vector<mlir::dt::HostTensor> reference(llvm::StringRef name, const Fill &fill);

  /// Expects the two to agree: |a - b| <= tolerance * max(1, |b|), whatever the cut, alone and in place.
  void expectMatch(llvm::StringRef name, double tolerance = 2e-6, const Fill &fill = randomFill());

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

private:
  std::unique_ptr<KernelLibrary> library;
};

/// The value of one element of a buffer of that element type.
double valueOf(uint32_t bits, mlir::Type element);

} // namespace dtc::test
