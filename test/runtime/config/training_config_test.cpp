// The training file is strict: every name and value is checked, and an error names the place and the right name.
#include "runtime/config/training_config.h"
#include "runtime/support/error.h"

#include "runtime/abi/optimizers.h"
#include "test/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace dtc;
using testing::HasSubstr;

namespace {

class TrainingConfigTest : public testing::Test {
protected:
  void SetUp() override {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    path = std::filesystem::temp_directory_path() / ("dtc_" + std::string(info->name()) + ".toml");
  }
  void TearDown() override { std::filesystem::remove(path); }

  dtc::abi::Training read(const std::string &text, const std::vector<std::string> &assignments = {}) {
    std::ofstream(path) << text;
    return readTraining(path, assignments);
  }
  std::string error(ExitCode code, const std::string &text, const std::vector<std::string> &assignments = {}) {
    return test::refusalOf([&] { read(text, assignments); }, code);
  }
  std::string fileError(const std::string &text) { return error(ExitCode::BadInput, text); }
  std::string setError(const std::string &assignment) { return error(ExitCode::Usage, "", {assignment}); }

  std::string path;
};

TEST_F(TrainingConfigTest, ReadsEverySetting) {
  dtc::abi::Training training =
      read("[training]\nsteps = 7\nseed = 3\n[optimizer]\noptimizer = 'sgd'\nlearning_rate = 1\n"
           "[model]\ndropout = 0.25\n");
  EXPECT_EQ(training.steps(), 7);
  EXPECT_EQ(training.seed(), 3u);
  EXPECT_EQ(training.optimizer(), "sgd");
  EXPECT_EQ(training.learning_rate(), 1.0);
  EXPECT_EQ(training.dropout(), 0.25);
  EXPECT_EQ(training.accumulation(), 1) << "not set: the default";
}

// A program holds its own optimizer's settings, and those of others that somebody has changed: all of them are shown.
TEST_F(TrainingConfigTest, SettingsBelongToAnOptimizer) {
  auto held = [](const dtc::abi::Training &training) {
    std::vector<std::pair<std::string, double>> all;
    for (const dtc::abi::Setting &setting : training.optimizer_settings())
      all.emplace_back(setting.key(), setting.value());
    return all;
  };
  using Settings = std::vector<std::pair<std::string, double>>;
  Settings adamw = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}, {"nesterov", 0}};
  EXPECT_EQ(held(defaultTraining()), adamw);
  EXPECT_EQ(held(read("", {"momentum=0.9"})), adamw) << "as it would be anyway";
  EXPECT_EQ(held(read("[optimizer]\nmomentum = 0.5\nweight_decay = 0\n", {"optimizer=sgd"})),
            (Settings{{"weight_decay", 0}, {"momentum", 0.5}}));
  dtc::abi::Training other = read("", {"beta2=0.5", "optimizer=sgd"});
  EXPECT_EQ(held(other), (Settings{{"beta2", 0.5}, {"weight_decay", 0.1}, {"momentum", 0.9}}));
  EXPECT_THAT(printTraining(other), HasSubstr("beta1 = 0.9\nbeta2 = 0.5\nepsilon = 1e-08\nweight_decay = 0.1\nnesterov = 0.0\n"
                                              "momentum = 0.9\nclip_norm = 1.0\n"));
  EXPECT_EQ(dtc::abi::settingOf(other, "beta1"), 0.9);
  EXPECT_EQ(dtc::abi::settingOf(other, "beta2"), 0.5);
}

TEST_F(TrainingConfigTest, AssignmentsComeAfterTheFile) {
  dtc::abi::Training training =
      read("[training]\nsteps = 7\n", {"training.steps=8", "steps=9", "schedule=linear", "learning_rate=1e-2"});
  EXPECT_EQ(training.steps(), 9);
  EXPECT_EQ(training.schedule(), "linear");
  EXPECT_EQ(training.learning_rate(), 1e-2);
}

TEST_F(TrainingConfigTest, PrintedSettingsReadBack) {
  dtc::abi::Training training =
      read("", {"steps=9", "model.dropout=0", "optimizer=sgd", "learning_rate=1e-05", "seed=12"});
  EXPECT_EQ(read(printTraining(training)).SerializeAsString(), training.SerializeAsString());
  EXPECT_EQ(read(printTraining(defaultTraining())).SerializeAsString(), defaultTraining().SerializeAsString());
}

