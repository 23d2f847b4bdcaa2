#include "runtime/weights/safetensors.h"

#include "test/refusal.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <unistd.h>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

template <typename T> std::string bytesOf(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T));
}

std::string fileOf(std::string_view header, std::string_view data) {
  return bytesOf<uint64_t>({header.size()}) + std::string(header) + std::string(data);
}

/// The reader's message about a file of these bytes.
std::string refusal(const std::string &bytes) {
  TemporaryDirectory directory;
  std::string path = directory.write("bad.safetensors", bytes),
              said = test::refusalOf([&] { SafetensorsFile file(path); });
  EXPECT_THAT(said, HasSubstr("bad.safetensors"));
  return said;
}

TEST(Safetensors, ConvertsEveryFloatingPointType) {
  TemporaryDirectory directory;
  // 1.5 and -2; the smallest subnormal half is 2^-24.
  std::string data = bytesOf<float>({1.5f, -2.f}) + bytesOf<double>({1.5, 1e-300}) +
                     bytesOf<uint16_t>({0x3e00, 0x0001, 0xfc00}) + bytesOf<uint16_t>({0x3fc0, 0xc000});
  SafetensorsFile file(directory.write("a", fileOf(R"({"__metadata__":{"format":"pt"},
      "f32":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "f64":{"dtype":"F64","shape":[2],"data_offsets":[8,24]},
      "f16":{"dtype":"F16","shape":[3],"data_offsets":[24,30]},
      "bf16":{"dtype":"BF16","shape":[1,2],"data_offsets":[30,34]}})",
                                                   data)));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  auto floats = [&](const char *name, size_t count) {
    std::vector<float> values(count);
    file.read(*file.find(name), 0, 1, std::span<float>(values));
    return values;
  };
  EXPECT_THAT(floats("f32", 2), ElementsAre(1.5f, -2.f));
  EXPECT_THAT(floats("f16", 3), ElementsAre(1.5f, 0x1p-24f, -INFINITY));
  EXPECT_THAT(floats("bf16", 2), ElementsAre(1.5f, -2.f));
  std::vector<double> doubles(1);
  file.read(*file.find("f64"), 1, 1, std::span<double>(doubles));
  EXPECT_THAT(doubles, ElementsAre(1e-300));
  EXPECT_EQ(file.find("f8"), nullptr);
}

