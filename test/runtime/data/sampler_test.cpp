#include "runtime/data/sampler.h"

#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "test/refusal.h"
#include "test/runtime/data/counting_file.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <map>
#include <numeric>
#include <set>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A file whose token i is i: a window shows where it was cut.
class SamplerTest : public testing::Test {
protected:
  const TokenData &counting(int tokens) {
    return file.emplace(std::vector{test::writeCounting(directory / "tokens.bin", tokens)});
  }

  TemporaryDirectory directory;
  std::optional<TokenData> file;
};

void fillTraining(const Sampler &sampler, int64_t position, const BatchSlice &slice, std::span<int32_t> tokens,
                  std::span<int32_t> targets) {
  sampler.fillTraining(SamplePart::Tokens, position, slice, tokens);
  sampler.fillTraining(SamplePart::Targets, position, slice, targets);
}

void fillValidation(const Sampler &sampler, int64_t position, const BatchSlice &slice, std::span<int32_t> tokens,
                    std::span<int32_t> targets) {
  sampler.fillValidation(SamplePart::Tokens, position, slice, tokens);
  sampler.fillValidation(SamplePart::Targets, position, slice, targets);
}

std::string refusal(const TokenData &data, const SamplerOptions &options, const TokenData *validation = nullptr) {
  return test::refusalOf([&] { Sampler sampler(data, options, validation); });
}

