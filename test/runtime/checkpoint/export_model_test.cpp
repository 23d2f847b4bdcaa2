// Weights in other types: the bits of values, and which values are taken.
#include "runtime/checkpoint/export_model.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"
#include "runtime/weights/safetensors.h"
#include "test/runtime/temporary_directory.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

using testing::HasSubstr;

namespace dtc::test {
namespace {

class Bits : public testing::TestWithParam<abi::DataType> {};

double valueOf(const abi::ElementType &type, uint32_t bits) {
  return abi::readElement(type, reinterpret_cast<const std::byte *>(&bits));
}

TEST_P(Bits, OfEveryFiniteValueAreItsOwn) {
  const abi::ElementType &type = abi::elementType(GetParam());
  for (uint32_t bits = 0; bits < 1u << (8 * type.bytes); ++bits)
    if (abi::isFiniteBits(type, bits)) {
      ASSERT_EQ(bitsOf(GetParam(), valueOf(type, bits)), bits);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Bits, testing::Values(abi::BF16, abi::F16),
                         [](const auto &info) { return abi::nameOf(info.param); });

TEST(BitsOfF32, AreTheProcessors) {
  for (float value : {0.0f, -0.0f, 1.5f, -3.25e-40f, 3e38f})
    EXPECT_EQ(bitsOf(abi::F32, value), std::bit_cast<uint32_t>(value));
}

/// A directory with one tensor of doubles. F32 would lose what decides a tie.
std::string writeDoubles(const TemporaryDirectory &directory, const std::vector<double> &values) {
  std::filesystem::create_directories(directory.path.string() + "/model");
  std::ofstream(directory.path.string() + "/model/config.json") << "{}";
  std::string header = R"({"w":{"dtype":"F64","shape":[)" + std::to_string(values.size()) + R"(],"data_offsets":[0,)" +
                       std::to_string(8 * values.size()) + "]}}";
  uint64_t length = header.size();
  std::ofstream file(directory.path.string() + "/model/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char *>(&length), 8) << header;
  file.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(8 * values.size()));
  return directory.path.string() + "/model";
}

TEST(ExportModel, RoundsDoublesOnce) {
  TemporaryDirectory directory;
  double tie = 1 + 0x1p-8; // between two of bf16; the one below is even
  std::string model = writeDoubles(directory, {tie, tie + 0x1p-40, tie - 0x1p-40, 1 + 3 * 0x1p-8});
  exportModel({.from = model, .to = directory.path.string() + "/out", .type = abi::BF16});
  SafetensorsFile file(directory.path.string() + "/out/model.safetensors");
  std::vector<double> read(4);
  file.read(*file.find("w"), 0, 1, std::span(read));
  EXPECT_THAT(read, testing::ElementsAre(1, 1 + 0x1p-7, 1, 1 + 2 * 0x1p-7));
}

TEST(ExportModel, RefusesWhatF32CannotHold) {
  TemporaryDirectory directory;
  try {
    exportModel({.from = writeDoubles(directory, {0, 1e39}), .to = directory.path.string() + "/out"});
    FAIL() << "1e39 is no f32";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 'w', element 1, is 1e+39, which f32 cannot hold"));
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path.string() + "/out"));
}

} // namespace
} // namespace dtc::test
