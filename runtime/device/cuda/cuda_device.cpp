#include "runtime/device/cuda/cuda_device.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace dtc {

using cuda::DevicePointer;

/// Launch sizes of library kernels in the program's code (passes/lower/cuda/library/GpuLibrary.h): threads per block,
/// and blocks per multiprocessor, as many as fit on it at once.
static constexpr unsigned LibraryThreads = 256, LibraryBlocks = 8;

static DevicePointer toDevice(const void *address) { return reinterpret_cast<uintptr_t>(address); }

class CudaDevice::GpuMemory final : public Memory {
public:
  /// `scratch`: the bytes still to be allocated for the kernels.
  GpuMemory(std::shared_ptr<cuda::Gpu> gpu, uint64_t bytes, uint64_t sharedBegin, uint64_t scratch,
            const cuda::MemorySource &source)
      : Memory(bytes, sharedBegin), gpu(std::move(gpu)) {
    const char *purpose = scratch > 0 ? "the program's tensors and kernels" : "the program's tensors";
    allocation = this->gpu->allocate(std::max<uint64_t>(bytes, 1), purpose, scratch, source);
    memory = reinterpret_cast<std::byte *>(allocation.address); // NOLINT(performance-no-int-to-ptr): the device's
  }
  ~GpuMemory() override { gpu->free(allocation); }

private:
  std::shared_ptr<cuda::Gpu> gpu;
  cuda::Allocation allocation;
};

class CudaDevice::PinnedMemory final : public Memory {
public:
  PinnedMemory(std::shared_ptr<cuda::Gpu> gpu, uint64_t bytes) : Memory(bytes, bytes), gpu(std::move(gpu)) {
    const cuda::Driver &driver = this->gpu->driver;
    this->gpu->makeCurrent();
    void *address = nullptr;
    int result = driver.memHostAlloc(&address, std::max<uint64_t>(bytes, 1), 0);
    if (result != cuda::Success)
      throw Error(fmt::format("cannot get {:.1f} MiB of the host's memory that {} may copy to: {}; free some memory, "
                              "or use more ranks or a smaller batch",
                              double(bytes) / (1 << 20), this->gpu->name(), driver.describe(result)));
    memory = static_cast<std::byte *>(address);
    std::memset(memory, 0, bytes);
  }
  ~PinnedMemory() override {
    if (!gpu->tryMakeCurrent())
      return;
    gpu->driver.contextSynchronize(); // copies work in it
    gpu->driver.memFreeHost(memory);
  }

private:
  std::shared_ptr<cuda::Gpu> gpu;
};

