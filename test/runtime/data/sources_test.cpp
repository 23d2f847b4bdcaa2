// Mixtures: what --data states, and what a sampler makes of it.
#include "runtime/data/sources.h"

#include "runtime/data/sampler.h"
#include "runtime/data/token_writer.h"
#include "test/refusal.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr int64_t Length = 4;

TEST(Sources, AreFilesOrWeightsBeforeFiles) {
  std::vector<SourceFiles> one = parseSources({"a", "b"});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_THAT(one[0].files, ElementsAre("a", "b"));
  std::vector<SourceFiles> two = parseSources({"0.7", "a", "b", "3e-1", "./7"});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].weight, 0.7);
  EXPECT_EQ(two[1].weight, 0.3);
  EXPECT_THAT(two[0].files, ElementsAre("a", "b"));
  EXPECT_THAT(two[1].files, ElementsAre("./7"));
  EXPECT_THAT(filesOf(two), ElementsAre("a", "b", "./7"));
}

TEST(Sources, ThatMakeNoMixtureAreRefused) {
  auto said = [](const std::vector<std::string> &words) {
    return test::refusalOf([&] { parseSources(words); }, ExitCode::Usage);
  };
  EXPECT_THAT(said({"0.5", "0.5", "a"}), HasSubstr("no token file follows the weight 0.5 of source 1"));
  EXPECT_THAT(said({"0.5", "a", "2"}), HasSubstr("no token file follows the weight 2 of source 2"));
  EXPECT_THAT(said({"0", "a"}), HasSubstr("the weight of source 1 is 0; it must be a number above 0"));
  EXPECT_THAT(said({"1", "a", "-2", "b"}), HasSubstr("the weight of source 2 is -2"));
  EXPECT_THAT(said({"nan", "a"}), HasSubstr("is nan"));
  EXPECT_THAT(said({"inf", "a"}), HasSubstr("is inf"));
  EXPECT_THAT(said({"a", "0.5", "b"}), HasSubstr("'a' stands before the first weight, 0.5"));
}

/// Sources whose tokens show where they are from: source s has the tokens 1000 s, 1000 s + 1, ...
class MixtureTest : public testing::Test {
protected:
  std::vector<Source> sources(const std::vector<std::pair<double, int>> &weightsAndWindows) {
    std::vector<SourceFiles> all;
    for (auto [weight, windows] : weightsAndWindows) {
      std::vector<uint16_t> values(windows * Length + 1);
      std::iota(values.begin(), values.end(), static_cast<uint16_t>(1000 * all.size()));
      std::string path = directory / std::to_string(all.size());
      writeTokenFile(path, values);
      all.push_back({weight, {path}});
    }
    return openSources(all, std::nullopt);
  }

  static SamplerOptions options(double heldOut = 0) {
    return {.sequenceLength = Length, .vocabulary = 60000, .validationFraction = heldOut, .seed = 5};
  }

  /// The first token of each sample in [first, first + count).
  static std::vector<int> samples(const Sampler &sampler, int64_t first, int64_t count) {
    std::vector<int32_t> tokens(count * Length);
    sampler.fillTraining(SamplePart::Tokens, first, {0, count, 0, Length, count, Length}, tokens);
    std::vector<int> starts;
    for (int64_t i = 0; i < count; ++i)
      starts.push_back(tokens[i * Length]);
    return starts;
  }

  TemporaryDirectory directory;
};

TEST_F(MixtureTest, ProportionsAreExactInEachEpochAndEverySampleOfASourceComesInTurn) {
  std::vector<Source> mixed = sources({{0.5, 20}, {0.3, 30}, {0.2, 150}});
  Sampler sampler(mixed, options());
  ASSERT_EQ(sampler.trainingSamples(), 200);
  std::vector<int> epochs = samples(sampler, 0, 800);
  std::map<int, std::vector<int>> of; // each source's, in their order
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<int> counts(3);
    for (int i = 0; i < 200; ++i) {
      int token = epochs[epoch * 200 + i];
      ++counts[token / 1000];
      of[token / 1000].push_back(token);
    }
    EXPECT_THAT(counts, ElementsAre(100, 60, 40));
  }
  // A pass has each window once, in another order each time.
  for (auto [source, windows] : std::map<int, int>{{0, 20}, {1, 30}, {2, 150}}) {
    const std::vector<int> &used = of[source];
    for (size_t pass = 0; (pass + 1) * windows <= used.size(); ++pass)
      EXPECT_EQ(std::set<int>(used.begin() + pass * windows, used.begin() + (pass + 1) * windows).size(),
                size_t(windows));
    EXPECT_FALSE(std::is_sorted(used.begin(), used.begin() + std::min<size_t>(windows, used.size())));
  }
  EXPECT_NE(std::vector<int>(of[0].begin(), of[0].begin() + 20),
            std::vector<int>(of[0].begin() + 20, of[0].begin() + 40));
}

