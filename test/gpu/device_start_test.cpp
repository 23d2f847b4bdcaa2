// How a GPU is started: which one a rank takes, what it must have, and which of a program's code it runs.
#include "test/gpu/device.h"
#include "test/gpu/variable.h"

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string startingOn(const char *standIn, const cuda::LocalRank &rank = {}, uint64_t scratch = 0) {
  Variable variable("DTC_STAND_IN", standIn);
  Program program;
  program.manifest.add_kernels()->set_scratch_bytes(scratch);
  return errorOf([&] { CudaDevice(program.manifest, program.code, rank, nullptr).allocate(1 << 20, 1 << 20); });
}

TEST(CudaStart, SaysWhatIsMissing) {
  EXPECT_EQ(startingOn("devices=1"), "nothing");
  EXPECT_THAT(startingOn("devices=0"),
              AllOf(HasSubstr("1: "), HasSubstr("there is none here"), HasSubstr("--target cpu")));
  EXPECT_THAT(startingOn("version=11080"),
              AllOf(HasSubstr("1: NVIDIA's driver is too old"), HasSubstr("CUDA 11.8"), HasSubstr("12.0")));
  EXPECT_THAT(startingOn("architecture=80"),
              AllOf(HasSubstr("1: GPU 0 (stand-in, sm_80) runs none of the program's code (cubin.sm_90)"),
                    HasSubstr("--target cuda:sm_80")));
  EXPECT_THAT(startingOn("memory=1000000"),
              AllOf(HasSubstr("1: GPU 0 (stand-in, sm_90) has too little memory: the program's tensors need 1.0 MiB"),
                    HasSubstr("are left 0.0 MiB, and 1.0 of its 1.0 MiB are free")));
}

TEST(CudaStart, CountsWhatKernelsWorkIn) {
  EXPECT_EQ(startingOn("memory=3200000", {}, 2 << 20), "nothing");
  EXPECT_THAT(startingOn("memory=1000000", {}, 2 << 20),
              HasSubstr("has too little memory: the program's tensors and kernels need 3.0 MiB, "));
  EXPECT_THAT(startingOn("memory=3150000", {}, 2 << 20), HasSubstr("NVIDIA's libraries are left 0.0 MiB, and 3.0 of"))
      << "would fill it";
}

TEST(CudaStart, RanksTakeTheGpusThatTheySeeInTurn) {
  Variable variable("DTC_STAND_IN", "devices=2");
  Program program;
  auto gpuOf = [&](int rank, int count, bool shares) {
    CudaDevice device(program.manifest, program.code, cuda::LocalRank{rank, count, shares}, nullptr);
    return int(device.getGpu().uuid().bytes[0]);
  };
  EXPECT_EQ(gpuOf(0, 2, false), 0);
  EXPECT_EQ(gpuOf(1, 2, false), 1);
  EXPECT_EQ(gpuOf(2, 3, true), 0);
}

/// The code that a GPU of that architecture chooses among these.
std::string choose(std::initializer_list<const char *> names, int architecture) {
  Program program;
  program.manifest.clear_code();
  for (const char *name : names)
    program.addCode(name);
  std::string chosen;
  std::string error = errorOf([&] {
    for (const abi::CodePart *part : cuda::codeFor(program.manifest, program.code, architecture, "it"))
      chosen += (chosen.empty() ? "" : " ") + part->name();
  });
  return chosen.empty() ? error : chosen;
}

TEST(CudaCode, IsTheNewestThatTheGpuRuns) {
  auto all = {"ptx.sm_80", "cubin.sm_80", "ptx.sm_90", "cubin.sm_90", "ptx.sm_100", "cubin.sm_100"};
  EXPECT_EQ(choose(all, 80), "cubin.sm_80 ptx.sm_80");
  EXPECT_EQ(choose(all, 86), "cubin.sm_80 ptx.sm_80") << "of one generation";
  EXPECT_EQ(choose(all, 90), "cubin.sm_90 ptx.sm_90 ptx.sm_80");
  EXPECT_EQ(choose(all, 103), "cubin.sm_100 ptx.sm_100 ptx.sm_90 ptx.sm_80");
  EXPECT_EQ(choose(all, 120), "ptx.sm_100 ptx.sm_90 ptx.sm_80") << "of a later one";
  EXPECT_EQ(choose({"ptx.sm_80", "ptx.sm_90"}, 89), "ptx.sm_80");
  EXPECT_THAT(choose({"cubin.sm_86", "ptx.sm_86"}, 80), HasSubstr("it runs none of the program's code"));
  EXPECT_THAT(choose({"cubin.sm_90", "ptx.sm_90"}, 80), HasSubstr("it runs none of the program's code"));
  EXPECT_THAT(choose({"cubin.sm_9x", "cubin.sm_", "elf"}, 90), HasSubstr("runs none"));
}

TEST(CudaCode, LiesInTheFile) {
  Program program;
  program.manifest.mutable_code(0)->set_offset(1);
  EXPECT_THAT(errorOf([&] { CudaDevice(program.manifest, program.code, {}, nullptr); }),
              HasSubstr("3: the program is inconsistent: its code 'cubin.sm_90' lies at byte 1"));
}

TEST(CudaCode, ThatTheDriverRefusesIsTold) {
  Program program;
  program.code[0] = 'x';
  EXPECT_THAT(errorOf([&] { CudaDevice(program.manifest, program.code, {}, nullptr); }),
              AllOf(HasSubstr("1: GPU 0 (stand-in, sm_90) refuses the program's cubin.sm_90"),
                    HasSubstr("no code for this machine: CUDA_ERROR_INVALID_IMAGE")));
}

// As from a ptxas that is newer than the driver: the driver itself assembles the PTX next to it.
TEST(CudaCode, ThatTheDriverRefusesIsReplacedByWhatStandsBesideIt) {
  Program program;
  std::string refused(128, 'x');
  program.code.insert(0, refused);
  program.manifest.mutable_code(0)->set_bytes(refused.size());
  EXPECT_THAT(errorOf([&] { CudaDevice(program.manifest, program.code, {}, nullptr); }),
              HasSubstr("1: GPU 0 (stand-in, sm_90) refuses the program's cubin.sm_90"));
  program.addCode("ptx.sm_80");
  program.manifest.mutable_code(1)->set_offset(refused.size());
  program.manifest.mutable_code(1)->set_bytes(program.code.size() - refused.size());
  CudaDevice device(program.manifest, program.code, {}, nullptr);
  abi::Kernel kernel;
  kernel.set_symbol("sum");
  kernel.add_passes()->set_function("sum");
  kernel.mutable_passes(0)->set_blocks(1);
  kernel.mutable_passes(0)->set_threads(32);
  EXPECT_NE(device.load(kernel), 0U);
  EXPECT_THAT(device.takeNotes(),
              testing::ElementsAre(AllOf(HasSubstr("refuses the program's cubin.sm_90"), HasSubstr("INVALID_IMAGE"))));
}

} // namespace
} // namespace dtc::test
