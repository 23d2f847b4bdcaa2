// What functions of the GPU library that are built by code have in common: their arguments, the loop in which threads
// take what is to be done, and elements of a type that a launch names.
#pragma once

#include "passes/lower/kernels/KernelValues.h"
#include "runtime/abi/library/table.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <algorithm>
#include <functional>

namespace dtc {

/// Threads of a block of the library; of any number of blocks each takes its share of what the grid says is to be done.
constexpr int32_t libraryThreads = 256;

/// How many blocks a launch has for so many things to do, one a thread: threads take what is beyond these in turn.
constexpr int64_t libraryBlocks(int64_t count) {
  constexpr int64_t most = 1 << 16;
  return std::clamp<int64_t>((count + libraryThreads - 1) / libraryThreads, 1, most);
}

/// Appends an empty function: its arguments are so many buffers and scalars, then the launch's grid and how many
/// threads it has.
mlir::gpu::GPUFuncOp addLibraryFunction(mlir::gpu::GPUModuleOp module, llvm::StringRef name, unsigned buffers,
                                        unsigned scalars);

/// A function's arguments by the names of a kernel's table: buffers, the scalars, then the launch's grid and how many
/// threads it has.
template <class Scalars> class LibraryArguments {
public:
  /// Of a function of so many buffers, whose scalars are those of the table.
  LibraryArguments(mlir::gpu::GPUFuncOp function, unsigned buffers) : all(function.getArguments()), buffers(buffers) {}

  static constexpr unsigned count = abi::library::countOf<Scalars>;

  mlir::Value operator[](unsigned buffer) const { return all[buffer]; }
  mlir::Value operator[](int64_t Scalars::*field) const { return at(abi::library::indexOf(field)); }
  /// The bits of a real number.
  mlir::Value operator[](double Scalars::*field) const { return at(abi::library::indexOf(field)); }
  /// A scalar by its number.
  mlir::Value at(size_t scalar) const { return all[buffers + scalar]; }
  mlir::Value grid() const { return at(count); }
  mlir::Value threads() const { return at(count + 1); }

private:
  mlir::ValueRange all;
  unsigned buffers;
};

/// Stands before the function's end.
CodeBuilder codeOf(mlir::gpu::GPUFuncOp function);

/// The code of `body` for each number below `count`: threads take them in turn.
void forEachInTurn(CodeBuilder &builder, mlir::gpu::GPUFuncOp function, mlir::Value count,
                   const std::function<void(CodeBuilder &inner, mlir::Value number)> &body);

/// Elements of f32, bf16 or f16, as a scalar of the launch says, read and written as f32.
class LibraryElements {
public:
  LibraryElements(CodeBuilder &builder, mlir::Value number);

  mlir::Value load(CodeBuilder &builder, mlir::Value base, mlir::Value index) const;
  void store(CodeBuilder &builder, mlir::Value value, mlir::Value base, mlir::Value index) const;

private:
  const mlir::Value isWide, isBf16;
};

} // namespace dtc
