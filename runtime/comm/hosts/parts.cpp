#include "runtime/comm/hosts/parts.h"

#include "runtime/abi/element_type.h"
#include "runtime/comm/local/reduce.h"

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

void copyPieces(const Strided &target, const Strided &source, int64_t begin, int64_t end) {
  while (begin < end) {
    int64_t bytes = std::min({target.contiguous(begin), source.contiguous(begin), end - begin});
    copyBytes(target.at(begin), source.at(begin), bytes, /*bypassCache=*/false);
    begin += bytes;
  }
}

Adding::Adding(abi::DataType from, abi::DataType to, abi::Reduction reduction, int64_t elements)
    : from(from), to(to), reduction(reduction), elements(elements) {}

/// How many elements from here on are contiguous in all operands.
int64_t Adding::contiguousElements() const {
  int64_t fromWidth = abi::elementType(from).bytes, toWidth = abi::elementType(to).bytes, result = elements;
  for (const Strided &data : terms)
    result = std::min(result, data.contiguous(doneElements * fromWidth) / fromWidth);
  for (const Strided &data : results)
    result = std::min(result, data.contiguous(doneElements * toWidth) / toWidth);
  return result;
}

void Adding::advance(int64_t available, int64_t segment) {
  int64_t fromWidth = abi::elementType(from).bytes, toWidth = abi::elementType(to).bytes;
  while (doneElements < available && (available - doneElements >= segment || available == elements)) {
    int64_t step = std::min({available - doneElements, segment, contiguousElements()});
    sources.clear();
    targets.clear();
    for (const Strided &data : terms)
      sources.push_back(data.at(doneElements * fromWidth));
    for (const Strided &data : results)
      targets.push_back(data.at(doneElements * toWidth));
    reduceInto(targets, sources, step, from, to, reduction, /*bypassCache=*/false);
    doneElements += step;
  }
}

} // namespace dtc