TEST(Safetensors, ReadsStridedPartsAndRefusesPartsOutside) {
  TemporaryDirectory directory;
  SafetensorsFile file(directory.write(
      "a", fileOf(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", bytesOf<float>({0, 1, 2, 3, 4, 5}))));
  std::vector<float> column(2);
  file.read(*file.find("x"), 1, 3, std::span<float>(column));
  EXPECT_THAT(column, ElementsAre(1, 4));
  EXPECT_THROW(file.read(*file.find("x"), 3, 3, std::span<float>(column)), Error);
  EXPECT_THROW(file.read(*file.find("x"), 1, INT64_MAX, std::span<float>(column)), Error);
}

TEST(Safetensors, ReadsWhatTheLayoutDescribes) {
  TemporaryDirectory directory;
  SafetensorsLayout layout = layoutSafetensors({{"b", {2}}, {"a\"\n", {}}}, {{"format", "pt"}});
  EXPECT_EQ(layout.header.size() % 8, 0u);
  std::string bytes = layout.header + bytesOf<float>({1, 2, 3});
  ASSERT_EQ(bytes.size(), layout.fileBytes);
  SafetensorsFile file(directory.write("a", bytes));
  float value;
  file.read(*file.find("a\"\n"), 0, 1, std::span<float>(&value, 1));
  EXPECT_EQ(value, 3);
}

TEST(Safetensors, LaysOutEachTypeByTheTable) {
  SafetensorsLayout layout = layoutSafetensors(
      {{"a", {3}, dtc::abi::BF16}, {"b", {5}, dtc::abi::I8}, {"c", {2}, dtc::abi::F16}, {"d", {1}, dtc::abi::I32}}, {});
  std::vector<std::string> types;
  std::vector<uint64_t> ends;
  for (const SafetensorsEntry &entry : layout.entries)
    types.push_back(entry.type), ends.push_back(entry.end);
  EXPECT_THAT(types, ElementsAre("BF16", "I8", "F16", "I32"));
  EXPECT_THAT(ends, ElementsAre(6, 11, 15, 19));
  EXPECT_EQ(layout.fileBytes, layout.header.size() + 19);
  TemporaryDirectory directory;
  SafetensorsFile file(directory.write("a", layout.header + std::string(19, '\0')));
  EXPECT_EQ(file.entries().size(), 4u);
}

TEST(Safetensors, RefusesTruncatedFiles) {
  EXPECT_THAT(refusal("abc"), HasSubstr("fewer than the 8"));
  EXPECT_THAT(refusal(bytesOf<uint64_t>({50}) + "{}"), HasSubstr("claims 50 bytes but only 2 follow"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "12345678")),
              AllOf(HasSubstr("'w'"), HasSubstr("[0, 16) of 8")));
}

TEST(Safetensors, RefusesHeadersOverTheLimit) {
  EXPECT_THAT(refusal(bytesOf<uint64_t>({100'000'001})), HasSubstr("100000001"));
  EXPECT_THAT(refusal(bytesOf<uint64_t>({UINT64_MAX}) + "{}"), HasSubstr("18446744073709551615"));
}

TEST(Safetensors, RefusesDuplicateNames) {
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                                 "w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                             "12345678")),
              HasSubstr("'w' appears twice"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234")),
              HasSubstr("'dtype' twice"));
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  EXPECT_THAT(refusal(fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                 "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                             "123456789012")),
              HasSubstr("'b' overlaps"));
  EXPECT_THAT(refusal(fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                                 "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                             "123456789012")),
              HasSubstr("bytes [4, 8) before tensor 'b'"));
  EXPECT_THAT(refusal(fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "123456789012")),
              HasSubstr("[4, 12) at the end"));
}

TEST(Safetensors, RefusesShapesThatOverflowOrContradictTheirBytes) {
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", "1234")),
              AllOf(HasSubstr("'w'"), HasSubstr("9223372036854775808")));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "")),
              HasSubstr("more than 2^64 bytes"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234")),
              HasSubstr("the number -1"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234")),
              HasSubstr("needs 8 bytes but has 4"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}})", "1234")),
              HasSubstr("[4, 0)"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234")), HasSubstr("'F33'"));
}

TEST(Safetensors, RefusesHeadersOfAnotherStructure) {
  EXPECT_THAT(refusal(fileOf("[]", "")), HasSubstr("an array"));
  EXPECT_THAT(refusal(fileOf(R"({"w":3})", "")), HasSubstr("the number 3"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234")),
              HasSubstr("1 data_offsets"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","shape":[1]}})", "1234")), HasSubstr("lacks one of"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype":"F32","colour":1}})", "1234")), HasSubstr("'colour'"));
  EXPECT_THAT(refusal(fileOf(R"({"w":{"dtype")", "1234")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(fileOf("{\"\xff\xfe\":1}", "")), HasSubstr("not valid JSON"));
}

// A hundred megabytes of nesting must neither exhaust the stack nor take long: the first bracket is refused.
TEST(Safetensors, RefusesAHugeNestedHeaderQuickly) {
  TemporaryDirectory directory;
  std::string path = directory.write("bad", bytesOf<uint64_t>({99'000'000}) + std::string(1 << 20, '['));
  ASSERT_EQ(truncate(path.c_str(), 99'000'008), 0);
  EXPECT_THROW(SafetensorsFile{path}, Error);
}

TEST(SafetensorsModel, FindsNamesInShardsAndUnderPrefixes) {
  TemporaryDirectory directory;
  directory.write("one.safetensors",
                  fileOf(R"({"transformer.a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234"));
  directory.write("two.safetensors", fileOf(R"({"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234"));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map":{"transformer.a":"one.safetensors","b":"two.safetensors"}})");
  ASSERT_TRUE(SafetensorsModel::present(directory.path));
  SafetensorsModel model(directory.path);
  EXPECT_TRUE(model.find("transformer.a"));
  EXPECT_TRUE(model.find("a"));
  EXPECT_TRUE(model.find("transformer.b"));
  EXPECT_FALSE(model.find("c"));
}

TEST(SafetensorsModel, RefusesAnIndexThatLies) {
  TemporaryDirectory directory;
  auto refusalWith = [&](const std::string &index) {
    directory.write("model.safetensors.index.json", index);
    return test::refusalOf([&] { SafetensorsModel model(directory.path); });
  };
  directory.write("one.safetensors", fileOf("{}", ""));
  EXPECT_THAT(refusalWith(R"({"weight_map":{"a":"one.safetensors"}})"), HasSubstr("does not have it"));
  EXPECT_THAT(refusalWith(R"({"weight_map":{"a":"missing.safetensors"}})"), HasSubstr("missing.safetensors"));
  EXPECT_THAT(refusalWith(R"({"weight_map":{"a":"../one.safetensors"}})"), HasSubstr("not a file of this directory"));
  EXPECT_THAT(refusalWith(R"({"weight_map":{"a":1}})"), HasSubstr("no file name"));
  EXPECT_THAT(refusalWith("{"), HasSubstr("weight_map"));
}

} // namespace
