// The header of llm.c's token files: 256 int32, of which the first three are magic, version and token count.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtc::llmc {

inline constexpr size_t HeaderBytes = 256 * sizeof(int32_t);

/// GPT-2's tokens and Llama 3's.
struct Kind {
  int32_t magic, version;
  int width; ///< bytes of a token
};
inline constexpr Kind Kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

} // namespace dtc::llmc