/// Reads CUDA_LAUNCH_BLOCKING as the driver does.
static bool isBlocking() {
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

/// A pipeline stage's receives wait on the GPU while it does other work. The driver must not make that work wait for
/// them, which would happen if it loaded code at first use or if streams shared a queue. It reads these settings when
/// it starts. A user's own settings win. Where ranks share a GPU, receives wait on the host, and loading all code of
/// NVIDIA's libraries would take seconds.
static std::shared_ptr<cuda::Gpu> makeGpu(const abi::Manifest &manifest, const cuda::LocalRank &rank) {
  if (manifest.stages_size() > 1 && !rank.sharesGpu) {
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  }
  return std::make_shared<cuda::Gpu>(rank);
}

CudaDevice::CudaDevice(const abi::Manifest &manifest, std::string_view code, const cuda::LocalRank &rank,
                       std::unique_ptr<cuda::LibraryKernels> library, bool graphs)
    : gpu(makeGpu(manifest, rank)), library(std::move(library)), notesSequences(graphs && !isBlocking()),
      events(Events) {
  const cuda::Driver &driver = gpu->driver;
  context.driver = &driver;
  gpu->makeCurrent();
  try {
    driver.check(driver.streamCreate(&context.stream, cuda::StreamNonBlocking), "cannot make a stream");
    for (cuda::EventHandle &event : events)
      driver.check(driver.eventCreate(&event, cuda::EventDisableTiming), "cannot make an event");
    if (manifest.code_size() > 0)
      module = cuda::loadCode(*gpu, cuda::codeFor(manifest, code, gpu->architecture(), gpu->name()), code, notes);
    for (const abi::Kernel &kernel : manifest.kernels())
      scratchBytes = std::max<uint64_t>(scratchBytes, kernel.scratch_bytes());
    staging.emplace(*gpu, context.stream);
    sideCopies.emplace(*gpu, context.stream);
    timeline.emplace(*gpu);
    if (this->library)
      scratchBytes = std::max(scratchBytes, this->library->start(*gpu, manifest));
  } catch (...) {
    release();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  if (gpu->tryMakeCurrent()) {                     // may be any thread
    gpu->driver.streamSynchronize(context.stream); // running work uses what is being freed
    sideCopies->finish();
  }
  release();
}

/// Ignores errors: a lost GPU has nothing to free.
void CudaDevice::release() noexcept {
  staging.reset();
  for (cuda::GraphExec sequence : sequences)
    gpu->driver.graphExecDestroy(sequence);
  library.reset(); // graphs hold work that its attempts enqueued
  timeline.reset();
  sideCopies.reset();
  gpu->free(scratch);
  if (module)
    gpu->driver.moduleUnload(module);
  for (cuda::EventHandle event : events)
    if (event)
      gpu->driver.eventDestroy(event);
  if (context.stream)
    gpu->driver.streamDestroy(context.stream);
}

std::unique_ptr<Memory> CudaDevice::allocate(uint64_t bytes, uint64_t sharedBegin) {
  uint64_t more = scratch.address ? 0 : scratchBytes;
  auto memory = std::make_unique<GpuMemory>(gpu, bytes, sharedBegin, more, source);
  gpu->driver.check(gpu->driver.memsetD8Async(toDevice(memory->base()), 0, bytes, context.stream),
                    "cannot clear the GPU's memory");
  if (more > 0)
    scratch = gpu->allocate(more, "the program's kernels");
  return memory;
}

std::unique_ptr<Memory> CudaDevice::allocateHost(uint64_t bytes) { return std::make_unique<PinnedMemory>(gpu, bytes); }

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Null if the program's code has none of that name.
cuda::Function CudaDevice::findFunction(const std::string &name) const {
  cuda::Function function = nullptr;
  int result = module ? gpu->driver.moduleGetFunction(&function, module, name.c_str()) : int(cuda::NotFound);
  if (result == cuda::NotFound)
    return nullptr;
  gpu->driver.check(result, ("cannot find kernel '" + name + "' in the program's code").c_str());
  return function;
}

/// If one function is missing, the whole kernel is.
void CudaDevice::addPasses(const abi::Kernel &kernel, Loaded &loaded) const {
  for (const abi::KernelPass &pass : kernel.passes()) {
    constexpr int64_t MostBlocks = INT32_MAX, MostThreads = 1024; // along x
    if (pass.blocks() < 1 || pass.blocks() > MostBlocks || pass.threads() < 1 || pass.threads() > MostThreads)
      throw Error(ExitCode::BadInput,
                  fmt::format("the program is inconsistent: kernel '{}' has a launch of {} blocks of {} threads; "
                              "compile it again",
                              kernel.symbol(), pass.blocks(), pass.threads()));
    cuda::Function function = findFunction(pass.function());
    if (!function) {
      loaded.passes.clear();
      return;
    }
    loaded.passes.push_back({function, unsigned(pass.blocks()), unsigned(pass.threads())});
  }
}

Device::Kernel CudaDevice::load(const abi::Kernel &kernel) {
  gpu->makeCurrent();
  Loaded loaded;
  loaded.symbol = kernel.symbol();
  loaded.isLibrary = kernel.library();
  loaded.scratchBytes = kernel.scratch_bytes();
  if (library && kernel.library()) {
    loaded.attempt = library->findAttempt(kernel.symbol());
    loaded.host = library->find(*gpu, kernel.symbol());
  }
  if (!loaded.host)
    addPasses(kernel, loaded);
  // If there is no code specialized for a call, there may be general code, under the name before the '$'.
  std::string name = kernel.passes().empty() ? kernel.symbol() : kernel.symbol().substr(0, kernel.symbol().find('$'));
  if (kernel.library() && loaded.passes.empty())
    if (cuda::Function function = findFunction(name))
      loaded.passes.push_back({function, LibraryBlocks * unsigned(gpu->multiprocessors()), LibraryThreads});
  if (!loaded.host && loaded.passes.empty())
    return 0;
  kernels.push_back(std::move(loaded));
  return kernels.size();
}

/// docs/cuda.md describes the order.
void CudaDevice::collectArguments(const Loaded &kernel, std::span<void *const> buffers,
                                  std::span<const int64_t> scalars, int64_t grid, bool hasScratch) {
  arguments.clear();
  for (const void *buffer : buffers)
    arguments.push_back(toDevice(buffer));
  if (hasScratch)
    arguments.push_back(scratch.address);
  for (int64_t scalar : scalars)
    arguments.push_back(static_cast<uint64_t>(scalar));
  if (kernel.isLibrary)
    arguments.insert(arguments.end(), {static_cast<uint64_t>(grid), 0});
  argumentAddresses.clear();
  for (uint64_t &argument : arguments)
    argumentAddresses.push_back(&argument);
}

void CudaDevice::require(int result, const Loaded &kernel) const {
  if (result != cuda::Success)
    throw DeviceError(fmt::format("kernel '{}' on {}: {}", kernel.symbol, gpu->name(), gpu->driver.describe(result)));
}

/// Adds the kernel's name to errors.
template <typename Call> auto CudaDevice::callHost(const Loaded &kernel, Call call) {
  try {
    return call();
  } catch (const Error &error) {
    throw DeviceError(error.exitCode(), fmt::format("kernel '{}' on {}: {}", kernel.symbol, gpu->name(), error.what()));
  }
}

void CudaDevice::launch(Kernel number, std::span<void *const> buffers, std::span<const int64_t> scalars, int64_t grid,
                        int64_t) {
  const Loaded &kernel = kernels[number - 1];
  gpu->makeCurrent();
  context.workspace = scratch.address; // shared by all work of one stream
  context.workspaceBytes = kernel.scratchBytes;
  context.isCaptured = isNoting;
  if (kernel.host) {
    context.finish = nullptr;
    if (!kernel.passes.empty())
      context.finish = [&] {
        collectArguments(kernel, buffers, scalars, grid, /*hasScratch=*/false);
        givePasses(kernel);
      };
    return callHost(kernel, [&] { kernel.host(context, buffers, scalars); });
  }
  cuda::LibraryContext attempt{context.stream, scratch.address, scratchBytes, context.driver, isNoting};
  if (kernel.attempt && callHost(kernel, [&] { return kernel.attempt(attempt, buffers, scalars); }))
    return;
  collectArguments(kernel, buffers, scalars, grid, kernel.scratchBytes > 0);
  givePasses(kernel);
}

void CudaDevice::givePasses(const Loaded &kernel) {
  for (const Pass &pass : kernel.passes) {
    if (kernel.isLibrary)
      arguments.back() = uint64_t(pass.blocks) * pass.threads;
    require(gpu->driver.launchKernel(pass.function, pass.blocks, 1, 1, pass.threads, 1, 1, /*shared=*/0, context.stream,
                                     argumentAddresses.data(), nullptr),
            kernel);
  }
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

bool CudaDevice::beginSequence() {
  if (!notesSequences)
    return false;
  gpu->makeCurrent();
  gpu->driver.check(gpu->driver.streamBeginCapture(context.stream, cuda::CaptureThreadLocal),
                    "cannot begin to capture a stream");
  isNoting = true;
  return true;
}

Device::Sequence CudaDevice::endSequence() {
  gpu->makeCurrent();
  isNoting = false;
  cuda::Graph graph = nullptr;
  gpu->driver.check(gpu->driver.streamEndCapture(context.stream, &graph), "cannot capture a stream");
  cuda::GraphExec sequence = nullptr;
  int result = gpu->driver.graphInstantiate(&sequence, graph, 0);
  gpu->driver.graphDestroy(graph);
  gpu->driver.check(result, "cannot make a CUDA graph; start the program with --no-graphs");
  sequences.push_back(sequence);
  return sequences.size();
}

void CudaDevice::give(Sequence sequence) {
  gpu->makeCurrent();
  int result = gpu->driver.graphLaunch(sequences[sequence - 1], context.stream);
  if (result != cuda::Success)
    throw DeviceError(fmt::format("cannot launch a CUDA graph on {}: {}", gpu->name(), gpu->driver.describe(result)));
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

std::optional<DeviceFigures> CudaDevice::figures(bool sixteenBits) const {
  return DeviceFigures{gpu->peakFlops(sixteenBits), gpu->allocatedBytes(), gpu->waitedSeconds()};
}

std::vector<std::string> CudaDevice::takeNotes() {
  std::vector<std::string> taken = std::exchange(notes, {});
  if (library)
    for (std::string &each : library->takeNotes())
      taken.push_back(std::move(each));
  return taken;
}

//===----------------------------------------------------------------------===//
// Copies and events
//===----------------------------------------------------------------------===//

void CudaDevice::copy(std::byte *target, const std::byte *source, uint64_t bytes) {
  gpu->makeCurrent();
  gpu->driver.check(gpu->driver.memcpyAsync(toDevice(target), toDevice(source), bytes, context.stream),
                    "cannot copy in the GPU's memory");
}

Device::CopyHandle CudaDevice::startCopy(std::byte *target, const std::byte *source, uint64_t bytes, uint32_t channel) {
  gpu->makeCurrent();
  return sideCopies->start(toDevice(target), toDevice(source), bytes, channel);
}

void CudaDevice::awaitCopy(const CopyHandle &copy) {
  gpu->makeCurrent();
  sideCopies->await(copy);
}

void CudaDevice::read(std::span<std::byte> host, const std::byte *address) {
  gpu->makeCurrent();
  staging->read(host, toDevice(address));
}

void CudaDevice::write(std::byte *address, std::span<const std::byte> host) {
  gpu->makeCurrent();
  staging->write(toDevice(address), host);
}

Device::Event CudaDevice::record() {
  gpu->makeCurrent();
  Event event = ++recorded;
  gpu->driver.check(gpu->driver.eventRecord(events[event % Events], context.stream), "cannot record an event");
  return event;
}

void CudaDevice::wait(Event event) {
  if (event <= reached)
    return;
  gpu->makeCurrent();
  Event until = recorded - recorded % Events + event % Events; // the newest recording of this event
  if (until > recorded)
    until -= Events;
  gpu->await(events[event % Events]);
  reached = until;
}

} // namespace dtc
