// The CUDA toolkit's assembler, where there is one. Programs run without it: the driver assembles PTX when they start,
// which takes longer.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// What ptxas reports about one function.
struct PtxasFigures {
  std::string function;
  int registers = 0;   ///< of a thread
  int spillBytes = 0;  ///< stored to and loaded from memory because there were too few registers
  int stackBytes = 0;  ///< of a thread's memory
  int sharedBytes = 0; ///< of a block's memory
};

struct Cubin {
  std::string bytes; ///< an ELF file for the GPU
  std::vector<PtxasFigures> figures;
};

/// The program that DTC_PTXAS names, or the first ptxas in PATH, or the toolkit's own in /usr/local/cuda/bin.
std::optional<std::string> findPtxas();

/// Assembles PTX for an architecture. Nothing, with ptxas's message in `error`, where it fails.
std::optional<Cubin> assemble(const std::string &ptxas, llvm::StringRef ptx, const std::string &architecture,
                              std::string &error);

/// Reads what `ptxas -v` writes.
std::vector<PtxasFigures> parsePtxasFigures(llvm::StringRef text);

} // namespace dtc