// A resumed run, another batch size, ranks with parts of the rows: all ask for positions.
TEST_F(MixtureTest, TheOrderIsTheSameHoweverItIsAskedFor) {
  std::vector<Source> mixed = sources({{3, 20}, {1, 30}});
  Sampler sampler(mixed, options()), again(mixed, options());
  std::vector<int> whole = samples(sampler, 0, 120);
  for (int64_t step : {1, 7, 16}) {
    std::vector<int> parts;
    for (int64_t first = 0; first < 120; first += step)
      for (int sample : samples(again, first, std::min(step, 120 - first)))
        parts.push_back(sample);
    EXPECT_EQ(parts, whole);
  }
}

TEST_F(MixtureTest, OneSourceIsWhatItsFilesAreWithoutAWeight) {
  std::vector<Source> mixed = sources({{0.25, 40}});
  Sampler weighted(mixed, options()), plain(mixed[0].data, options());
  EXPECT_EQ(samples(weighted, 0, 100), samples(plain, 0, 100));
}

TEST_F(MixtureTest, EachSourceHoldsOutItsEndAndEvaluationMixesThem) {
  std::vector<Source> mixed = sources({{0.9, 20}, {0.1, 40}});
  Sampler sampler(mixed, options(0.25));
  ASSERT_EQ(sampler.validationSamples(), 4 + 9);
  std::vector<int32_t> tokens(13 * Length);
  sampler.fillValidation(SamplePart::Tokens, 0, {0, 13, 0, Length, 13, Length}, tokens);
  std::set<int> seen;
  int second = 0;
  for (int i = 0; i < 13; ++i) {
    seen.insert(tokens[i * Length]);
    second += i < 6 && tokens[i * Length] >= 1000;
  }
  EXPECT_EQ(seen.size(), 13u);
  EXPECT_TRUE(second >= 3 && second <= 5) << "the first batches have both";
  for (int sample : samples(sampler, 0, 100))
    EXPECT_LT(sample % 1000, sample < 1000 ? 61 : 121);
}

TEST_F(MixtureTest, ASourceWithoutASampleIsRefused) {
  auto said = [](const std::vector<Source> &mixed) {
    return test::refusalOf([&] { Sampler(mixed, options()); }, ExitCode::BadInput);
  };
  EXPECT_THAT(said(sources({{1, 5}, {1, 0}})), HasSubstr("/1' is too short: its training part has 1 of 1 tokens"));
  EXPECT_THAT(said(sources({{1, 5}, {1e-6, 5}})),
              HasSubstr("/1': its weight 1e-06 gives it none of an epoch's 10 samples"));
}

TEST(DocumentStarts, AreColumnsWhereTheTokensDocumentBegins) {
  TemporaryDirectory directory;
  TokenFileWriter writer(directory / "a.bin", {.format = TokenFile::Format::Megatron});
  for (int length : {3, 6, 1, 7}) {
    writer.append(std::vector<uint16_t>(length, 1));
    writer.endDocument();
  }
  writer.publish();
  TokenData indexed({directory / "a.bin"});
  Sampler sampler(indexed, {.sequenceLength = 8, .vocabulary = 2}, &indexed);
  std::vector<int32_t> starts(2 * 8);
  sampler.fillValidation(SamplePart::DocumentStarts, 0, {0, 2, 0, 8, 2, 8}, starts);
  EXPECT_THAT(std::span(starts).first(8), ElementsAre(0, 0, 0, 3, 3, 3, 3, 3));
  EXPECT_THAT(std::span(starts).last(8), ElementsAre(0, 1, 2, 2, 2, 2, 2, 2)) << "begun in the window before";
  std::vector<int32_t> part(4);
  sampler.fillValidation(SamplePart::DocumentStarts, 0, {0, 1, 4, 3, 1, 4}, part);
  EXPECT_THAT(part, ElementsAre(3, 3, 3, 0)) << "a rank's columns, and one of padding";
  writeTokenFile(directory / "plain", std::vector<uint16_t>(17, 1));
  TokenData plain({directory / "plain"});
  Sampler(plain, {.sequenceLength = 8, .vocabulary = 2}, &plain)
      .fillValidation(SamplePart::DocumentStarts, 0, {0, 2, 0, 8, 2, 8}, starts);
  EXPECT_THAT(starts, Each(0));
}

} // namespace
