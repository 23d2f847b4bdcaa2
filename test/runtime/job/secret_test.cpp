#include "runtime/job/secret.h"

#include "test/refusal.h"
#include "test/runtime/temporary_directory.h"

#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <sys/stat.h>

using namespace dtc;
using namespace dtc::job;
using dtc::test::TemporaryDirectory;
using testing::HasSubstr;

namespace {

Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char *name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string refusal(const Environment &environment) {
  return test::refusalOf([&] { readToken(environment); });
}

std::string write(const TemporaryDirectory &directory, const std::string &text, mode_t mode) {
  std::string path = directory / "token";
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

TEST(Token, IsTheSameFromFileAndEnvironment) {
  TemporaryDirectory directory;
  std::string path = write(directory, "0123456789abcdef\n", 0600);
  EXPECT_EQ(readToken(with({{"DTC_TOKEN", "0123456789abcdef"}})), readToken(with({{"DTC_TOKEN_FILE", path}})));
  EXPECT_NE(readToken(with({{"DTC_TOKEN", "0123456789abcdeF"}})), readToken(with({{"DTC_TOKEN_FILE", path}})));
}

TEST(Token, IsRefusedWhereOthersMayKnowIt) {
  TemporaryDirectory directory;
  EXPECT_THAT(refusal(with({})), HasSubstr("there is none"));
  EXPECT_THAT(refusal(with({{"DTC_TOKEN", "short"}})), HasSubstr("5 characters"));
  EXPECT_THAT(refusal(with({{"DTC_TOKEN_FILE", directory / "none"}})), HasSubstr("No such file"));
  EXPECT_THAT(refusal(with({{"DTC_TOKEN_FILE", directory / ""}})), HasSubstr("yours alone"));
  EXPECT_THAT(refusal(with({{"DTC_TOKEN_FILE", write(directory, "0123456789abcdef", 0640)}})), HasSubstr("chmod 600"));
  EXPECT_THAT(refusal(with({{"DTC_TOKEN_FILE", write(directory, std::string(5000, 'a'), 0600)}})),
              HasSubstr("4096 at most"));
}

TEST(Token, NewOnesDiffer) {
  EXPECT_NE(newToken(), newToken());
  EXPECT_EQ(newToken().size(), 2 * KeyBytes);
}

TEST(KeyedHash, DependsOnEachOfItsArguments) {
  Key key = {}, other = {};
  other[31] = 1;
  EXPECT_EQ(keyedHash(key, "a", "b"), keyedHash(key, "a", "b"));
  EXPECT_NE(keyedHash(key, "a", "b"), keyedHash(other, "a", "b"));
  EXPECT_NE(keyedHash(key, "a", "b"), keyedHash(key, "ab", ""));
  EXPECT_NE(keyedHash(key, "a", "b"), keyedHash(key, "a", "c"));
}

} // namespace
