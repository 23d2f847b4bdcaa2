#include "runtime/device/cuda/gpu.h"

#include "runtime/abi/error.h"

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

DevicePointer Gpu::allocate(uint64_t bytes, const char *purpose, uint64_t more) const {
  makeCurrent();
  DevicePointer memory = 0;
  int result = driver.memAlloc(&memory, bytes);
  if (result != OutOfMemory) {
    driver.check(result, ("cannot get memory of " + words).c_str());
    allocated += bytes;
    return memory;
  }
  size_t free = 0, total = 0;
  driver.check(driver.memGetInfo(&free, &total), "cannot ask for the GPU's memory");
  constexpr double MiB = 1 << 20;
  throw Error(fmt::format("{} has too little memory: {} need {:.1f} MiB, and {:.1f} of its {:.1f} MiB are free; use "
                          "more ranks or a smaller batch, or end what else uses it",
                          words, purpose, double(bytes + more) / MiB, double(free) / MiB, double(total) / MiB));
}

void Gpu::free(DevicePointer memory, uint64_t bytes) const noexcept {
  if (!memory || !tryMakeCurrent())
    return;
  driver.memFree(memory);
  allocated -= bytes;
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

/// "cubin.sm_90" taken apart.
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

const abi::CodePart &chooseCode(const abi::Manifest &manifest, std::string_view code, int architecture,
                                const std::string &gpu) {
  const abi::CodePart *best = nullptr;
  std::optional<CodeForm> bestForm;
  std::string names;
  for (const abi::CodePart &part : manifest.code()) {
    if (part.offset() > code.size() || part.bytes() > code.size() - part.offset())
      throw Error(ExitCode::BadInput, fmt::format("the program is inconsistent: its code '{}' lies at byte {} of {}; "
                                                  "compile it again",
                                                  part.name(), part.offset(), code.size()));
    names += (names.empty() ? "" : ", ") + part.name();
    std::optional<CodeForm> form = CodeForm::parse(part.name());
    if (!form || !form->fits(architecture) || (bestForm && !form->isBetterThan(*bestForm)))
      continue;
    best = &part;
    bestForm = form;
  }
  if (!best)
    throw Error(
        fmt::format("{} runs none of the program's code ({}); compile it with --target cuda:sm_{}, or with that "
                    "of the nearest older architecture that dtc knows",
                    gpu, names.empty() ? "none" : names, architecture));
  return *best;
}

Module loadCode(const Gpu &gpu, const abi::CodePart &part, std::string_view code) {
  gpu.makeCurrent();
  std::string text(code.substr(part.offset(), part.bytes())); // the driver wants a zero behind PTX
  std::string log(4096, '\0');
  int options[] = {JitErrorLogBuffer, JitErrorLogBufferSize};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  Module module = nullptr;
  int result = gpu.driver.moduleLoadDataEx(&module, text.data(), 2, options, values);
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  if (result == UnsupportedPtxVersion)
    throw Error(fmt::format("NVIDIA's driver (of CUDA {}.{}) is too old for the program's {}: {}; install a newer one, "
                            "or compile where ptxas is found, for the driver to need no assembler",
                            gpu.driver.version() / 1000, gpu.driver.version() % 1000 / 10, part.name(), log));
  gpu.driver.check(
      result,
      fmt::format("{} refuses the program's {}{}{}", gpu.name(), part.name(), log.empty() ? "" : ": ", log).c_str());
  return module;
}

} // namespace dtc::cuda
