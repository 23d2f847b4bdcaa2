#include "tools/dtc/forecast/LinkProbe.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/comm/shared_memory.h"
#include "runtime/device/arena.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtc {

namespace {

constexpr int64_t LeastBytes = 64, MostBytes = int64_t(16) << 20;
constexpr int Rounds = 9;

/// Something to measure: a collective of that kind, or a message.
struct Probe {
  std::string name; ///< as cluster files have it
  int64_t bytes;    ///< of the payload
  abi::Command command;
};

/// Operands lie at the arena's begin, results behind the largest operand.
abi::Command collective(abi::Collective::Kind kind, int64_t bytes, int ranks) {
  bool isWhole = kind == abi::Collective::ALL_REDUCE || kind == abi::Collective::BROADCAST;
  abi::Command command;
  abi::Collective &start = *command.mutable_start();
  start.set_kind(kind);
  start.set_type(abi::F32);
  start.set_outer(1);
  start.set_middle(1);
  start.set_chunk(bytes / abi::elementType(abi::F32).bytes / (isWhole ? 1 : ranks));
  start.set_split_first(true);
  start.set_output(MostBytes);
  return command;
}

/// The first rank sends to the second.
abi::Command message(int64_t bytes, int rank) {
  abi::Command command;
  abi::Transfer &transfer = rank == 0 ? *command.mutable_send() : *command.mutable_recv();
  transfer.set_shift(rank == 0 ? 1 : -1);
  transfer.set_type(abi::F32);
  transfer.set_elements(bytes / abi::elementType(abi::F32).bytes);
  transfer.set_buffer(rank == 0 ? 0 : MostBytes);
  return command;
}

std::vector<Probe> probes(int ranks, int rank) {
  constexpr int64_t Step = 4;
  std::vector<Probe> all;
  for (int64_t bytes = LeastBytes; bytes <= MostBytes; bytes *= Step) {
    for (auto [name, kind] :
         {std::pair("all_reduce", abi::Collective::ALL_REDUCE), std::pair("all_gather", abi::Collective::ALL_GATHER),
          std::pair("reduce_scatter", abi::Collective::REDUCE_SCATTER),
          std::pair("all_to_all", abi::Collective::ALL_TO_ALL), std::pair("broadcast", abi::Collective::BROADCAST)})
      all.push_back({name, bytes / ranks * ranks, collective(kind, bytes / ranks * ranks, ranks)});
    if (ranks == 2) // others have nothing to do in it
      all.push_back({"send", bytes, message(bytes, rank)});
  }
  return all;
}

/// What ranks tell: a time for each probe, round and rank.
class Board {
public:
  Board(size_t probes, int ranks)
      : ranks(ranks), bytes(probes * Rounds * static_cast<size_t>(ranks) * sizeof(CommandTimes)) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error("no memory for what ranks measure");
    times = static_cast<CommandTimes *>(memory);
  }
  ~Board() { munmap(times, bytes); }
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;

  CommandTimes &at(size_t probe, int round, int rank) const {
    return times[(probe * Rounds + static_cast<size_t>(round)) * static_cast<size_t>(ranks) +
                 static_cast<size_t>(rank)];
  }
  /// The median, in seconds.
  double secondsOf(size_t probe) const {
    std::vector<int64_t> all;
    for (int round = 0; round < Rounds; ++round) {
      int64_t begin = 0, end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        begin = std::max(begin, at(probe, round, rank).begin);
        end = std::max(end, at(probe, round, rank).end);
      }
      all.push_back(end - begin);
    }
    std::ranges::nth_element(all, all.begin() + Rounds / 2);
    return 1e-9 * static_cast<double>(all[Rounds / 2]);
  }

private:
  int ranks;
  size_t bytes;
  CommandTimes *times;
};

void runRank(int rank, int ranks, const std::string &path, const Board &board) {
  Arena arena(2 * MostBytes, 0);
  std::unique_ptr<Communicator> communicator = connectSharedMemory({.path = path, .rank = rank, .size = ranks}, arena);
  Group everybody;
  for (int member = 0; member < ranks; ++member)
    everybody.ranks.push_back(member);
  everybody.self = rank;
  std::vector<Probe> all = probes(ranks, rank);
  for (size_t probe = 0; probe < all.size(); ++probe)
    for (int round = -1; round < Rounds; ++round) { // the first one touches the memory
      communicator->barrier();
      CommandTimes times = communicator->run(everybody, all[probe].command);
      if (round >= 0)
        board.at(probe, round, rank) = times;
    }
  communicator->barrier();
}

} // namespace

std::vector<MeasuredMove> probeLinks(int ranks) {
  Rendezvous rendezvous(ranks);
  std::vector<Probe> all = probes(ranks, 0);
  Board board(all.size(), ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child < 0)
      throw Error("cannot start a process to measure links with");
    if (child == 0) {
      try {
        runRank(rank, ranks, rendezvous.path(), board);
        _exit(0);
      } catch (const std::exception &error) {
        fmt::print(stderr, "{}\n", error.what());
        _exit(1);
      }
    }
    children.push_back(child);
  }
  bool hasFailed = false;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    hasFailed |= status != 0;
  }
  if (hasFailed)
    throw Error("ranks of this host could not exchange data; what they say is above");
  std::vector<MeasuredMove> moves;
  for (size_t probe = 0; probe < all.size(); ++probe)
    moves.push_back({all[probe].name, ranks, static_cast<double>(all[probe].bytes), board.secondsOf(probe)});
  return moves;
}

} // namespace dtc
