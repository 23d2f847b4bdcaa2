// A GPU as a device, on the stand-in for NVIDIA's driver: the fixture.
#pragma once

#include "runtime/device/cuda/cuda_device.h"
#include "test/gpu/stand_in/cpu_library.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>
#include <optional>

namespace dtc::test {

/// Handwritten kernels (stand_in/kernels.cpp) as the code of a program.
struct Program {
  abi::Manifest manifest;
  std::string code = readFile(DTC_BINARY_DIR "/test/gpu/stand_in/kernels.so");

  Program() { addCode("cubin.sm_90"); }

  void addCode(const char *name) {
    abi::CodePart &part = *manifest.add_code();
    part.set_name(name);
    part.set_bytes(code.size());
  }
};

/// What `run` throws, with its exit code.
template <typename Run> std::string errorOf(Run run) {
  try {
    run();
  } catch (const Error &error) {
    return std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
  }
  return "nothing";
}

class Cuda : public testing::Test {
protected:
  abi::Kernel kernel(const char *symbol, std::initializer_list<const char *> functions, int64_t blocks = 1) {
    abi::Kernel kernel;
    kernel.set_symbol(symbol);
    for (const char *function : functions) {
      abi::KernelPass &pass = *kernel.add_passes();
      pass.set_function(function);
      pass.set_blocks(blocks);
      pass.set_threads(32);
    }
    return kernel;
  }

  void makeDevice(bool graphs = true) {
    device.emplace(program.manifest, program.code, cuda::LocalRank{}, makeCpuLibrary(), graphs);
  }

  std::vector<int64_t> read(const std::byte *address, size_t count) {
    std::vector<int64_t> values(count);
    device->read(std::as_writable_bytes(std::span(values)), address);
    return values;
  }

  Program program;
  std::optional<CudaDevice> device;
};

} // namespace dtc::test
