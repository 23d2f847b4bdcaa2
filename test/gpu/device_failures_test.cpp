// Failures of a GPU at work: where they are reported, and for which command.
#include "runtime/comm/local/in_process.h"
#include "runtime/executor/executor.h"
#include "test/gpu/device.h"
#include "test/gpu/variable.h"
#include "test/runtime/program/manifests.h"

#include <memory>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A library that has all kernels, and refuses to launch them.
struct RefusingLibrary final : cuda::LibraryKernels {
  uint64_t start(const cuda::Gpu &, const abi::Manifest &) override { return 0; }
  cuda::LibraryFunction find(const cuda::Gpu &, std::string_view) override {
    return
        [](cuda::LibraryContext &, std::span<void *const>, std::span<const int64_t>) { throw Error("no such shape"); };
  }
  cuda::LibraryAttempt findAttempt(std::string_view) override { return nullptr; }
  std::vector<std::string> takeNotes() override { return {}; }
};

TEST_F(Cuda, AHostFunctionThatFailsIsNamed) {
  device.emplace(program.manifest, program.code, cuda::LocalRank{}, std::make_unique<RefusingLibrary>());
  abi::Kernel gemm = kernel("dtc_cuda_gemm", {});
  gemm.set_library(true);
  Device::Kernel product = device->load(gemm);
  EXPECT_EQ(errorOf([&] { device->launch(product, {}, {}, 1, 1); }),
            "1: kernel 'dtc_cuda_gemm' on GPU 0 (stand-in, sm_90): no such shape");
  EXPECT_THROW(device->launch(product, {}, {}, 1, 1), DeviceError) << "executors add the command to it";
}

/// Launches a kernel that writes past the end of its memory.
std::string stray(CudaDevice &device, const abi::Kernel &kernel, bool waits) {
  Device::Kernel loaded = device.load(kernel);
  std::unique_ptr<Memory> memory = device.allocate(4096, 4096);
  int64_t bytes = 4096;
  void *buffers[] = {memory->base()};
  return errorOf([&] {
    device.launch(loaded, buffers, std::span(&bytes, 1), 1, 1);
    if (waits)
      device.wait(device.record());
  });
}

TEST_F(Cuda, AFailureIsToldAtTheNextWait) {
  makeDevice();
  EXPECT_EQ(stray(*device, kernel("stray", {"stray"}), /*waits=*/false), "nothing");
  makeDevice();
  EXPECT_THAT(stray(*device, kernel("stray", {"stray"}), /*waits=*/true),
              AllOf(HasSubstr("1: one of the launches or copies on GPU 0 (stand-in, sm_90) failed: "
                              "CUDA_ERROR_ILLEGAL_ADDRESS"),
                    HasSubstr("CUDA_LAUNCH_BLOCKING=1")));
}

TEST_F(Cuda, AFailureNamesItsKernelWhereLaunchesWait) {
  Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  makeDevice();
  EXPECT_THAT(stray(*device, kernel("far_away", {"stray"}), /*waits=*/false),
              AllOf(HasSubstr("1: kernel 'far_away' on GPU 0 (stand-in, sm_90): CUDA_ERROR_ILLEGAL_ADDRESS")));
}

/// A list of two launches, of which the second writes `bytes` past the end of its buffer.
void addList(abi::Manifest &manifest, int64_t bytes) {
  abi::Axis *axis = manifest.mutable_mesh()->add_axes();
  axis->set_name("dp");
  axis->set_size(1);
  abi::Role *role = manifest.add_roles();
  role->set_arena_bytes(4096);
  role->set_shared_begin(4096);
  test::addSpace(*role, abi::Space::PRIVATE, 0, 4096);
  manifest.add_stages();
  test::addList(manifest, "main");
  test::addEntry(*role, abi::stepTimetable, "main");
  abi::Tensor *tensor = role->add_tensors();
  tensor->set_name("x");
  tensor->add_local_shape(16);
  for (const char *location : {"h.0", "h.1"}) {
    bool isSecond = manifest.locations_size() == 1;
    manifest.add_locations(location);
    abi::Command *command = manifest.mutable_lists(0)->add_commands();
    command->set_location(isSecond);
    abi::Launch *launch = command->mutable_launch();
    launch->add_buffers(0);
    launch->add_buffer_bytes(64);
    launch->add_buffer_types(abi::F32);
    launch->add_scalars()->set_value(isSecond ? bytes : 0);
    launch->set_grid(1);
    launch->set_grain(1);
  }
}

class CudaList : public Cuda {
protected:
  /// What running the list, and then reading its results, throws.
  std::pair<std::string, std::string> run(int64_t bytes) {
    abi::Kernel stray = kernel("stray", {"stray"});
    stray.set_outputs(1);
    *program.manifest.add_kernels() = stray;
    addList(program.manifest, bytes);
    makeDevice();
    std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
    InProcessJob alone(1);
    Arena stage(4096, 4096);
    std::unique_ptr<Communicator> communicator = alone.join(0, stage);
    Executor executor(program.manifest, *communicator, *device, *memory);
    std::string running = errorOf([&] { executor.run("main"); });
    return {running, errorOf([&] { (void)executor.floats("x"); })};
  }
};

TEST_F(CudaList, SaysAtWhichCommandAndLayerALaunchFailed) {
  Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  EXPECT_THAT(run(1 << 20).first,
              HasSubstr("1: list 'main', command 1 (h.1): kernel 'stray' on GPU 0 (stand-in, sm_90): "
                        "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(CudaList, FailsWhereItIsWaitedForElse) {
  auto [running, reading] = run(1 << 20);
  EXPECT_EQ(running, "nothing");
  EXPECT_THAT(reading, HasSubstr("one of the launches or copies on GPU 0 (stand-in, sm_90) failed"));
}

TEST_F(CudaList, RunsWhereNothingIsWrong) {
  EXPECT_EQ(run(8), (std::pair<std::string, std::string>("nothing", "nothing")));
}

TEST_F(Cuda, ALostGpuFailsWhateverComesAfter) {
  Variable lost("DTC_STAND_IN", "lost_at=1");
  makeDevice();
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  int64_t zero = 0;
  void *buffers[] = {memory->base()};
  device->launch(device->load(kernel("stray", {"stray"})), buffers, std::span(&zero, 1), 1, 1);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(errorOf([&] { read(memory->base(), 1); }), HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
}

} // namespace
} // namespace dtc::test
