// Stands for the code that the compiler generates; uses the mathematics library, as that code does.
#include <cmath>
#include <cstdint>

extern "C" void sample_kernel(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[0])[i] = std::fmod(static_cast<float>(i), static_cast<float>(scalars[0]));
}
