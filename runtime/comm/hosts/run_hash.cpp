#include "runtime/comm/hosts/run_hash.h"

#include "runtime/comm/hosts/streams.h"

#include <algorithm>

// Header-only instead of the shared library: programs need only glibc.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtc {

struct RunHash::State {
  State() { XXH3_64bits_reset(&hash); }
  XXH3_state_t hash;
};

RunHash::RunHash() = default;
RunHash::~RunHash() = default;
RunHash::RunHash(RunHash &&) noexcept = default;
RunHash &RunHash::operator=(RunHash &&) noexcept = default;

void RunHash::advance(const std::vector<Run> &runs, int64_t bytes) {
  while (taken < bytes) {
    const Strided &data = runs[run].data;
    if (ofRun == data.bytes) {
      ++run;
      ofRun = 0;
      continue;
    }
    if (!state)
      state = std::make_unique<State>();
    int64_t piece = std::min(data.contiguous(ofRun), bytes - taken);
    XXH3_64bits_update(&state->hash, data.at(ofRun), static_cast<size_t>(piece));
    ofRun += piece;
    taken += piece;
  }
}

uint64_t RunHash::value() const { return state ? XXH3_64bits_digest(&state->hash) : 0; }

} // namespace dtc
