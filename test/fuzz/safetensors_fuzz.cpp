// Any bytes are either refused by an Error or describe tensors that lie within them, without overlap.
#include "runtime/abi/error.h"
#include "runtime/checkpoint/safetensors_header.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

static void require(bool condition) {
  if (!condition)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    dtc::SafetensorsHeader header =
        dtc::parseSafetensorsHeader({reinterpret_cast<const std::byte *>(data), size}, "input");
    uint64_t end = 0;
    for (const dtc::SafetensorsEntry &entry : header.entries) {
      require(entry.begin == end && entry.end >= entry.begin);
      end = entry.end;
      require(static_cast<uint64_t>(entry.elements()) * dtc::safetensorsTypeBytes(entry.type) ==
              entry.end - entry.begin);
    }
    require(header.dataBegin + end == size);
  } catch (const dtc::Error &error) {
    require(error.exitCode() == dtc::ExitCode::BadInput);
  }
  return 0;
}
