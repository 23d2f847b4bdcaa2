// The toy model's kernels (toy_model.h), in the form of generated code: a shared object.
#include "runtime/abi/kernel.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

extern "C" {

/// buffers: tokens [n] i32, targets [n] i32, table [rows]; gradient [rows] in place, loss_sum [], token_count [] in
/// place. scalars: 0 n, 1 first row here, 2 rows here, 3 begin the sums at zero, 4 microseconds to sleep.
void toy_loss(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  auto *tokens = static_cast<const int32_t *>(buffers[0]), *targets = static_cast<const int32_t *>(buffers[1]);
  auto *table = static_cast<const float *>(buffers[2]);
  auto *gradient = static_cast<float *>(buffers[3]), *loss = static_cast<float *>(buffers[4]);
  auto *count = static_cast<float *>(buffers[5]);
  int64_t first = scalars[1], rows = scalars[2];
  std::this_thread::sleep_for(std::chrono::microseconds(scalars[4])); // signals do not shorten it
  if (scalars[3]) {
    for (int64_t row = 0; row < rows; ++row)
      gradient[row] = 0;
    *loss = *count = 0;
  }
  for (int64_t i = 0; i < scalars[0]; ++i) {
    if (targets[i] < 0)
      continue;
    *count += 1;
    int64_t row = tokens[i] - first;
    if (row < 0 || row >= rows)
      continue;
    float difference = table[row] - static_cast<float>(targets[i]);
    *loss += difference * difference;
    gradient[row] += 2 * difference;
  }
}

/// buffers: gradient [rows], loss_sum [], token_count [], learning_rate []; moment [rows], table [rows] in place,
/// update_applied []. scalars: 0 rows.
void toy_update(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  auto *gradient = static_cast<const float *>(buffers[0]);
  float loss = *static_cast<const float *>(buffers[1]), count = *static_cast<const float *>(buffers[2]);
  float rate = *static_cast<const float *>(buffers[3]);
  auto *moment = static_cast<float *>(buffers[4]), *table = static_cast<float *>(buffers[5]);
  bool applies = std::isfinite(loss) && count > 0;
  *static_cast<float *>(buffers[6]) = applies;
  if (!applies)
    return;
  for (int64_t row = 0; row < scalars[0]; ++row) {
    moment[row] = 0.9f * moment[row] + gradient[row] / count;
    table[row] -= rate * moment[row];
  }
}

/// buffers: values in place. scalars: 0 this rank, 1 the rank concerned, 2 the call at which a bit of the first value
/// changes there, counted from 1.
void toy_flip(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  static int64_t calls = 0;
  if (++calls == scalars[2] && scalars[0] == scalars[1])
    *static_cast<uint32_t *>(buffers[0]) ^= 1 << 22; // lower ones are lost again when updates round
}
}
