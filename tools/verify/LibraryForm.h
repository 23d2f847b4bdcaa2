// What the scalars of a library kernel's launch say about its buffers, for callers of the kernel: which elements it
// reads and writes, which integers they may hold, and the same launch with smaller sizes. Follows the kernel's table in
// runtime/abi/library.
#pragma once

#include "runtime/abi/library/table.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::verify {

struct LibraryCall {
  std::vector<int64_t> scalars; ///< doubles as bit patterns
  int64_t grid;
};

/// The elements of a buffer that a launch touches: offset + the sum of index * stride, for all indices below sizes.
struct BufferPart {
  int64_t offset = 0;
  std::vector<int64_t> sizes = {}, strides = {};
  bool isRead = true, isWritten = false;

  /// In ascending order, each once.
  std::vector<int64_t> elements() const;
};

struct LibraryForm {
  const abi::library::KernelTable &table;
  /// Cuts outer sizes and sets the grid to match. The tails of tiles stay.
  void (*cut)(LibraryCall &call);
  /// One part for each buffer, without what the table states: whether it is read or written.
  std::vector<BufferPart> (*places)(const LibraryCall &call);
  /// An integer for a buffer of integers, chosen by a random number.
  int64_t (*integer)(const LibraryCall &call, size_t buffer, int64_t element, uint32_t random);

  std::string symbol() const { return "dtc_" + std::string(table.name); }
  /// One part for each buffer.
  std::vector<BufferPart> parts(const LibraryCall &call) const;
};

/// The form of a kernel, or null when there is none of that name.
const LibraryForm *findLibraryForm(std::string_view symbol);

} // namespace dtc::verify
