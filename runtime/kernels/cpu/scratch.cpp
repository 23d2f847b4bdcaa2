#include "runtime/kernels/cpu/scratch.h"

#include <memory>
#include <new>
#include <sys/mman.h>

namespace dtc::kernels {
namespace {

constexpr int64_t hugePage = 2 << 20, little = 64 << 10;

class Block {
public:
  Block() = default;
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block() { release(); }

  float *atLeast(int64_t count) {
    int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    // Without a huge page attention takes 5% longer. But small users must not allocate and clear a huge page for each
    // of many ranks on a host.
    int64_t page = bytes < little ? little : hugePage;
    if (bytes > size)
      grow((bytes + page - 1) / page * page);
    return static_cast<float *>(aligned);
  }

private:
  void grow(int64_t bytes) {
    release();
    // One page more, so that it contains a range aligned to huge pages.
    void *address = mmap(nullptr, bytes + hugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      throw std::bad_alloc();
    mapping = address;
    mapped = bytes + hugePage;
    size = bytes;
    size_t room = mapped;
    aligned = std::align(hugePage, bytes, address, room);
    if (bytes >= hugePage)
      madvise(aligned, bytes, MADV_HUGEPAGE);
  }

  void release() {
    if (mapping)
      munmap(mapping, mapped);
    mapping = nullptr;
    size = 0;
  }

  void *mapping = nullptr;
  int64_t mapped = 0;
  int64_t size = 0;
  void *aligned = nullptr;
};

thread_local Block block;

} // namespace

float *threadScratch(int64_t count) { return block.atLeast(count); }

} // namespace dtc::kernels