TEST_F(TrainingConfigTest, UnknownNamesSuggestTheNearest) {
  EXPECT_THAT(fileError("[training]\n\nstep = 7\n"), HasSubstr(":3: unknown key 'step' in section [training]"));
  EXPECT_THAT(fileError("[training]\nstep = 7\n"), HasSubstr("did you mean 'training.steps'?"));
  EXPECT_THAT(fileError("[optimiser]\n"), HasSubstr("did you mean 'optimizer'?"));
  EXPECT_THAT(fileError("learning_rat = 1\n"), HasSubstr("did you mean 'learning_rate'?"));
  EXPECT_THAT(setError("step=7"), HasSubstr("did you mean 'steps'?"));
  EXPECT_THAT(setError("training.stepz=7"), HasSubstr("did you mean 'training.steps'?"));
}

TEST_F(TrainingConfigTest, ValuesAreCheckedAndShown) {
  EXPECT_THAT(fileError("[training]\nglobal_batch = 0\n"), HasSubstr(":2: training.global_batch must be a whole"));
  EXPECT_THAT(fileError("[training]\nsteps = 1.5\n"), HasSubstr("is 1.5"));
  EXPECT_THAT(fileError("[training]\nsteps = 'many'\n"), HasSubstr("training.steps must be a whole number"));
  EXPECT_THAT(fileError("[optimizer]\nbeta1 = 1.0\n"), HasSubstr("optimizer.beta1 must be a number in [0, 1)"));
  EXPECT_THAT(fileError("[optimizer]\nlearning_rate = nan\n"), HasSubstr("optimizer.learning_rate"));
  EXPECT_THAT(fileError("[optimizer]\noptimizer = 'adam'\n"), HasSubstr("did you mean 'adamw'?"));
  EXPECT_THAT(fileError("[model]\ndropout = -1\n"), HasSubstr("model.dropout must be a number in [0, 1)"));
  EXPECT_THAT(fileError("[precision]\ncompute = 'fp16'\n"),
              HasSubstr(":2: precision.compute must be one of \"f32\", \"bf16\", \"f16\""));
  EXPECT_THAT(setError("precision.gradients=f64"), HasSubstr("precision.gradients must be one of \"f32\", \"bf16\""));
  EXPECT_THAT(setError("steps=-1"), HasSubstr("at least 0"));
  EXPECT_THAT(setError("steps"), HasSubstr("write key=value"));
}

TEST_F(TrainingConfigTest, DamagedFilesNameTheLine) {
  EXPECT_THAT(fileError("[training]\nsteps = \n"), HasSubstr(":2: "));
  EXPECT_THAT(fileError("[training]\nsteps = 1\nsteps = 2\n"), HasSubstr(":3: "));
  EXPECT_THAT(fileError("training = 3\n"), HasSubstr("write [training]"));
  EXPECT_THAT(test::refusalOf([] { readTraining("no/such/file.toml", {}); }), HasSubstr("no/such/file.toml"));
}

