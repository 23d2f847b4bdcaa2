// What the scalars of a library kernel's launch say of its buffers, for those that call it: which elements it reads and
// writes, what integers may stand there, and the same launch on smaller sizes. As the kernel's table in
// runtime/abi/library has it.
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

/// The elements that a launch touches of a buffer: offset + the sum of index * stride, for all indices below sizes.
struct BufferPart {
  int64_t offset = 0;
  std::vector<int64_t> sizes = {}, strides = {};
  bool isRead = true, isWritten = false;

  /// Rising, each once.
  std::vector<int64_t> elements() const;
};

struct LibraryForm {
  const abi::library::KernelTable &table;
  /// Cuts outer sizes and gives the grid that belongs to what is left. Tails of the tiles that code works in stay.
  void (*cut)(LibraryCall &call);
  /// One part of each buffer, without what the table says: whether it is read or written.
  std::vector<BufferPart> (*places)(const LibraryCall &call);
  /// An integer of a buffer that holds any, chosen by a random number.
  int64_t (*integer)(const LibraryCall &call, size_t buffer, int64_t element, uint32_t random);

  std::string symbol() const { return "dtc_" + std::string(table.name); }
  /// One part of each buffer.
  std::vector<BufferPart> parts(const LibraryCall &call) const;
};

/// The form of a kernel, or null when there is none of that name.
const LibraryForm *findLibraryForm(std::string_view symbol);

} // namespace dtc::verify
