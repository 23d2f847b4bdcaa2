#include "runtime/support/error.h"
#include "test/timing/cluster/mesh.h"
#include "timing/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace dtc::timing {
namespace {

using testing::HasSubstr;

const std::filesystem::path Examples = std::filesystem::path(DTC_SOURCE_DIR) / "examples/clusters";

TEST(ExampleClusters, AreSoundAndSayWhereTheirFiguresAreFrom) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(Examples)) {
    Cluster cluster = readCluster(entry.path());
    EXPECT_EQ(cluster.name(), entry.path().stem());
    EXPECT_FALSE(cluster.source().empty()) << entry.path();
    names.push_back(cluster.name());
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, testing::ElementsAre("dgx1_v100", "dgx_a100_superpod", "ethernet_cloud", "h100x512", "h100x8",
                                          "h200x8", "two_cores"));
}

TEST(ExampleClusters, HoldTheMeshesTheyAreNamedFor) {
  auto layout = [](const char *file, std::vector<std::pair<std::string, int64_t>> axes) {
    return Layout(readCluster(Examples / file), meshOf(axes)).ranks();
  };
  EXPECT_EQ(layout("dgx_a100_superpod.textproto", {{"dp", 64}, {"tp", 8}, {"pp", 8}}), 4096);
  EXPECT_EQ(layout("dgx_a100_superpod.textproto", {{"pp", 35}, {"dp", 12}, {"tp", 8}}), 3360);
  EXPECT_EQ(layout("h100x512.textproto", {{"dp", 64}, {"tp", 8}}), 512);
  EXPECT_EQ(layout("two_cores.textproto", {{"dp", 4}}), 4);
}

// Llama 3 (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days of 2048 nodes of eight H100.
TEST(ExampleClusters, NodesFailAsOftenAsPublished) {
  double published = 54.0 * 24 * 3600 * 2048 / 419;
  for (const char *file : {"h100x8.textproto", "h100x512.textproto"})
    EXPECT_NEAR(readCluster(Examples / file).failure_seconds() / published, 1, 0.01) << file;
  EXPECT_EQ(readCluster(Examples / "two_cores.textproto").failure_seconds(), 0) << "not known";
}

TEST(ReadCluster, SaysWhichFileIsNotThere) {
  try {
    readCluster("/nowhere/c.textproto");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/c.textproto"));
  }
}

} // namespace
} // namespace dtc::timing
