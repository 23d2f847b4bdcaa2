#include "runtime/comm/link_probe.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "runtime/support/error.h"
#include "runtime/support/now.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace dtc {

namespace {

constexpr int64_t LeastBytes = 64, MostBytes = LinkProbeBytes / 2;
constexpr int MostRounds = 9, LeastRounds = 3;
constexpr double EnoughSeconds = 1;
constexpr double Nano = 1e-9;

/// Something to measure: a collective of that kind, or a message.
struct Probe {
  std::string name; ///< as in cluster files
  Group group;
  double bytes = 0;                         ///< of the payload
  std::optional<abi::Command> command = {}; ///< nullopt: this rank takes no part
};

/// Operands are at the start of the arena, results after the largest operand.
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

abi::Command message(int64_t bytes, bool sends) {
  abi::Command command;
  abi::Transfer &transfer = sends ? *command.mutable_send() : *command.mutable_recv();
  transfer.set_shift(sends ? 1 : -1);
  transfer.set_type(abi::F32);
  transfer.set_elements(bytes / abi::elementType(abi::F32).bytes);
  transfer.set_buffer(sends ? 0 : MostBytes);
  return command;
}

std::vector<Probe> probesOf(int rank, int ranks) {
  constexpr int64_t Step = 4;
  Group everybody, ends{{0, ranks - 1}, rank == 0 ? 0 : 1};
  everybody.ranks.resize(static_cast<size_t>(ranks));
  std::iota(everybody.ranks.begin(), everybody.ranks.end(), 0);
  everybody.self = rank;
  int64_t unit = int64_t(ranks) * abi::elementType(abi::F32).bytes; // sizes are multiples of this, so that all ranks
                                                                    // have equal parts
  std::vector<Probe> probes;
  for (int64_t bytes = LeastBytes; bytes <= MostBytes; bytes *= Step) {
    int64_t whole = std::max(bytes / unit * unit, unit);
    for (auto [name, kind] :
         {std::pair("all_reduce", abi::Collective::ALL_REDUCE), std::pair("all_gather", abi::Collective::ALL_GATHER),
          std::pair("reduce_scatter", abi::Collective::REDUCE_SCATTER),
          std::pair("all_to_all", abi::Collective::ALL_TO_ALL), std::pair("broadcast", abi::Collective::BROADCAST)})
      if (whole <= MostBytes)
        probes.push_back({name, everybody, static_cast<double>(whole), collective(kind, whole, ranks)});
    Probe &sent = probes.emplace_back(Probe{"send", ends, static_cast<double>(bytes)});
    if (rank == 0 || rank == ranks - 1)
      sent.command = message(bytes, rank == 0);
  }
  return probes;
}

/// Work for a rank to compute while data moves: in its core's cache, some ten microseconds at a time.
class Computation {
public:
  Computation() : factors(Elements, 0.5F), values(Elements, 1.F) {}

  /// Computes `times` times and returns the seconds taken.
  double run(int64_t times) {
    int64_t begin = now();
    for (int64_t time = 0; time < times; ++time)
      for (size_t i = 0; i < Elements; ++i)
        values[i] = values[i] * factors[i] + 1;
    return Nano * static_cast<double>(now() - begin);
  }

  /// The seconds that it takes now, because clock rates change. Averages over `times` runs, or fewer within some
  /// milliseconds.
  double secondsOfOne(int64_t times) {
    int64_t tried = std::min<int64_t>(times, 2000);
    return run(tried) / static_cast<double>(tried);
  }

private:
  static constexpr size_t Elements = 32 << 10;
  std::vector<float> factors, values;
};

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// How far this rank's clock is ahead of the first rank's, in nanoseconds. A message one way gives an upper bound, a
/// message back a lower bound; the shortest trips give the tightest bounds (Cristian 1989).
int64_t aheadOfFirst(Communicator &communicator) {
  constexpr int Trips = 30;
  int64_t there = std::numeric_limits<int64_t>::max(), back = there;
  for (int trip = 0; trip < Trips; ++trip) {
    std::vector<int64_t> sent = communicator.exchange(now());
    int64_t received = now();
    there = std::min(there, received - sent[0]);
    back = std::min(back, communicator.exchange(received)[0] - sent[static_cast<size_t>(communicator.rank())]);
  }
  return (there - back) / 2;
}

/// The probe of that name whose size comes first.
template <typename First> const Probe &find(const std::vector<Probe> &probes, const std::string &name, First first) {
  const Probe *found = nullptr;
  for (const Probe &probe : probes)
    if (probe.name == name && (!found || first(probe.bytes, found->bytes)))
      found = &probe;
  return *found;
}

class Measurement {
public:
  explicit Measurement(Communicator &communicator) : communicator(communicator), ahead(aheadOfFirst(communicator)) {}

