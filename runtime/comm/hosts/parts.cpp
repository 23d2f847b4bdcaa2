#include "runtime/comm/hosts/parts.h"

#include "runtime/abi/element_type.h"

#include <algorithm>

namespace dtc {

static constexpr int64_t LineBytes = 64;

Strided sliceOf(std::byte *base, int64_t elements, int64_t width, int64_t index, int64_t slices) {
  int64_t inLine = LineBytes / width, lines = (elements + inLine - 1) / inLine;
  auto begin = [&](int64_t slice) { return std::min(elements, lines * slice / slices * inLine); };
  return {base + begin(index) * width, (begin(index + 1) - begin(index)) * width};
}

Strided partOf(const abi::Collective &collective, std::byte *base, int64_t index, int64_t count) {
  int64_t width = abi::elementType(collective.type()).bytes;
  if (collective.kind() == abi::Collective::ALL_REDUCE)
    return sliceOf(base, collective.outer() * collective.chunk(), width, index, count);
  int64_t bytes = collective.chunk() * width;
  return {base + index * bytes, bytes, collective.outer(), count * bytes};
}

} // namespace dtc
