#include "runtime/device/cuda/gpu.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fmt/format.h>
#include <optional>

namespace dtc::cuda {

Gpu::Gpu(const LocalRank &rank) {
  int ordinal = rank.number % driver.devices();
  driver.check(driver.deviceGet(&number, ordinal), "cannot find a GPU");
  char modelName[128] = "";
  int major = 0, minor = 0;
  driver.check(driver.deviceGetUuid(&identity, number), "cannot tell GPUs apart");
  driver.check(driver.deviceGetName(modelName, sizeof modelName, number), "cannot ask a GPU's name");
  driver.check(driver.deviceGetAttribute(&major, ComputeCapabilityMajor, number), "cannot ask a GPU's architecture");
  driver.check(driver.deviceGetAttribute(&minor, ComputeCapabilityMinor, number), "cannot ask a GPU's architecture");
  driver.check(driver.deviceGetAttribute(&processors, MultiprocessorCount, number), "cannot ask a GPU's size");
  computeCapability = 10 * major + minor;
  ranks = rank.sharesGpu ? (rank.count - 1 - ordinal) / driver.devices() + 1 : 1;
  model = modelName;
  words = fmt::format("GPU {} ({}, sm_{})", ordinal, model, computeCapability);
  driver.check(driver.primaryContextRetain(&context, number), ("cannot use " + words).c_str());
}

Gpu::~Gpu() { driver.primaryContextRelease(number); }

/// How much GPU memory is left to libraries: cuBLASLt, cuDNN and NCCL load kernels and allocate buffers on first use,
/// and fail if memory is full.
static uint64_t leftToLibraries(uint64_t total) { return total / 64; }

Allocation Gpu::allocate(uint64_t bytes, const char *purpose, uint64_t more, const MemorySource &source) const {
  makeCurrent();
  size_t free = 0, total = 0;
  driver.check(driver.memGetInfo(&free, &total), "cannot ask for the GPU's memory");
  Allocation memory{.bytes = bytes};
  int result = OutOfMemory;
  if (free >= bytes + more + leftToLibraries(total)) {
    void *address = nullptr;
    if (source.allocate && source.allocate(&address, bytes) == Success) {
      memory.address = reinterpret_cast<uintptr_t>(address);
      memory.free = source.free;
    }
    result = memory.address ? int(Success) : driver.memAlloc(&memory.address, bytes);
  }
  constexpr double MiB = 1 << 20;
  if (result == OutOfMemory)
    throw Error(fmt::format("{} has too little memory: {} need {:.1f} MiB, NVIDIA's libraries are left {:.1f} MiB, and "
                            "{:.1f} of its {:.1f} MiB are free; use more ranks or a smaller batch, or end what else "
                            "uses it",
                            words, purpose, double(bytes + more) / MiB, double(leftToLibraries(total)) / MiB,
                            double(free) / MiB, double(total) / MiB));
  driver.check(result, ("cannot get memory of " + words).c_str());
  allocated += bytes;
  return memory;
}

void Gpu::free(const Allocation &memory) const noexcept {
  if (!memory.address || !tryMakeCurrent())
    return;
  if (memory.free)
    memory.free(reinterpret_cast<void *>(memory.address)); // NOLINT(performance-no-int-to-ptr): the form that NCCL uses
  else
    driver.memFree(memory.address);
  allocated -= memory.bytes;
}

StreamHandle Gpu::makeUrgentStream() const {
  makeCurrent();
  int least = 0, greatest = 0;
  StreamHandle stream = nullptr;
  driver.check(driver.contextGetStreamPriorityRange(&least, &greatest), "cannot ask for the priorities of streams");
  driver.check(driver.streamCreateWithPriority(&stream, StreamNonBlocking, greatest), "cannot make a stream");
  return stream;
}

double Gpu::peakFlops(bool sixteenBits) const { return peakFlopsOf(model, sixteenBits) / ranks; }

void Gpu::await(EventHandle event) const {
  auto begin = std::chrono::steady_clock::now();
  int result = driver.eventSynchronize(event);
  waitedNanoseconds += (std::chrono::steady_clock::now() - begin).count();
  if (result != Success)
    throw DeviceError(fmt::format("one of the launches or copies on {} failed: {}; start the program again with "
                                  "CUDA_LAUNCH_BLOCKING=1 in the environment to learn which",
                                  words, driver.describe(result)));
}

namespace {

/// "cubin.sm_90", parsed.
struct CodeForm {
  bool isMachineCode;
  int architecture;

