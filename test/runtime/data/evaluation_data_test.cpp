#include "runtime/data/evaluation_data.h"

#include "runtime/data/document_index.h"
#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "test/runtime/data/counting_file.h"
#include "test/runtime/temporary_directory.h"

#include <fstream>
#include <gmock/gmock.h>
#include <numeric>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

constexpr int32_t None = ignoredTarget;

/// Token i is i. Where there are lengths, the tokens are documents of these.
class EvaluationDataTest : public testing::Test {
protected:
  const TokenData &counting(int count) {
    return data.emplace(std::vector{test::writeCounting(directory / "tokens.bin", count)});
  }

  const TokenData &documents(const std::vector<int> &lengths) {
    std::vector<uint16_t> values(std::accumulate(lengths.begin(), lengths.end(), 0));
    std::iota(values.begin(), values.end(), 0);
    DocumentIndexBuilder index(sizeof(uint16_t));
    for (int length : lengths)
      index.add(length);
    std::ofstream(directory / "packed.bin")
        .write(reinterpret_cast<const char *>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(uint16_t)));
    std::ofstream(directory / "packed.idx") << index.bytes();
    return data.emplace(std::vector{directory / "packed.bin"});
  }

  static std::vector<int32_t> fill(const EvaluationData &data, SamplePart part, size_t passage, int64_t window,
                                   const BatchSlice &slice) {
    std::vector<int32_t> values(slice.localRows * slice.localColumns, 77);
    data.fill(part, passage, window, slice, values);
    return values;
  }

  static EvaluationOptions options(int64_t length, bool byDocument = false) {
    return {length, {.vocabulary = 100}, byDocument};
  }

  TemporaryDirectory directory;
  std::optional<TokenData> data;
};

TEST_F(EvaluationDataTest, TheLastWindowIsShorter) {
  EvaluationData all(counting(10), options(4));
  EXPECT_EQ(all.passages(), 1u);
  EXPECT_EQ(all.windowsOf(0), 3); // of 4, 4 and 1 targets
  BatchSlice two{0, 2, 0, 4, 2, 4};
  EXPECT_THAT(fill(all, SamplePart::Targets, 0, 0, two), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(fill(all, SamplePart::Tokens, 0, 2, two), ElementsAre(8, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(fill(all, SamplePart::Targets, 0, 2, two), ElementsAre(9, None, None, None, None, None, None, None));
}

TEST_F(EvaluationDataTest, FullWindowsLeaveNothing) {
  EvaluationData all(counting(9), options(4));
  EXPECT_EQ(all.windowsOf(0), 2);
}

TEST_F(EvaluationDataTest, EveryLayoutReadsTheSameWindows) {
  EvaluationData all(counting(10), options(4));
  // The second rank's row of two, the second half of its columns, in memory for five.
  EXPECT_THAT(fill(all, SamplePart::Targets, 0, 0, {1, 1, 2, 2, 1, 5}), ElementsAre(7, 8, None, None, None));
  EXPECT_THAT(fill(all, SamplePart::Tokens, 0, 1, {1, 1, 0, 2, 1, 2}), ElementsAre(8, 0));
  EXPECT_THAT(fill(all, SamplePart::Targets, 0, 1, {1, 1, 2, 2, 1, 2}), ElementsAre(None, None));
}

TEST_F(EvaluationDataTest, NoWindowReachesIntoAnotherDocument) {
  EvaluationData each(documents({5, 1, 0, 6}), options(4, true));
  ASSERT_EQ(each.passages(), 3u); // an empty document is none
  EXPECT_THAT((std::vector{each.tokensOf(0), each.tokensOf(1), each.tokensOf(2)}), ElementsAre(5, 1, 6));
  EXPECT_THAT((std::vector{each.windowsOf(0), each.windowsOf(1), each.windowsOf(2)}), ElementsAre(1, 0, 2));
  BatchSlice two{0, 2, 0, 4, 2, 4};
  EXPECT_THAT(fill(each, SamplePart::Targets, 0, 0, two), ElementsAre(1, 2, 3, 4, None, None, None, None));
  EXPECT_THAT(fill(each, SamplePart::Tokens, 2, 0, two), ElementsAre(6, 7, 8, 9, 10, 0, 0, 0));
  EXPECT_THAT(fill(each, SamplePart::Targets, 2, 0, two), ElementsAre(7, 8, 9, 10, 11, None, None, None));
}

TEST_F(EvaluationDataTest, SeparatedDocumentsInAWindow) {
  EvaluationData all(documents({3, 4}), {6, {100, /*separateDocuments=*/true}});
  BatchSlice one{0, 1, 0, 6, 1, 6};
  EXPECT_THAT(fill(all, SamplePart::Targets, 0, 0, one), ElementsAre(1, 2, None, 4, 5, 6));
  EXPECT_THAT(fill(all, SamplePart::DocumentStarts, 0, 0, one), ElementsAre(0, 0, 0, 3, 3, 3));
}

TEST_F(EvaluationDataTest, RefusesWhatHasNoLoss) {
  EXPECT_THAT([&] { EvaluationData(counting(1), options(4)); },
              ThrowsMessage<Error>(HasSubstr("it has 1 token, and a loss takes two")));
  EXPECT_THAT([&] { EvaluationData(counting(101), options(4)); },
              ThrowsMessage<Error>(HasSubstr("position 100 is 100")));
  EXPECT_THAT([&] { EvaluationData(counting(10), options(4, true)); },
              ThrowsMessage<Error>(HasSubstr("does not say where documents begin, which --by-document needs")));
}

} // namespace
