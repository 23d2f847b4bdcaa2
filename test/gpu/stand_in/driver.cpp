// libcuda.so.1 for machines without a GPU: the functions of runtime/device/cuda/driver.h.
// They are in one file because they are one library's table of functions; what they share is state.h's.
#include "test/gpu/stand_in/state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace dtc::cuda;
using dtc::test::complain;
using dtc::test::current;
using dtc::test::State;

// The functions have their C names, with the types that driver.h declares.
#define DTC_STAND_IN_DECLARE(member, symbol, ...) extern "C" Driver::member##_fn symbol;
DTC_CUDA_FUNCTIONS(DTC_STAND_IN_DECLARE)

namespace {

/// A call: one at a time, and refused where all are.
struct Call {
  explicit Call(bool needsContext = true) : state(State::get()), lock(state.mutex), result(state.begin(needsContext)) {}

  State &state;
  std::lock_guard<std::recursive_mutex> lock;
  int result;
};

/// A call that cannot be part of a graph, and must not be made by a thread that captures one.
struct OutsideGraphs : Call {
  OutsideGraphs() {
    if (result != Success || !state.isCapturing())
      return;
    complain("a call that is not to be made while a stream is captured");
    result = StreamCaptureUnsupported;
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The driver and its devices
//===----------------------------------------------------------------------===//

int cuInit(unsigned flags) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (flags != 0)
    return InvalidValue;
  // As in a process of its own: each test sets what it wants.
  state.settings = dtc::test::Settings::read();
  state.failure = Success;
  state.launches = state.launchesGiven = 0;
  if (state.streams.empty()) { // nobody is there; nothing was returned to a GPU that was lost
    state.memory.clear();
    state.used = 0;
  }
  if (state.settings.devices == 0)
    return NoDevice;
  state.isInitialized = true;
  return Success;
}

int cuDriverGetVersion(int *version) {
  *version = dtc::test::Settings::read().version;
  return Success;
}

static const std::map<int, std::pair<const char *, const char *>> words = {
    {InvalidValue, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {OutOfMemory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {NotInitialized, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {NoDevice, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {InvalidImage, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {InvalidContext, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {EccUncorrectable, {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"}},
    {UnsupportedPtxVersion,
     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
    {InvalidHandle, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {NotFound, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {LaunchOutOfResources, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {IllegalAddress, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {StreamCaptureUnsupported,
     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
};

int cuGetErrorName(int result, const char **name) {
  auto found = words.find(result);
  *name = found == words.end() ? nullptr : found->second.first;
  return *name ? Success : InvalidValue;
}

int cuGetErrorString(int result, const char **text) {
  auto found = words.find(result);
  *text = found == words.end() ? nullptr : found->second.second;
  return *text ? Success : InvalidValue;
}

int cuDeviceGetCount(int *count) {
  Call call(/*needsContext=*/false);
  *count = call.state.settings.devices;
  return call.result;
}

int cuDeviceGet(DeviceNumber *device, int ordinal) {
  Call call(/*needsContext=*/false);
  *device = ordinal;
  return call.result || (ordinal >= 0 && ordinal < call.state.settings.devices) ? call.result : int(NoDevice);
}

int cuDeviceGetName(char *name, int length, DeviceNumber) {
  std::strncpy(name, "stand-in", length);
  return Success;
}

int cuDeviceGetUuid_v2(Uuid *uuid, DeviceNumber device) {
  Call call(/*needsContext=*/false);
  *uuid = {};
  uuid->bytes[0] = char(call.state.settings.first + device);
  return call.result;
}

int cuDeviceGetAttribute(int *value, int attribute, DeviceNumber) {
  Call call(/*needsContext=*/false);
  int architecture = call.state.settings.architecture;
  switch (attribute) {
  case MultiprocessorCount:
    *value = call.state.settings.multiprocessors;
    return call.result;
  case ComputeCapabilityMajor:
    *value = architecture / 10;
    return call.result;
  case ComputeCapabilityMinor:
    *value = architecture % 10;
    return call.result;
  }
  return InvalidValue;
}

int cuDevicePrimaryCtxRetain(Context *context, DeviceNumber device) {
  Call call(/*needsContext=*/false);
  static CUctx_st contexts[16];
  contexts[device].device = device;
  *context = &contexts[device];
  return call.result;
}

int cuDevicePrimaryCtxRelease_v2(DeviceNumber) { return Call(/*needsContext=*/false).result; }

/// Waits for nothing: a thread may begin while another waits for the GPU.
int cuCtxSetCurrent(Context context) {
  current = context;
  State &state = State::get();
  std::unique_lock lock(state.mutex, std::try_to_lock);
  return lock ? state.begin(/*needsContext=*/false) : int(Success);
}

int cuCtxSynchronize() {
  OutsideGraphs call;
  for (CUstream_st *stream : std::vector(call.state.streams.begin(), call.state.streams.end()))
    if (call.result == Success)
      call.result = call.state.run(*stream);
  return call.result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  Call call;
  *total = call.state.settings.memory;
  *free = *total - call.state.used;
  return call.result;
}

int cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  OutsideGraphs call;
  if (call.result != Success)
    return call.result;
  if (bytes == 0)
    return InvalidValue;
  if (bytes > call.state.settings.memory - call.state.used)
    return OutOfMemory;
  auto far = std::make_unique<dtc::test::FarBytes>(bytes);
  *address = reinterpret_cast<uintptr_t>(far->address);
  call.state.used += bytes;
  call.state.memory.emplace(*address, std::move(far));
  return Success;
}

int cuMemFree_v2(DevicePointer address) {
  OutsideGraphs call;
  auto found = call.state.memory.find(address);
  if (found == call.state.memory.end())
    return InvalidValue;
  for (CUstream_st *stream : call.state.streams) // as the driver does
    call.state.run(*stream);
  call.state.used -= found->second->bytes;
  call.state.memory.erase(found);
  return call.result;
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  OutsideGraphs call;
  if (call.result != Success)
    return call.result;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  call.state.pinned[*address] = bytes;
  return *address ? Success : OutOfMemory;
}

int cuMemFreeHost(void *address) {
  OutsideGraphs call;
  if (call.state.pinned.erase(address) == 0)
    return InvalidValue;
  std::free(address);
  return call.result;
}

int cuMemsetD8Async(DevicePointer target, unsigned char value, size_t bytes, StreamHandle stream) {
  Call call;
  return call.state.give(stream, [=, &state = call.state] {
    std::byte *to = state.reach(target, bytes, "a memset");
    if (to)
      std::memset(to, value, bytes);
    return to ? Success : IllegalAddress;
  });
}

/// The host's memory must be pinned: otherwise a copy would wait.
static int copyWithHost(void *host, DevicePointer device, size_t bytes, bool toHost, StreamHandle stream) {
  Call call;
  if (!call.state.isPinned(host, bytes)) {
    complain("an asynchronous copy with memory of the host that is not pinned");
    return InvalidValue;
  }
  return call.state.give(stream, [=, &state = call.state] {
    std::byte *there = state.reach(device, bytes, "a copy with the host");
    if (there)
      toHost ? std::memcpy(host, there, bytes) : std::memcpy(there, host, bytes);
    return there ? Success : IllegalAddress;
  });
}

int cuMemcpyHtoDAsync_v2(DevicePointer target, const void *source, size_t bytes, StreamHandle stream) {
  return copyWithHost(const_cast<void *>(source), target, bytes, /*toHost=*/false, stream);
}

int cuMemcpyDtoHAsync_v2(void *target, DevicePointer source, size_t bytes, StreamHandle stream) {
  return copyWithHost(target, source, bytes, /*toHost=*/true, stream);
}

int cuMemcpyDtoDAsync_v2(DevicePointer target, DevicePointer source, size_t bytes, StreamHandle stream) {
  Call call;
  return call.state.give(stream, [=, &state = call.state] {
    std::byte *to = state.reach(target, bytes, "a copy's target");
    std::byte *from = state.reach(source, bytes, "a copy's source");
    if (!to || !from)
      return IllegalAddress;
    if (to < from + bytes && from < to + bytes)
      complain("a copy onto itself");
    std::memcpy(to, from, bytes);
    return Success;
  });
}

/// Between the memory of the device and of the host, which must still be pinned when the copy takes place.
int cuMemcpyAsync(DevicePointer target, DevicePointer source, size_t bytes, StreamHandle stream) {
  Call call;
  return call.state.give(stream, [=, &state = call.state] {
    auto find = [&](DevicePointer address, const char *what) {
      auto *host = reinterpret_cast<std::byte *>(address); // NOLINT(performance-no-int-to-ptr): if it is the host's
      return state.isPinned(host, bytes) ? host : state.reach(address, bytes, what);
    };
    std::byte *to = find(target, "a copy's target"), *from = find(source, "a copy's source");
    if (!to || !from)
      return IllegalAddress;
    if (to < from + bytes && from < to + bytes)
      complain("a copy onto itself");
    std::memcpy(to, from, bytes);
    return Success;
  });
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

int cuStreamCreate(StreamHandle *stream, unsigned) {
  Call call;
  *stream = *call.state.streams.insert(new CUstream_st{++call.state.streamsMade, {}}).first;
  return call.result;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return Call().result;
}

int cuStreamCreateWithPriority(StreamHandle *stream, unsigned flags, int priority) {
  return priority < -5 || priority > 0 ? int(InvalidValue) : cuStreamCreate(stream, flags);
}

int cuStreamDestroy_v2(StreamHandle stream) {
  Call call;
  if (call.state.streams.erase(stream) == 0)
    return InvalidHandle;
  call.state.run(*stream);
  delete stream;
  return call.result;
}

int cuStreamSynchronize(StreamHandle stream) {
  OutsideGraphs call;
  if (!call.state.streams.contains(stream))
    return InvalidHandle;
  return call.result == Success ? call.state.run(*stream) : call.result;
}

int cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  OutsideGraphs call;
  if (call.result != Success || mode != CaptureThreadLocal)
    return call.result != Success ? call.result : int(InvalidValue);
  stream->capturer = std::this_thread::get_id();
  return Success;
}

int cuStreamEndCapture(StreamHandle stream, Graph *graph) {
  Call call;
  if (!stream->isCaptured())
    return InvalidValue;
  *graph = new CUgraph_st{std::move(stream->captured)};
  stream->captured.clear();
  stream->capturer = {};
  return call.result;
}

int cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph, unsigned long long flags) {
  OutsideGraphs call;
  *exec = new CUgraphExec_st{graph->work};
  return flags == 0 ? call.result : int(InvalidValue);
}

int cuGraphLaunch(GraphExec exec, StreamHandle stream) {
  OutsideGraphs call;
  for (auto work = exec->work.begin(); work != exec->work.end() && call.result == Success; ++work)
    call.result = call.state.give(stream, *work);
  return call.result;
}

int cuGraphDestroy(Graph graph) {
  delete graph;
  return Call().result;
}

int cuGraphExecDestroy(GraphExec exec) {
  delete exec;
  return Call().result;
}

int cuEventCreate(EventHandle *event, unsigned flags) {
  Call call;
  *event = *call.state.events.insert(new CUevent_st).first;
  (*event)->hasTime = !(flags & EventDisableTiming);
  return call.result;
}

int cuEventDestroy_v2(EventHandle event) {
  Call call;
  if (call.state.events.erase(event) == 0)
    return InvalidHandle;
  delete event;
  return call.result;
}

int cuEventRecord(EventHandle event, StreamHandle stream) {
  OutsideGraphs call;
  if (call.result != Success)
    return call.result;
  if (!call.state.events.contains(event) || !call.state.streams.contains(stream))
    return InvalidHandle;
  if (event->hasTime)
    call.result = call.state.give(stream, [event, &ahead = call.state.ahead] {
      event->time = std::chrono::steady_clock::now() + ahead;
      return int(Success);
    });
  event->stream = stream;
  event->point = stream->given();
  return call.result;
}

int cuEventElapsedTime(float *milliseconds, EventHandle begin, EventHandle end) {
  Call call;
  for (EventHandle event : {begin, end}) {
    if (!call.state.events.contains(event) || !event->hasTime || !event->stream)
      return InvalidHandle;
    if (event->stream->done < event->point)
      return NotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return call.result;
}

int cuEventSynchronize(EventHandle event) {
  OutsideGraphs call;
  if (!call.state.events.contains(event))
    return InvalidHandle;
  return call.result == Success && event->stream ? call.state.run(*event->stream, event->point) : call.result;
}

/// A GPU that is busy with what somebody waits for answers that it is: the caller must not wait too.
int cuEventQuery(EventHandle event) {
  State &state = State::get();
  std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock)
    return NotReady;
  if (!state.events.contains(event))
    return InvalidHandle;
  if (int result = state.begin(); result != Success)
    return result;
  return event->stream && event->stream->done < event->point ? NotReady : Success;
}

int cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags) {
  Call call;
  if (!call.state.events.contains(event) || flags != 0)
    return InvalidHandle;
  return call.state.give(stream, [&state = call.state, other = event->stream, point = event->point] {
    return other ? state.advance(*other, point) : int(Success);
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The length of an ELF file: its section headers are at the end.
static size_t bytesOf(const Elf64_Ehdr &header) { return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize; }

/// Loaded from a file without a name, which stays open: the dynamic linker takes equal paths for one library.
static void *loadSharedObject(const void *image, int &file) {
  const auto &header = *static_cast<const Elf64_Ehdr *>(image);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64)
    return nullptr;
  file = memfd_create("kernels", MFD_CLOEXEC);
  size_t bytes = bytesOf(header);
  void *handle = nullptr;
  if (write(file, image, bytes) == ssize_t(bytes))
    handle =
        dlopen(("/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    complain(dlerror());
    close(file);
  }
  return handle;
}

int cuModuleLoadDataEx(Module *module, const void *image, unsigned options, int *names, void **values) {
  OutsideGraphs call;
  if (call.result != Success)
    return call.result;
  int file = -1;
  void *handle = loadSharedObject(image, file);
  if (!handle) {
    for (unsigned i = 0; i < options; ++i)
      if (names[i] == JitErrorLogBuffer)
        std::strcpy(static_cast<char *>(values[i]), "no code for this machine");
    return InvalidImage;
  }
  *module = new CUmod_st{handle, file, {}};
  auto *hooks = static_cast<dtc::test::Hooks *>(dlsym(handle, dtc::test::HooksSymbol));
  if (hooks)
    *hooks = call.state.machine.hooks();
  return Success;
}

int cuModuleUnload(Module module) {
  Call call;
  dlclose(module->handle);
  close(module->file);
  delete module;
  return call.result;
}

int cuModuleGetFunction(Function *function, Module module, const char *name) {
  Call call;
  auto *found = reinterpret_cast<dtc::test::ThreadFunction>(dlsym(module->handle, name));
  auto *arguments =
      static_cast<int64_t *>(dlsym(module->handle, (name + std::string(dtc::test::ArgumentsSuffix)).c_str()));
  if (!found || !arguments)
    return NotFound;
  *function = &module->functions.try_emplace(name, CUfunc_st{name, found, *arguments}).first->second;
  return call.result;
}

int cuLaunchKernel(Function function, unsigned blocks, unsigned blocksY, unsigned blocksZ, unsigned threads,
                   unsigned threadsY, unsigned threadsZ, unsigned shared, StreamHandle stream, void **arguments,
                   void **extra) {
  Call call;
  if (blocks == 0 || threads == 0 || threads > 1024 || blocksY != 1 || blocksZ != 1 || threadsY != 1 || threadsZ != 1 ||
      shared != 0 || extra)
    return InvalidValue;
  if (++call.state.launchesGiven == call.state.settings.refusedAt)
    return LaunchOutOfResources;
  std::vector<uint64_t> values; // the caller's are read now
  for (int64_t i = 0; i < function->arguments; ++i)
    values.push_back(*static_cast<const uint64_t *>(arguments[i]));
  int result = call.state.give(stream, [=, &state = call.state, values = std::move(values)] {
    return state.launch(*function, blocks, threads, values);
  });
  const char *blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (result == Success && blocking && std::strcmp(blocking, "0") != 0)
    result = call.state.run(*stream);
  return result;
}

//===----------------------------------------------------------------------===//
// For stand-ins of libraries
//===----------------------------------------------------------------------===//

void dtc_stand_in_enqueue(CUstream_st *stream, void (*function)(void *), void *argument, void (*release)(void *)) {
  Call call;
  std::shared_ptr<void> held(argument, release ? release : [](void *) {});
  call.state.give(stream, [=] {
    function(held.get());
    return Success;
  });
}

void dtc_stand_in_attempt(CUstream_st *stream, int (*function)(void *), void *argument, void (*release)(void *)) {
  Call call;
  std::shared_ptr<void> held(argument, release);
  call.state.give(stream, [=] { return function(held.get()); });
}

int dtc_stand_in_may_wait() {
  Call call;
  return call.state.settings.loadsEarly && call.state.streams.size() <= call.state.settings.connections;
}

void dtc_stand_in_finish() {
  Call call;
  std::vector<CUstream_st *> streams(call.state.streams.begin(), call.state.streams.end());
  std::ranges::sort(streams, {}, [](CUstream_st *stream) { return std::pair(stream->queue.size(), -stream->number); });
  for (CUstream_st *stream : streams)
    call.state.run(*stream);
}

void *dtc_stand_in_reach(DevicePointer address, size_t bytes) {
  Call call;
  return call.state.reach(address, bytes, "a library");
}

void dtc_stand_in_take_time(int64_t nanoseconds) {
  State &state = State::get();
  std::lock_guard lock(state.mutex); // the caller that has the work done holds it
  state.ahead += std::chrono::nanoseconds(nanoseconds);
}