  MeasuredMove measure(const Probe &probe) {
    once(probe); // connects the members, and touches the memory
    double seconds = medianOf([&] { return once(probe); });
    return {probe.name, probe.group.size(), probe.bytes, seconds,
            std::max(0.0, medianOf([&] { return onceBeside(probe, seconds); }))};
  }

  /// A small all-gather while a large all-reduce moves.
  MeasuredMove measureLoaded(const Probe &small, const Probe &large) {
    std::vector<double> seconds;
    for (int round = 0; round < MostRounds; ++round) {
      communicator.barrier();
      CommandHandle under = communicator.start(large.group, *large.command);
      communicator.handOver();
      seconds.push_back(once(small));
      communicator.wait(under);
    }
    return {"loaded", small.group.size(), small.bytes, median(seconds), 0};
  }

private:
  template <typename Once> double medianOf(Once once) {
    std::vector<double> all;
    int64_t begin = now();
    auto isEnough = [&] {
      return all.size() >= LeastRounds && communicator.exchange(now() - begin)[0] * Nano >= EnoughSeconds;
    };
    while (all.size() < MostRounds && !isEnough())
      all.push_back(once());
    return median(std::move(all));
  }

  /// The seconds from the arrival of the last rank to the end on the last.
  double once(const Probe &probe) {
    communicator.barrier();
    CommandTimes times = probe.command ? communicator.run(probe.group, *probe.command) : CommandTimes{};
    std::vector<int64_t> begins = communicator.exchange(times.begin - ahead),
                         ends = communicator.exchange(times.end - ahead);
    int64_t begin = std::numeric_limits<int64_t>::min(), end = begin;
    for (int rank : probe.group.ranks) {
      begin = std::max(begin, begins[static_cast<size_t>(rank)]);
      end = std::max(end, ends[static_cast<size_t>(rank)]);
    }
    return Nano * static_cast<double>(end - begin);
  }

  /// How many seconds longer a rank's computation takes while `probe` moves: the mean over the ranks. Alone, the probe
  /// takes `seconds`.
  double onceBeside(const Probe &probe, double seconds) {
    constexpr double Longer = 1.5; // than the move alone, because computing slows the move down in turn
    auto times = static_cast<int64_t>(std::ceil(Longer * seconds / computation.secondsOfOne(1))) + 1;
    double alone = computation.secondsOfOne(times) * static_cast<double>(times);
    communicator.barrier();
    double lost = probe.command ? secondsBeside(probe, times) - alone : 0;
    double sum = 0;
    for (std::vector<int64_t> all = communicator.exchange(std::llround(lost / Nano)); int rank : probe.group.ranks)
      sum += Nano * static_cast<double>(all[static_cast<size_t>(rank)]);
    return sum / probe.group.size();
  }

  /// The seconds for `times` computations, from the start of the move until its end.
  double secondsBeside(const Probe &probe, int64_t times) {
    int64_t begin = now();
    CommandHandle moving = communicator.start(probe.group, *probe.command);
    communicator.handOver();
    computation.run(times);
    int64_t end = now();
    communicator.wait(moving);
    return Nano * static_cast<double>(end - begin);
  }

  Communicator &communicator;
  int64_t ahead;
  Computation computation;
};

} // namespace

std::vector<MeasuredMove> probeLinks(Communicator &communicator) {
  Measurement measurement(communicator);
  std::vector<MeasuredMove> moves;
  std::vector<Probe> probes = probesOf(communicator.rank(), communicator.size());
  for (const Probe &probe : probes)
    moves.push_back(measurement.measure(probe));
  Probe small = find(probes, "all_gather", std::less<>()), large = find(probes, "all_reduce", std::greater<>());
  small.group.channel = large.group.channel + 1;
  measurement.measure(small); // connects that channel
  moves.push_back(measurement.measureLoaded(small, large));
  return moves;
}

std::string writeMoves(const std::vector<MeasuredMove> &moves) {
  nlohmann::json all = nlohmann::json::array();
  for (const MeasuredMove &move : moves)
    all.push_back({move.collective, move.ranks, move.bytes, move.seconds, move.processorSeconds});
  return all.dump();
}

std::vector<MeasuredMove> readMoves(const std::string &text) {
  try {
    std::vector<MeasuredMove> moves;
    for (const nlohmann::json &move : nlohmann::json::parse(text))
      moves.push_back({move.at(0), move.at(1), move.at(2), move.at(3), move.at(4)});
    return moves;
  } catch (const nlohmann::json::exception &) {
    throw Error("the ranks' measurements of their links cannot be read: were files of different dtc versions mixed?");
  }
}

} // namespace dtc