TEST(Permutation, VisitsEveryIndexOnceForEverySize) {
  for (uint64_t size : {1, 2, 3, 5, 16, 17, 1000}) {
    Permutation order(size, 42);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i)
      seen.insert(order(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
}

TEST(Permutation, DependsOnItsKey) {
  int same = 0;
  Permutation a(1000, 1), b(1000, 2);
  for (int i = 0; i < 1000; ++i)
    same += a(i) == b(i);
  EXPECT_LT(same, 20);
}

TEST_F(SamplerTest, TargetsFollowTheirTokens) {
  Sampler sampler(counting(100), {.sequenceLength = 4, .vocabulary = 100});
  std::vector<int32_t> tokens(8), targets(8);
  fillTraining(sampler, 0, {0, 2, 0, 4, 2, 4}, tokens, targets);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(targets[i], tokens[i] + 1);
  EXPECT_EQ(tokens[0] % 4, 0);
}

TEST_F(SamplerTest, UsesEverySampleOncePerEpochInAnotherOrder) {
  Sampler sampler(counting(4 * 25 + 3), {.sequenceLength = 4, .vocabulary = 1000, .seed = 7});
  ASSERT_EQ(sampler.trainingSamples(), 25);
  std::vector<std::vector<int>> epochs(2);
  std::vector<int32_t> tokens(40), targets(40);
  for (int batch = 0; batch < 5; ++batch) { // batches of 10 straddle the epochs of 25
    fillTraining(sampler, batch * 10, {0, 10, 0, 4, 10, 4}, tokens, targets);
    for (int row = 0; row < 10; ++row)
      epochs[(batch * 10 + row) / 25].push_back(tokens[row * 4]);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto &epoch : epochs)
    EXPECT_EQ(std::set<int>(epoch.begin(), epoch.end()).size(), 25u);
}

TEST_F(SamplerTest, EveryLayoutReadsTheSameGlobalBatch) {
  Sampler sampler(counting(1000), {.sequenceLength = 6, .vocabulary = 1000, .seed = 7});
  std::vector<int32_t> whole(48), targets(48);
  fillTraining(sampler, 16, {0, 8, 0, 6, 8, 6}, whole, targets);
  // Two micro-batches of four rows; two ranks split the rows and two the sequence.
  for (int micro = 0; micro < 2; ++micro)
    for (int rowRank = 0; rowRank < 2; ++rowRank)
      for (int columnRank = 0; columnRank < 2; ++columnRank) {
        std::vector<int32_t> part(6), partTargets(6);
        fillTraining(sampler, 16 + micro * 4, {rowRank * 2, 2, columnRank * 3, 3, 2, 3}, part, partTargets);
        for (int i = 0; i < 6; ++i) {
          int row = micro * 4 + rowRank * 2 + i / 3, column = columnRank * 3 + i % 3;
          EXPECT_EQ(part[i], whole[row * 6 + column]);
          EXPECT_EQ(partTargets[i], targets[row * 6 + column]);
        }
      }
}

TEST_F(SamplerTest, PaddingIsIgnored) {
  Sampler sampler(counting(100), {.sequenceLength = 3, .vocabulary = 100});
  std::vector<int32_t> tokens(8, 5), targets(8, 5);
  fillTraining(sampler, 0, {0, 1, 0, 3, 2, 4}, tokens, targets);
  EXPECT_EQ(targets[3], Sampler::Ignored);
  EXPECT_THAT(std::span(targets).subspan(4), Each(Sampler::Ignored));
  EXPECT_THAT(std::span(tokens).subspan(3), Each(0));
}

TEST_F(SamplerTest, HeldOutSamplesAreTheFilesEndAndNeverTrainedOn) {
  Sampler sampler(counting(100), {.sequenceLength = 4, .vocabulary = 100, .validationFraction = 0.2});
  ASSERT_EQ(sampler.validationSamples(), 4); // 20 tokens: windows at 80, 84, 88, 92
  std::vector<int32_t> tokens(12), targets(12);
  fillValidation(sampler, 3, {0, 3, 0, 4, 3, 4}, tokens, targets);
  EXPECT_THAT(std::span(tokens).first(4), ElementsAre(92, 93, 94, 95));
  EXPECT_THAT(std::span(targets).subspan(4), Each(Sampler::Ignored));
  for (int64_t sample = 0; sample < sampler.trainingSamples(); ++sample) {
    fillTraining(sampler, sample, {0, 1, 0, 4, 1, 4}, std::span(tokens).first(4), std::span(targets).first(4));
    EXPECT_LT(targets[3], 80);
  }
}

TEST_F(SamplerTest, RefusesDataTooShort) {
  EXPECT_THAT(refusal(counting(4), {.sequenceLength = 4, .vocabulary = 100}),
              AllOf(HasSubstr("tokens.bin"), HasSubstr("4 of 4 tokens"), HasSubstr("needs 5")));
  EXPECT_THAT(refusal(counting(40), {.sequenceLength = 4, .vocabulary = 100, .validationFraction = 0.05}),
              HasSubstr("held-out part has 2 of 40"));
  EXPECT_THAT(refusal(counting(0), {.sequenceLength = 4, .vocabulary = 100}), HasSubstr("0 of 0"));
}

TEST_F(SamplerTest, RefusesTokensOutsideTheVocabulary) {
  EXPECT_THAT(refusal(counting(50), {.sequenceLength = 4, .vocabulary = 49}), HasSubstr("position 49 is 49"));
}

/// Token files of the given sizes, whose tokens count on from one file to the next.
TokenData counting(const TemporaryDirectory &directory, const std::vector<int> &sizes) {
  std::vector<std::string> paths;
  uint16_t next = 0;
  for (int size : sizes) {
    std::vector<uint16_t> values(size);
    std::iota(values.begin(), values.end(), next);
    next += size;
    paths.push_back(directory / std::to_string(paths.size()));
    writeTokenFile(paths.back(), values);
  }
  return TokenData(paths);
}

std::vector<int32_t> trainingTargets(const Sampler &sampler, int64_t length) {
  std::vector<int32_t> targets(sampler.trainingSamples() * length);
  sampler.fillTraining(SamplePart::Targets, 0,
                       {0, sampler.trainingSamples(), 0, length, sampler.trainingSamples(), length}, targets);
  return targets;
}

TEST_F(SamplerTest, SeveralFilesAreOneSequence) {
  TokenData parts = ::counting(directory, {7, 0, 1, 30, 62});
  SamplerOptions options{.sequenceLength = 4, .vocabulary = 100, .validationFraction = 0.2, .seed = 3};
  Sampler whole(counting(100), options), sampler(parts, options);
  EXPECT_EQ(parts.size(), 100u);
  EXPECT_EQ(sampler.trainingSamples(), whole.trainingSamples());
  EXPECT_EQ(trainingTargets(sampler, 4), trainingTargets(whole, 4));
  std::vector<int32_t> a(16), b(16);
  for (SamplePart part : {SamplePart::Tokens, SamplePart::Targets}) {
    whole.fillValidation(part, 0, {0, 4, 0, 4, 4, 4}, a);
    sampler.fillValidation(part, 0, {0, 4, 0, 4, 4, 4}, b);
    EXPECT_EQ(a, b);
  }
}

TEST_F(SamplerTest, ValidationDataLeaveTheTrainingDataWhole) {
  TokenData validation = ::counting(directory, {9});
  Sampler sampler(counting(101), {.sequenceLength = 4, .vocabulary = 101, .validationFraction = 0.2}, &validation);
  EXPECT_EQ(sampler.trainingSamples(), 25);
  ASSERT_EQ(sampler.validationSamples(), 2);
  std::vector<int32_t> tokens(12);
  sampler.fillValidation(SamplePart::Tokens, 1, {0, 3, 0, 4, 3, 4}, tokens);
  EXPECT_THAT(tokens, ElementsAre(4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(refusal(counting(40), {.sequenceLength = 9, .vocabulary = 100}, &validation),
              HasSubstr("held-out part has 9 of 9"));
  EXPECT_THAT(refusal(counting(5), {.sequenceLength = 4, .vocabulary = 8}, &validation), HasSubstr("position 8 is 8"));
}

TEST_F(SamplerTest, MaskedTokensAreNoTargetsButStayInputs) {
  std::string marks(100, '\1');
  marks[17] = marks[40] = 0;
  counting(100); // writes the file
  directory.write("tokens.bin.mask", marks);
  TokenData data({directory / "tokens.bin"});
  EXPECT_TRUE(data.hasMask());
  EXPECT_EQ(data.counted(), 98u);
  Sampler sampler(data, {.sequenceLength = 4, .vocabulary = 100});
  std::vector<int32_t> targets = trainingTargets(sampler, 4);
  std::set<int> seen(targets.begin(), targets.end());
  EXPECT_EQ(std::ranges::count(targets, Sampler::Ignored), 2);
  EXPECT_FALSE(seen.contains(17) || seen.contains(40));
  EXPECT_TRUE(seen.contains(16) && seen.contains(18));
  std::vector<int32_t> tokens(100 - 4);
  sampler.fillTraining(SamplePart::Tokens, 0, {0, 24, 0, 4, 24, 4}, tokens);
  EXPECT_EQ(std::ranges::count(tokens, 17) + std::ranges::count(tokens, 40), 2);

  directory.write("tokens.bin.mask", std::string(100, '\0'));
  TokenData none({directory / "tokens.bin"});
  EXPECT_THAT(refusal(none, {.sequenceLength = 4, .vocabulary = 100}), HasSubstr("leaves no token that counts"));
}

} // namespace