  static std::optional<CodeForm> parse(std::string_view name) {
    constexpr std::string_view cubin = "cubin.sm_", ptx = "ptx.sm_";
    CodeForm form{name.starts_with(cubin), 0};
    if (!form.isMachineCode && !name.starts_with(ptx))
      return std::nullopt;
    name.remove_prefix(form.isMachineCode ? cubin.size() : ptx.size());
    auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), form.architecture);
    if (problem != std::errc() || end != name.data() + name.size())
      return std::nullopt;
    return form;
  }

  bool fits(int gpu) const { return architecture <= gpu && (!isMachineCode || architecture / 10 == gpu / 10); }
  bool isBetterThan(const CodeForm &other) const {
    return isMachineCode != other.isMachineCode ? isMachineCode : architecture > other.architecture;
  }
};

} // namespace

std::vector<const abi::CodePart *> codeFor(const abi::Manifest &manifest, std::string_view code, int architecture,
                                           const std::string &gpu) {
  std::vector<std::pair<CodeForm, const abi::CodePart *>> fitting;
  std::string names;
  for (const abi::CodePart &part : manifest.code()) {
    if (part.offset() > code.size() || part.bytes() > code.size() - part.offset())
      throw Error(ExitCode::BadInput, fmt::format("the program is inconsistent: its code '{}' lies at byte {} of {}; "
                                                  "compile it again",
                                                  part.name(), part.offset(), code.size()));
    names += (names.empty() ? "" : ", ") + part.name();
    if (std::optional<CodeForm> form = CodeForm::parse(part.name()); form && form->fits(architecture))
      fitting.emplace_back(*form, &part);
  }
  if (fitting.empty())
    throw Error(
        fmt::format("{} runs none of the program's code ({}); compile it with --target cuda:sm_{}, or with that "
                    "of the nearest older architecture that dtc knows",
                    gpu, names.empty() ? "none" : names, architecture));
  std::ranges::stable_sort(fitting, [](const auto &a, const auto &b) { return a.first.isBetterThan(b.first); });
  std::vector<const abi::CodePart *> parts;
  for (const auto &[form, part] : fitting)
    parts.push_back(part);
  return parts;
}

/// Whether the driver rejected the code itself, so that other code may work.
static bool isOfImage(int result) {
  constexpr Result Refusals[] = {InvalidImage,          NoBinaryForGpu,         InvalidPtx,   JitCompilerNotFound,
                                 UnsupportedPtxVersion, JitCompilationDisabled, InvalidSource};
  return std::ranges::find(Refusals, result) != std::end(Refusals);
}

Module loadCode(const Gpu &gpu, const std::vector<const abi::CodePart *> &parts, std::string_view code,
                std::vector<std::string> &notes) {
  gpu.makeCurrent();
  std::string refusals;
  for (const abi::CodePart *part : parts) {
    std::string text(code.substr(part->offset(), part->bytes())); // the driver expects a zero after PTX
    std::string log(4096, '\0');
    int options[] = {JitErrorLogBuffer, JitErrorLogBufferSize};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    Module module = nullptr;
    int result = gpu.driver.moduleLoadDataEx(&module, text.data(), 2, options, values);
    if (result == Success)
      return module;
    log.resize(std::min(log.find('\0'), log.size()));
    std::string refusal =
        fmt::format("{} refuses the program's {}{}{}", gpu.name(), part->name(), log.empty() ? "" : ": ", log);
    if (!isOfImage(result))
      gpu.driver.check(result, refusal.c_str());
    refusal += ": " + gpu.driver.describe(result);
    notes.push_back(refusal);
    refusals += (refusals.empty() ? "" : "; ") + refusal;
  }
  throw Error(
      fmt::format("{}; the driver is of CUDA {}.{}: install a newer one, or compile where a ptxas is found that "
                  "it knows, for it to need no assembler",
                  refusals, gpu.driver.version() / 1000, gpu.driver.version() % 1000 / 10));
}

} // namespace dtc::cuda
