#include "runtime/abi/error.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/supervisor.h"
#include "test/runtime/temporary_directory.h"

#include <chrono>
#include <csignal>
#include <gmock/gmock.h>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace dtc;
using namespace dtc::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

RankIdentity discover(const std::map<std::string, std::string> &variables) {
  return discoverRank([&](const char *name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const std::map<std::string, std::string> &variables) {
  try {
    discover(variables);
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    return error.what();
  }
  return "accepted";
}

TEST(Rank, IsFoundUnderEveryLauncher) {
  struct Case {
    std::map<std::string, std::string> variables;
    const char *launcher;
  };
  for (const Case &each : {
           Case{{{"DTC_RANK", "2"}, {"DTC_WORLD", "4"}, {"DTC_RENDEZVOUS", "/proc/self/fd/3"}}, "dtc run"},
           Case{{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "7.1"}}, "mpirun"},
           Case{{{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}}, "torchrun"},
           Case{{{"SLURM_PROCID", "2"},
                 {"SLURM_NTASKS", "4"},
                 {"SLURM_JOB_ID", "9"},
                 {"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_TASKS_PER_NODE", "4"}},
                "srun"},
       }) {
    RankIdentity identity = discover(each.variables);
    EXPECT_EQ(identity.rank, 2) << each.launcher;
    EXPECT_EQ(identity.world, 4) << each.launcher;
    EXPECT_EQ(identity.launcher, each.launcher);
    EXPECT_FALSE(identity.rendezvous.empty()) << each.launcher;
  }
}

TEST(Rank, IsAloneWithoutALauncherOrOutsideASlurmStep) {
  EXPECT_EQ(discover({}).world, 1);
  EXPECT_EQ(discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).world, 1);
}

TEST(Rank, MeetingPlacesDifferBetweenJobsAndSteps) {
  auto place = [](const char *job, const char *step) {
    return discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}})
        .rendezvous;
  };
  EXPECT_EQ(place("1", "0"), place("1", "0"));
  EXPECT_NE(place("1", "0"), place("1", "1"));
  EXPECT_NE(place("1", "0"), place("2", "0"));
  EXPECT_EQ(place("../x", "0").find(".."), std::string::npos);
}

TEST(Rank, RefusesNonsenseAndSeveralHosts) {
  EXPECT_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), AllOf(HasSubstr("RANK"), HasSubstr("'x'")));
  EXPECT_THAT(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), HasSubstr("rank 4 of 4"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}), HasSubstr("several hosts"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "0"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
              HasSubstr("several hosts"));
  EXPECT_THAT(refusal({{"DTC_RANK", "0"}, {"DTC_WORLD", "2"}}), HasSubstr("DTC_RENDEZVOUS"));
}

/// Supervises ranks that are shell scripts.
int supervise(const std::string &script, int ranks, int graceMilliseconds = 10000) {
  return superviseRanks({{"/bin/sh", "-c", script}, ranks, std::chrono::milliseconds(graceMilliseconds)});
}

TEST(Supervisor, GivesEachRankItsNumber) {
  TemporaryDirectory directory;
  EXPECT_EQ(supervise("test -e \"$DTC_RENDEZVOUS\" && echo $DTC_WORLD > " + (directory / "rank") + "$DTC_RANK", 3), 0);
  for (const char *name : {"rank0", "rank1", "rank2"})
    EXPECT_EQ(readFile(directory / name), "3\n");
}

TEST(Supervisor, ReportsTheCauseAndNotItsConsequences) {
  testing::internal::CaptureStderr();
  // Ranks 0 and 2 end earlier, but because they lost a peer.
  EXPECT_EQ(supervise("if [ $DTC_RANK = 1 ]; then sleep 0.2; exit 3; fi; exit 4", 3), 3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("rank 1 failed first, with exit code 3"));
}

TEST(Supervisor, CallsADeadRankALostPeer) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise("if [ $DTC_RANK = 1 ]; then kill -SEGV $$; fi; sleep 0.1; exit 4", 2), 4);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("rank 1 was ended by signal 11"));
}

TEST(Supervisor, KillsRanksThatOutliveAFailure) {
  testing::internal::CaptureStderr();
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(supervise("if [ $DTC_RANK = 0 ]; then exit 5; fi; exec sleep 60", 2, 100), 5);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  testing::internal::GetCapturedStderr();
}

TEST(Supervisor, ForwardsSignals) {
  TemporaryDirectory directory;
  pid_t child = fork();
  if (child == 0)
    _exit(supervise("trap 'exit 130' INT; echo > " + (directory / "ready") + "$DTC_RANK; while :; do sleep 0.02; done",
                    2));
  for (int i = 0;
       i < 500 && !(std::filesystem::exists(directory / "ready0") && std::filesystem::exists(directory / "ready1"));
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(child, SIGINT);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

TEST(Supervisor, RefusesACommandThatCannotBeRun) {
  try {
    superviseRanks({{"/nonexistent/program"}, 2});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/program"));
  }
}

} // namespace