/// Parts of a key or brackets, many times.
std::string repeat(const std::string &text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

// toml++ destroys tables of dotted keys recursively: thousands of parts once caused a segmentation fault.
TEST_F(TrainingConfigTest, DepthIsLimited) {
  EXPECT_THAT(fileError("[training]\n" + repeat("a.", 50000) + "a = 1\n"),
              HasSubstr(":2: a dotted key has more than 16 parts"));
  EXPECT_THAT(fileError("\n\n[" + repeat("a . ", 50000) + "a]\n"),
              HasSubstr(":3: a dotted key has more than 16 parts"));
  EXPECT_THAT(fileError("x = " + repeat("{a.a.a = ", 17)), HasSubstr(":1: brackets are nested more than 16 deep"));
  EXPECT_THAT(fileError(std::string((1 << 20) + 1, '#')), HasSubstr("at most 1048576 are accepted"));
  EXPECT_THAT(setError("steps=" + repeat("[", 50000)), HasSubstr("must be a whole number"));
}

// Whatever hides a quote from the scanner, it finds the deep key after it.
TEST_F(TrainingConfigTest, DepthIsFoundBehindStringsAndComments) {
  std::string deep = "\n" + repeat("a.", 50000) + "a = 1\n";
  for (const char *before : {"# \"", "a = \"#\"", "a = '\\'", "a = \"\\\"\"", "a = \"\"\"\n\"\"\"\"\"", "a = '''\n''''",
                             "a = \"\"\"\\\"\"\"\"", "a = \"\" # '", "\"a\".'b' = ''"})
    EXPECT_THAT(fileError(before + deep), HasSubstr("a dotted key has more than 16 parts")) << before;
}

TEST_F(TrainingConfigTest, DotsInStringsAndNumbersAreNoDepth) {
  read("# " + repeat("a.", 100) + "\n[optimizer]\nlearning_rate = 0.5 # " + repeat("[", 100) + "\n");
  EXPECT_THAT(fileError("[optimizer]\noptimizer = \"" + repeat("a.", 100) + "\"\n"), HasSubstr("must be one of"));
  EXPECT_THAT(fileError("[optimizer]\noptimizer = [" + repeat("1.5, ", 100) + "1]\n"), HasSubstr("must be one of"));
}

TEST_F(TrainingConfigTest, OnlyRegularFilesAreRead) {
  EXPECT_THAT(test::refusalOf([] { readTraining(std::filesystem::temp_directory_path(), {}); }),
              HasSubstr("not a regular file"));
}

TEST_F(TrainingConfigTest, SettingsMustAgree) {
  EXPECT_THAT(fileError("[training]\nglobal_batch = 8\naccumulation = 3\n"), HasSubstr("not divisible"));
  EXPECT_THAT(fileError("[schedule]\nminimum_learning_rate = 1.0\n"), HasSubstr("exceeds optimizer.learning_rate"));
}

std::string changeError(ExitCode code, const std::vector<std::string> &assignments) {
  dtc::abi::Training training = defaultTraining();
  return test::refusalOf([&] { changeTraining(training, assignments); }, code);
}

/// A compiled program accepts the same words for what it can still change, and reports that the rest is compiled in.
TEST_F(TrainingConfigTest, ProgramsTakeTheSameAssignments) {
  for (const SettingValue &setting : listSettings(readTraining("", {"dropout=0.1"})))
    for (const std::string &name : {setting.key, setting.section + "." + setting.key}) {
      dtc::abi::Training training = defaultTraining();
      std::string assignment = name + "=" + setting.value;
      try {
        changeTraining(training, {assignment});
        EXPECT_EQ(training.SerializeAsString(), readTraining("", {assignment}).SerializeAsString()) << assignment;
      } catch (const Error &error) {
        EXPECT_EQ(error.exitCode(), ExitCode::Usage);
        EXPECT_THAT(error.what(), HasSubstr("it is compiled in; a compiled program can still change steps, seed"));
      }
    }
  dtc::abi::Training training = defaultTraining();
  changeTraining(training, {"training.steps=4", "steps=1_000", "optimizer.learning_rate=1"});
  EXPECT_EQ(training.steps(), 1000);
  EXPECT_EQ(training.learning_rate(), 1.0);
  EXPECT_THAT(changeError(ExitCode::Usage, {"stepz=4"}), HasSubstr("did you mean 'steps'?"));
  EXPECT_THAT(changeError(ExitCode::Usage, {"learning_rate=nan"}), HasSubstr("must be a number"));
  EXPECT_THAT(changeError(ExitCode::Usage, {"optimizer.beta1=0.5"}), HasSubstr("compiled in"));
  EXPECT_THAT(changeError(ExitCode::BadInput, {"minimum_learning_rate=1"}), HasSubstr("exceeds"));
}

TEST_F(TrainingConfigTest, AnAssignmentNamesItsSetting) {
  EXPECT_TRUE(assignsSetting({"steps=3", "seed=1"}, "seed"));
  EXPECT_TRUE(assignsSetting({"training.seed=1"}, "seed"));
  EXPECT_FALSE(assignsSetting({"training.steps=3"}, "seed"));
  EXPECT_FALSE(assignsSetting({}, "seed"));
}

/// The page names what a compiled program can still change, and nothing else.
TEST_F(TrainingConfigTest, TheDocumentationSaysWhatIsCompiledIn) {
  std::ifstream file(DTC_SOURCE_DIR "/docs/configuration.md");
  std::string page((std::istreambuf_iterator<char>(file)), {});
  size_t begin = page.find("`--set key=value` accepts"), end = page.find(";", begin);
  ASSERT_NE(end, std::string::npos);
  std::string sentence = page.substr(begin, end - begin);
  for (const SettingValue &setting : listSettings(readTraining("", {"dropout=0.1"}))) {
    bool isOpen = changeError(ExitCode::Usage, {setting.key + "=" + setting.value}) == "no error";
    EXPECT_EQ(sentence.find("`" + setting.key + "`") != std::string::npos, isOpen) << setting.key;
  }
}

/// The file that docs/configuration.md shows has every setting, at its default.
TEST_F(TrainingConfigTest, TheDocumentationShowsEveryDefault) {
  std::ifstream file(DTC_SOURCE_DIR "/docs/configuration.md");
  std::string page((std::istreambuf_iterator<char>(file)), {});
  std::string opening = "```toml\n";
  size_t begin = page.find(opening), end = page.find("\n```\n", begin);
  ASSERT_NE(end, std::string::npos);
  std::string shown = page.substr(begin + opening.size(), end - begin - opening.size() + 1);
  EXPECT_EQ(printTraining(read(shown)), printTraining(defaultTraining()));

  // Dropout has no default of its own: it is shown in a comment.
  std::istringstream lines(printTraining(readTraining("", {"dropout=0.1"})));
  for (std::string line; std::getline(lines, line);)
    EXPECT_THAT(shown, HasSubstr(line.starts_with("dropout") ? "# " + line : line));
}

} // namespace
