#include "runtime/program/start/cpu_features.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/support/error.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>

namespace dtc {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(KernelLibraryTest, RunsCodeFromMemory) {
  std::ifstream file(DTC_SAMPLE_KERNELS, std::ios::binary);
  std::string image(std::istreambuf_iterator<char>(file), {});
  ASSERT_FALSE(image.empty());
  KernelLibrary library(image);
  dtc_kernel_fn kernel = library.find("sample_kernel");
  ASSERT_TRUE(kernel);
  float values[5] = {};
  void *buffers[] = {values};
  int64_t scalars[] = {3};
  kernel(buffers, scalars, 1, 5);
  EXPECT_THAT(values, testing::ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ(library.find("another"), nullptr);
}

TEST(KernelLibraryTest, NothingHoldsNothingAndNonsenseIsRefused) {
  EXPECT_EQ(KernelLibrary("").find("sample_kernel"), nullptr);
  EXPECT_THROW(KernelLibrary("not a shared object"), Error);
}

// Against the compiler's own detection, under LLVM's names; all those of x86-64-v3 and x86-64-v4 are among them.
TEST(CpuFeaturesTest, AgreeWithTheCompilersDetection) {
  auto machine = machineCpuFeatures();
#define EXPECT_SAME(NAME) EXPECT_EQ(hasCpuFeature(machine, NAME), bool(__builtin_cpu_supports(NAME))) << NAME
  EXPECT_SAME("sse3");
  EXPECT_SAME("sse4.2");
  EXPECT_SAME("pclmul");
  EXPECT_SAME("avx");
  EXPECT_SAME("avx2");
  EXPECT_SAME("fma");
  EXPECT_SAME("bmi");
  EXPECT_SAME("bmi2");
  EXPECT_SAME("f16c");
  EXPECT_SAME("lzcnt");
  EXPECT_SAME("movbe");
  EXPECT_SAME("avx512f");
  EXPECT_SAME("avx512bw");
  EXPECT_SAME("avx512cd");
  EXPECT_SAME("avx512dq");
  EXPECT_SAME("avx512vl");
  EXPECT_SAME("avx512vnni");
  EXPECT_SAME("avx512bf16");
#undef EXPECT_SAME
}

TEST(CpuFeaturesTest, AMissingOneIsNamed) {
  abi::Manifest manifest;
  manifest.set_target("znver9");
  requireCpuFeatures(manifest);
  manifest.add_target_features("sse2");
  manifest.add_target_features("avx8192f");
  try {
    requireCpuFeatures(manifest);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::Runtime);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'avx8192f'"), HasSubstr("znver9")));
  }
}

} // namespace
} // namespace dtc
