#include "test/gpu/stand_in/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string_view>
#include <sys/mman.h>

namespace dtc::test {

/// The alignment that drivers promise, and no more: no address is a multiple of twice as much.
static constexpr size_t alignment = 256, page = 4096;

thread_local cuda::Context current = nullptr;

void complain(const std::string &what) { std::fprintf(stderr, "stand-in: %s\n", what.c_str()); }

FarBytes::FarBytes(size_t bytes) : bytes(bytes), reserved((bytes + alignment + 2 * page - 1) / page * page) {
  void *far = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void *near = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (far == MAP_FAILED || near == MAP_FAILED)
    std::abort();
  address = static_cast<std::byte *>(far) + alignment;
  behind = static_cast<std::byte *>(near) + alignment;
  std::memset(behind, 0xff, bytes); // NaNs
}

FarBytes::~FarBytes() {
  munmap(address - alignment, reserved);
  munmap(behind - alignment, reserved);
}

Settings Settings::read() {
  Settings settings;
  if (const char *connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
    settings.connections = size_t(std::atoll(connections));
  const char *loading = std::getenv("CUDA_MODULE_LOADING");
  settings.loadsEarly = loading && std::strcmp(loading, "EAGER") == 0;
  const char *text = std::getenv("DTC_STAND_IN");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    std::string_view each = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), each.size() + 1));
    std::string_view name = each.substr(0, each.find('='));
    int64_t value = std::atoll(std::string(each.substr(std::min(each.size(), name.size() + 1))).c_str());
    bool isKnown = false;
    auto take = [&](std::string_view own, auto &setting) {
      if (name == own)
        setting = static_cast<std::decay_t<decltype(setting)>>(value), isKnown = true;
    };
    take("devices", settings.devices);
    take("version", settings.version);
    take("architecture", settings.architecture);
    take("memory", settings.memory);
    take("first", settings.first);
    take("multiprocessors", settings.multiprocessors);
    take("lost_at", settings.lostAt);
    take("refused_at", settings.refusedAt);
    if (!isKnown)
      complain("DTC_STAND_IN has no '" + std::string(name) + "'");
  }
  return settings;
}

State &State::get() {
  static auto *state = new State; // used by code that ends after static objects
  return *state;
}

int State::begin(bool needsContext) const {
  if (!isInitialized)
    return cuda::NotInitialized;
  if (needsContext && !current)
    return cuda::InvalidContext;
  return failure;
}

int State::run(CUstream_st &stream, uint64_t point) {
  int result;
  while ((result = advance(stream, point)) == cuda::NotReady) {
    bool isAnyDone = false;
    for (CUstream_st *other : std::vector(streams.begin(), streams.end()))
      if (other != &stream && !other->queue.empty())
        isAnyDone |= advance(*other, other->done + 1) == cuda::Success;
    if (!isAnyDone)
      sched_yield();
  }
  return result;
}

int State::advance(CUstream_st &stream, uint64_t point) {
  while (failure == cuda::Success && stream.done < point) {
    if (stream.isAtWork) // it waits for this
      return cuda::NotReady;
    std::function<int()> work = std::move(stream.queue.front());
    stream.isAtWork = true;
    int result = work();
    stream.isAtWork = false;
    if (failure != cuda::Success) // of what it waited for: nothing is left of any stream
      break;
    if (result == cuda::NotReady) {
      stream.queue.front() = std::move(work);
      return result;
    }
    stream.queue.pop_front();
    ++stream.done;
    failure = result;
    if (failure != cuda::Success)
      forgetAll();
  }
  return failure;
}

void State::forgetAll() {
  for (CUstream_st *stream : streams) {
    stream->done = stream->given();
    stream->queue.clear();
  }
}

int State::give(CUstream_st *stream, std::function<int()> work) {
  if (int result = begin(); result != cuda::Success)
    return result;
  if (!streams.contains(stream)) {
    complain("a stream that is none, or the one of all threads, which nobody here uses");
    return cuda::InvalidHandle;
  }
  if (stream->isCaptured())
    stream->captured.push_back(std::move(work));
  else
    stream->queue.push_back(std::move(work));
  return cuda::Success;
}

bool State::isCapturing() const {
  return std::any_of(streams.begin(), streams.end(),
                     [](const CUstream_st *stream) { return stream->capturer == std::this_thread::get_id(); });
}

std::byte *State::reach(cuda::DevicePointer address, size_t bytes, const char *what) {
  auto after = memory.upper_bound(address);
  if (after != memory.begin()) {
    auto &[begin, far] = *std::prev(after);
    if (address - begin <= far->bytes && bytes <= far->bytes - (address - begin))
      return far->behind + (address - begin);
  }
  complain(std::string(what) + ": " + std::to_string(bytes) + " bytes that are not of one allocation");
  return nullptr;
}

bool State::isPinned(const void *address, size_t bytes) const {
  auto after = pinned.upper_bound(const_cast<void *>(address));
  if (after == pinned.begin())
    return false;
  auto &[begin, size] = *std::prev(after);
  size_t offset = static_cast<const char *>(address) - static_cast<const char *>(begin);
  return offset <= size && bytes <= size - offset;
}

int State::launch(const CUfunc_st &kernel, unsigned blocks, unsigned threads, const std::vector<uint64_t> &arguments) {
  if (++launches == settings.lostAt) {
    complain("the GPU is lost at launch " + std::to_string(launches) + ", of " + kernel.name);
    return cuda::EccUncorrectable;
  }
  std::vector<DeviceBuffer> buffers;
  // The driver does not know which buffers a launch was given: it may read an input that it overwrites, and threads
  // beyond the last row may read for nothing. gpu_kernels_test checks this better.
  for (auto &[begin, far] : memory)
    buffers.push_back({far->address, far->bytes, /*isWritten=*/true, /*isInput=*/true,
                       "the allocation of " + std::to_string(far->bytes) + " bytes", far->behind - far->address});
  std::string fault = machine.launch(kernel.function, blocks, threads, arguments, buffers);
  if (fault.empty())
    return cuda::Success;
  complain("kernel '" + kernel.name + "': " + fault);
  return cuda::IllegalAddress;
}

} // namespace dtc::test
