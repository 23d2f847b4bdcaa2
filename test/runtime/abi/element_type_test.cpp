// The table of element types, and rounding to them, compared with every value that the narrow types have.
#include "runtime/abi/element_type.h"

#include <gtest/gtest.h>

namespace dtc::abi {
namespace {

constexpr double Infinity = std::numeric_limits<double>::infinity();

double valueOf(DataType type, uint32_t bits) {
  return readElement(elementType(type), reinterpret_cast<const std::byte *>(&bits));
}
double round(DataType type, double x) { return roundTo(elementType(type), x); }

TEST(ElementTypes, HaveOneRowEach) {
  ASSERT_EQ(ElementTypes.size(), static_cast<size_t>(DataType_ARRAYSIZE));
  for (int type = 0; type < DataType_ARRAYSIZE; ++type) {
    ASSERT_TRUE(DataType_IsValid(type) && findElementType(type)) << type;
    EXPECT_EQ(findElementType(type)->type, type);
  }
  for (int none : {-1, DataType_ARRAYSIZE, 1000})
    EXPECT_EQ(findElementType(none), nullptr);
  EXPECT_EQ(nameOf(BF16), "bf16");
  EXPECT_EQ(nameOf(DataType(17)), "element type 17");
}

TEST(ElementTypes, SayWhatFilesAndMemoryHold) {
  struct Row {
    DataType type;
    uint32_t bytes;
    const char *safetensors, *config;
    bool floating, canReduce;
    DataType accumulator;
  };
  for (const Row &row :
       {Row{F32, 4, "F32", "float32", true, true, F32}, Row{I32, 4, "I32", "int32", false, true, I32},
        Row{BF16, 2, "BF16", "bfloat16", true, true, F32}, Row{F16, 2, "F16", "float16", true, true, F32},
        Row{I8, 1, "I8", "int8", false, false, I32}, Row{MASK, 4, "I32", "int32", false, false, I32}}) {
    const ElementType &type = elementType(row.type);
    EXPECT_EQ(type.bytes, row.bytes) << type.name;
    EXPECT_EQ(bytesOf(row.type, 7), 7 * row.bytes) << type.name;
    EXPECT_EQ(type.safetensors, row.safetensors);
    EXPECT_EQ(type.config, row.config);
    EXPECT_EQ(type.isFloating(), row.floating) << type.name;
    EXPECT_EQ(type.canReduce(), row.canReduce) << type.name;
    EXPECT_EQ(type.accumulator, row.accumulator) << type.name;
    if (row.floating)
      EXPECT_EQ(1 + type.exponentBits + type.fractionBits, 8 * int(type.bytes)) << type.name;
    if (row.type != MASK) // which is an i32 in a file
      EXPECT_EQ(findSafetensorsType(row.safetensors)->type, row.type);
  }
  EXPECT_EQ(findSafetensorsType("F64"), nullptr);
}

TEST(ElementTypes, ReadElements) {
  EXPECT_EQ(valueOf(F32, 0xc0490fdb), static_cast<double>(-3.14159274f));
  EXPECT_EQ(valueOf(F32, 1), 0x1p-149);
  EXPECT_EQ(valueOf(I32, 0xffffffff), -1);
  EXPECT_EQ(valueOf(I8, 0x1ff80), -128); // the other bytes belong to others
  EXPECT_EQ(valueOf(BF16, 0xffff3f80), 1);
  EXPECT_EQ(valueOf(BF16, 0x7f7f), 0x1.fep127);
  EXPECT_EQ(valueOf(BF16, 0x0001), 0x1p-133);
  EXPECT_EQ(valueOf(F16, 0xffff3c00), 1);
  EXPECT_EQ(valueOf(F16, 0x7bff), 65504);
  EXPECT_EQ(valueOf(F16, 0x8001), -0x1p-24);
  EXPECT_TRUE(std::signbit(valueOf(F16, 0x8000)) && std::signbit(valueOf(BF16, 0x8000)));
  EXPECT_EQ(valueOf(F16, 0xfc00), -Infinity);
  EXPECT_EQ(valueOf(BF16, 0x7f80), Infinity);
  EXPECT_TRUE(std::isnan(valueOf(F16, 0x7c01)) && std::isnan(valueOf(BF16, 0xffc0)));
}

TEST(ElementTypes, TellFiniteBits) {
  for (const ElementType &type : ElementTypes)
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      uint32_t placed = type.bytes == 4 ? bits << 16 | (bits & 1) : bits;
      ASSERT_EQ(isFiniteBits(type, type.bytes == 1 ? placed & 0xff : placed), std::isfinite(valueOf(type.type, placed)))
          << type.name << " " << bits;
    }
}

TEST(Rounding, KnownValues) {
  // Ties to even, towards both neighbours.
  EXPECT_EQ(round(BF16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round(BF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(round(F16, 2049), 2048);
  EXPECT_EQ(round(F16, 2051), 2052);
  // One rounding, not two: via f32 this would be a tie.
  EXPECT_EQ(round(BF16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(round(F16, -1 - 0x1p-11 - 0x1p-40), -1 - 0x1p-10);
  // Overflow begins half a unit beyond the largest value.
  EXPECT_EQ(round(F16, 65519.99), 65504);
  EXPECT_EQ(round(F16, 65520), Infinity);
  EXPECT_EQ(round(F16, -1e300), -Infinity);
  EXPECT_EQ(round(BF16, 0x1.fefffffffffffp127), 0x1.fep127);
  EXPECT_EQ(round(BF16, 0x1.ffp127), Infinity);
  EXPECT_EQ(round(F32, 0x1.ffffffp127), Infinity);
  // Subnormals, and values that round to zero.
  EXPECT_EQ(round(F16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(round(F16, 0x1p-25), 0);
  EXPECT_EQ(round(F16, 0x1.000001p-25), 0x1p-24);
  EXPECT_EQ(round(F16, 1.5 * 0x1p-24), 0x1p-23);
  EXPECT_EQ(round(BF16, 0x1p-134), 0);
  EXPECT_EQ(round(BF16, -0x1.8p-134), -0x1p-133);
  EXPECT_TRUE(std::signbit(round(BF16, -1e-300)) && std::signbit(round(F16, -0.0)));
  EXPECT_EQ(round(BF16, 5e-324), 0);
  // Values that are not finite, and types that are not floating-point.
  for (DataType type : {F32, BF16, F16}) {
    EXPECT_EQ(round(type, -Infinity), -Infinity);
    EXPECT_TRUE(std::isnan(round(type, NAN)));
  }
  EXPECT_EQ(round(I32, 0.1), 0.1);
}

/// All finite values of a 16-bit type and the midpoint between each two of them.
class NarrowType : public testing::TestWithParam<DataType> {};

TEST_P(NarrowType, RoundsToTheNearestValueAndTiesToEven) {
  uint32_t infinity = ((1u << elementType(GetParam()).exponentBits) - 1) << elementType(GetParam()).fractionBits;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    double below = valueOf(GetParam(), bits), above = valueOf(GetParam(), bits + 1);
    // The value that would come next decides where overflow begins.
    double next = bits + 1 == infinity ? below + (below - valueOf(GetParam(), bits - 1)) : above;
    double middle = (below + next) / 2;
    for (double sign : {1.0, -1.0}) {
      ASSERT_EQ(round(GetParam(), sign * below), sign * below) << bits;
      ASSERT_EQ(round(GetParam(), sign * std::nextafter(middle, 0)), sign * below) << bits;
      ASSERT_EQ(round(GetParam(), sign * middle), sign * (bits % 2 == 0 ? below : above)) << bits;
      ASSERT_EQ(round(GetParam(), sign * std::nextafter(middle, Infinity)), sign * above) << bits;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NarrowType, testing::Values(BF16, F16),
                         [](const auto &info) { return std::string(elementType(info.param).name); });

} // namespace
} // namespace dtc::abi
