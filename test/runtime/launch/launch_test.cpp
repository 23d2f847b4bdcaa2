#include "runtime/comm/local/shared_memory.h"
#include "runtime/device/arena.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/supervisor.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "test/refusal.h"
#include "test/runtime/temporary_directory.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <functional>
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
  return refusalOf([&] { discover(variables); });
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

TEST(Rank, RefusesNonsense) {
  EXPECT_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), AllOf(HasSubstr("RANK"), HasSubstr("'x'")));
  EXPECT_THAT(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), HasSubstr("rank 4 of 4"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "5"}}), HasSubstr("5 of 4 ranks"));
  EXPECT_THAT(
      refusal(
          {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "p"}}),
      AllOf(HasSubstr("MASTER_PORT"), HasSubstr("'p'")));
  EXPECT_THAT(refusal({{"DTC_RANK", "0"}, {"DTC_WORLD", "2"}}), HasSubstr("DTC_RENDEZVOUS"));
  EXPECT_THAT(refusal({{"DTC_RANK", "0"}, {"DTC_WORLD", "2"}, {"DTC_RENDEZVOUS", "/home/me/thesis"}}),
              HasSubstr("'/home/me/thesis'"));
}

using Variables = std::map<std::string, std::string>;

TEST(Rank, OfSeveralHostsKnowsWhereAllMeet) {
  struct Case {
    Variables variables;
    const char *server;
    int localRank, localWorld;
  };
  Variables slurm = {{"SLURM_PROCID", "3"},
                     {"SLURM_NTASKS", "5"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_JOB_ID", "700"},
                     {"SLURM_STEP_ID", "2"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                     {"SLURM_STEP_NODELIST", "gpu-[03-05,7],other"}};
  Variables torch = {{"RANK", "3"},        {"WORLD_SIZE", "4"},     {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  Variables mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_NAMESPACE", "1"}};
  auto with = [](Variables variables, const Variables &more) {
    for (const auto &[name, value] : more)
      variables[name] = value;
    return variables;
  };
  EXPECT_THAT(refusal(mpi), AllOf(HasSubstr("mpirun spread the ranks over several hosts"), HasSubstr("DTC_SERVER")));
  for (const Case &each : {
           Case{torch, "a:29500", 1, 2},
           Case{with(torch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), "a:29501", 1, 2},
           Case{with(torch, {{"MASTER_ADDR", "::1"}}), "[::1]:29500", 1, 2},
           Case{with(torch, {{"DTC_SERVER", "b:1"}}), "b:1", 1, 2},
           Case{with(mpi, {{"MASTER_ADDR", "a"}}), "a:29400", 1, 2},
           Case{with(mpi, {{"PET_MASTER_ADDR", "a"}, {"PET_MASTER_PORT", "7"}}), "a:7", 1, 2},
           Case{slurm, "gpu-03:21202", 1, 2},
           Case{with(slurm, {{"SLURM_NODEID", "2"}, {"SLURM_STEP_NODELIST", "n1,n2"}}), "n1:21202", 1, 1},
           Case{{{"DTC_RANK", "3"},
                 {"DTC_WORLD", "4"},
                 {"DTC_LOCAL_RANK", "1"},
                 {"DTC_LOCAL_WORLD", "2"},
                 {"DTC_RENDEZVOUS", "/proc/self/fd/3"},
                 {"DTC_SERVER", "c:2"}},
                "c:2",
                1,
                2},
       }) {
    RankIdentity identity = discover(each.variables);
    EXPECT_EQ(identity.server, each.server);
    EXPECT_EQ(identity.localRank, each.localRank) << each.server;
    EXPECT_EQ(identity.localWorld, each.localWorld) << each.server;
    EXPECT_EQ(identity.hasServer, identity.launcher == "dtc run");
    EXPECT_TRUE(identity.hasSeveralHosts());
  }
  EXPECT_EQ(discover(with(torch, {{"TORCHELASTIC_RESTART_COUNT", "2"}})).generation, 2u);
}

TEST(Rank, OfOneHostNeedsNoServer) {
  EXPECT_FALSE(discover({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}})
                   .hasSeveralHosts());
}

/// The exit code; messages are printed, as `dtc run` does.
int codeOf(const SupervisorResult &result) {
  if (!result.words.empty())
    logError(result.words);
  return result.exitCode;
}

/// Supervises ranks that are shell scripts.
int supervise(const std::string &script, int ranks, int graceMilliseconds = 10000) {
  return codeOf(superviseRanks(
      {.command = {"/bin/sh", "-c", script}, .ranks = ranks, .grace = std::chrono::milliseconds(graceMilliseconds)}));
}

TEST(Supervisor, GivesEachRankItsNumber) {
  TemporaryDirectory directory;
  EXPECT_EQ(supervise("test -e \"$DTC_RENDEZVOUS\" && echo $DTC_WORLD > " + (directory / "rank") + "$DTC_RANK", 3), 0);
  for (const char *name : {"rank0", "rank1", "rank2"})
    EXPECT_EQ(readFile(directory / name), "3\n");
}

TEST(Supervisor, ReportsTheCauseAndNotItsConsequences) {
  testing::internal::CaptureStderr();
  // Ranks 0 and 2 end earlier, but only because they lost a peer.
  EXPECT_EQ(supervise("if [ $DTC_RANK = 1 ]; then sleep 0.2; exit 3; fi; exit 4", 3), 3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("rank 1 failed first, with exit code 3"));
}

TEST(Supervisor, SaysWhatTheRankDidThatFailedFirst) {
  auto wordsOf = [](const char *end) {
    std::string script = std::string("if [ $DTC_RANK = 1 ]; then sleep 0.2; ") + end + "; fi; exit 4";
    return superviseRanks({.command = {"/bin/sh", "-c", script}, .ranks = 3, .describeRank = [](int rank) {
                             return "it had stage " + std::to_string(rank) + " of the pipeline";
                           }}).words;
  };
  EXPECT_EQ(wordsOf("exit 3"), "rank 1 failed first, with exit code 3; it had stage 1 of the pipeline");
  EXPECT_EQ(wordsOf("kill -KILL $$"), "rank 1 was ended by signal 9 (Killed); it had stage 1 of the pipeline");
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

/// A supervisor that is a process of its own.
class Forked {
public:
  /// Its stderr goes to a file of the directory.
  Forked(const TemporaryDirectory &directory, const std::function<int()> &body) : errors(directory / "errors") {
    child = fork();
    if (child != 0)
      return;
    if (dup2(open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO) < 0)
      _exit(99);
    _exit(body());
  }
  ~Forked() {
    if (child > 0)
      ::kill(child, SIGKILL);
  }
  void send(int signal) const { kill(child, signal); }
  int join() {
    int status = 0;
    waitpid(child, &status, 0);
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string said() const { return readFile(errors); }

private:
  std::string errors;
  pid_t child;
};

void awaitFiles(const std::vector<std::string> &paths) {
  for (const std::string &path : paths)
    for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Two ranks that are a shell's, to their end.
int superviseTwo(const std::string &script, std::chrono::milliseconds grace, std::chrono::milliseconds stopGrace) {
  return codeOf(
      superviseRanks({.command = {"/bin/sh", "-c", script}, .ranks = 2, .grace = grace, .stopGrace = stopGrace}));
}

TEST(Supervisor, KillsWhatDoesNotStopAfterAForwardedSignal) {
  for (int signal : {SIGTERM, SIGHUP}) {
    TemporaryDirectory directory;
    Forked job(directory, [&] {
      // Rank 1 ignores its signal.
      std::string script = "if [ $DTC_RANK = 1 ]; then trap '' TERM HUP; else trap 'exit 143' TERM; trap 'exit 129' "
                           "HUP; fi; echo > " +
                           (directory / "ready") + "$DTC_RANK; while :; do sleep 0.02; done";
      return superviseTwo(script, std::chrono::seconds(60), std::chrono::milliseconds(300));
    });
    awaitFiles({directory / "ready0", directory / "ready1"});
    auto begin = std::chrono::steady_clock::now();
    job.send(signal);
    EXPECT_EQ(job.join(), 128 + signal);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_THAT(job.said(), HasSubstr("killed rank 1, which had not stopped 0.3 s after signal"));
  }
}

// A rank that is still writing its checkpoint is not cut off because another one has ended.
TEST(Supervisor, LetsRanksFinishAfterASignal) {
  TemporaryDirectory directory;
  Forked job(directory, [&] {
    std::string script = "trap 'if [ $DTC_RANK = 0 ]; then sleep 0.6; echo > " + (directory / "saved") +
                         "; fi; exit 143' TERM; echo > " + (directory / "ready") +
                         "$DTC_RANK; while :; do sleep 0.02; done";
    return superviseTwo(script, std::chrono::milliseconds(100), std::chrono::seconds(60));
  });
  awaitFiles({directory / "ready0", directory / "ready1"});
  job.send(SIGTERM);
  EXPECT_EQ(job.join(), 143);
  EXPECT_TRUE(std::filesystem::exists(directory / "saved"));
  EXPECT_EQ(job.said(), "");
}

TEST(Supervisor, LeavesAHangupIgnoredThatWasIgnored) {
  TemporaryDirectory directory;
  Forked job(directory, [&] {
    std::signal(SIGHUP, SIG_IGN); // as nohup does
    // If the signal were passed on, the ranks would outlive this grace period and be killed.
    std::string script = "trap 'exit 129' HUP; echo > " + (directory / "ready") + "$DTC_RANK; sleep 0.5";
    return superviseTwo(script, std::chrono::seconds(60), std::chrono::milliseconds(100));
  });
  awaitFiles({directory / "ready0", directory / "ready1"});
  job.send(SIGHUP);
  EXPECT_EQ(job.join(), 0);
}

/// Ranks that are this test's processes, under a supervisor that runs `rank` for each of them.
int superviseFunction(int ranks, const char *mode, int graceMilliseconds) {
  return codeOf(superviseRanks({.command = {"/proc/self/exe", "--rank", mode},
                                .ranks = ranks,
                                .grace = std::chrono::milliseconds(graceMilliseconds)}));
}

TEST(Supervisor, TellsRanksThatWaitOfOneThatDiesBeforeItJoins) {
  for (const char *mode : {"dies-before-joining", "leaves-before-joining"}) {
    TemporaryDirectory directory;
    auto begin = std::chrono::steady_clock::now();
    Forked job(directory, [&] { return superviseFunction(3, mode, 30000); });
    EXPECT_EQ(job.join(), 4);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << mode;
    EXPECT_THAT(job.said(), HasSubstr("dtc: error: rank 1 "));
    EXPECT_THAT(job.said(), HasSubstr(std::string("rank 1 was lost: it ") +
                                      (mode[0] == 'd' ? "was ended by signal 11" : "ended before it met its peers")));
  }
}

// Rank 0 ends first, silently, because rank 2 has the message; rank 2 takes its time to end.
TEST(Supervisor, NamesTheRankThatHasTheWords) {
  for (const char *mode : {"silent-then-words", "words-before-joining"}) {
    TemporaryDirectory directory;
    Forked job(directory, [&] { return superviseFunction(3, mode, 30000); });
    EXPECT_EQ(job.join(), 3) << mode;
    EXPECT_THAT(job.said(), HasSubstr("dtc: error: rank 2 failed first, with exit code 3: the data is bad")) << mode;
  }
}

TEST(Supervisor, RefusesACommandThatCannotBeRun) {
  try {
    superviseRanks({.command = {"/nonexistent/program"}, .ranks = 2});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/program"));
  }
}

/// One rank of superviseFunction: what main.cpp of a program does, with mistakes.
int runAsRank(const std::string &mode) {
  RankIdentity identity = discoverRank(processEnvironment());
  auto give = [&](const char *words) {
    reportFailure(identity.rendezvous, identity.localRank, identity.localWorld, identity.rank, words);
    return 3;
  };
  if (mode == "dies-before-joining" && identity.rank == 1) {
    std::signal(SIGSEGV, SIG_DFL); // a sanitizer would turn it into an exit code
    std::raise(SIGSEGV);
  }
  if (mode == "leaves-before-joining" && identity.rank == 1)
    return 0;
  if (mode == "words-before-joining" && identity.rank < 2)
    return give("");
  if (mode == "words-before-joining") {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return give("the data is bad");
  }
  try {
    Arena arena(4096, 0);
    auto communicator = connectSharedMemory({identity.rendezvous, identity.rank, identity.world}, arena);
    communicator->barrier();
    if (identity.rank < 2) {
      communicator.reset();
      return give("");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    communicator->poison("the data is bad");
    return 3;
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exitCode());
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "--rank")
    return runAsRank(argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
