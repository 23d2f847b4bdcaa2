// What a rank keeps in memory, by the compiled plan.
#include "runtime/abi/element_type.h"
#include "test/e2e/compiled_model.h"

#include <numeric>
#include <set>

namespace dtc::test {
namespace {

// Bytes of state are its share of the parameters' and nothing more: every parameter of gpt-small divides by four.
TEST(Memory, OfStateIsWhatThePresetSplits) {
  struct Quarters { // of the parameters' bytes
    const char *strategy;
    uint64_t parameters, slots, gradients;
    int64_t accumulation = 1;
  };
  for (Quarters expected : {Quarters{"ddp", 4, 8, 4}, Quarters{"ddp", 4, 8, 4, 2}, Quarters{"zero1", 4, 2, 1},
                            Quarters{"zero1", 4, 2, 4 + 1, 2}, Quarters{"zero2", 4, 2, 1},
                            Quarters{"zero2", 4, 2, 1, 3}, Quarters{"zero3", 1, 2, 1}, Quarters{"hsdp:2", 2, 4, 2}}) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "dp=4",
                            .strategy = expected.strategy,
                            .accumulation = expected.accumulation,
                            .expect = false});
    ASSERT_TRUE(compiled.succeeded) << expected.strategy;
    uint64_t quarter = 0, largest = 0;
    for (const abi::Parameter &parameter : compiled.manifest.parameters()) {
      uint64_t bytes = sizeof(float);
      for (int64_t size : parameter.logical_shape())
        bytes *= static_cast<uint64_t>(size);
      quarter += bytes / 4;
      largest = std::max(largest, bytes);
    }
    std::map<std::string, uint64_t> bytes;
    for (const abi::MemoryUse &use : compiled.manifest.roles(0).memory())
      bytes[use.category()] = use.bytes();
    EXPECT_EQ(bytes["parameters"], expected.parameters * quarter) << expected.strategy;
    EXPECT_EQ(bytes["optimizer state"], expected.slots * quarter) << expected.strategy;
    EXPECT_EQ(bytes["gradients"], expected.gradients * quarter) << expected.strategy;
    // What is gathered or reduced is gone before the next layer: two matrices, a gradient, and what is small beside
    // them.
    EXPECT_LE(4 * bytes["communication buffers"], 13 * largest) << expected.strategy;
  }
}

/// Bytes in the arena.
struct Extent {
  uint64_t begin, end;
  bool overlaps(Extent other) const { return begin < other.end && other.begin < end; }
  uint64_t bytes() const { return end - begin; }
};

Extent extentOf(const abi::Tensor &tensor) {
  uint64_t elements =
      std::accumulate(tensor.local_shape().begin(), tensor.local_shape().end(), uint64_t(1), std::multiplies<>());
  return {tensor.offset(), tensor.offset() + abi::bytesOf(tensor.type(), elements)};
}

/// A parameter that a list gathers: whole from the start of the gather until it is read last.
struct Whole {
  const abi::Parameter *parameter;
  Extent place;
  int first;
  std::vector<int> readers; ///< commands
  bool isAliveAt(int command) const { return first <= command && !readers.empty() && command <= readers.back(); }
};

/// Follows a list's commands and notes which parameters are whole when. What is written elsewhere ends a value.
class WholeParameters {
public:
  WholeParameters(const abi::Manifest &manifest, const abi::CommandList &list, int64_t ranks)
      : manifest(manifest), ranks(ranks) {
    for (const abi::Command &command : list.commands()) {
      if (command.has_launch())
        follow(command.launch());
      else if (command.has_copy())
        write(
            {command.copy().output(), end(command.copy().output(), command.copy().type(), command.copy().elements())});
      else if (command.has_start())
        follow(command.start());
      ++position;
    }
    for (const Whole &whole : all)
      turns.insert(whole.readers.begin(), whole.readers.end());
  }

  std::vector<Whole> all;
  std::set<int> turns; ///< the commands that read gathered parameters

private:
  static uint64_t end(uint64_t begin, abi::DataType type, int64_t elements) {
    return begin + abi::bytesOf(type, static_cast<uint64_t>(elements));
  }

  void write(Extent place) {
    std::erase_if(current, [&](size_t index) { return all[index].place.overlaps(place); });
  }

  void follow(const abi::Launch &launch) {
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    for (int i = 0; i < launch.buffers_size(); ++i) {
      Extent place = {launch.buffers(i), launch.buffers(i) + launch.buffer_bytes(i)};
      for (size_t index : current)
        if (i < inputs && all[index].place.overlaps(place) &&
            (all[index].readers.empty() || all[index].readers.back() != position))
          all[index].readers.push_back(position);
    }
    for (int i = inputs; i < launch.buffers_size(); ++i)
      write({launch.buffers(i), launch.buffers(i) + launch.buffer_bytes(i)});
  }

  void follow(const abi::Collective &call) {
    bool grows = call.kind() == abi::Collective::ALL_GATHER;
    int64_t rows = call.outer() * call.chunk();
    write({call.output(), end(call.output(), call.type(), grows ? rows * ranks : rows)});
    EXPECT_NE(call.kind(), abi::Collective::ALL_TO_ALL) << "whose bytes are not counted here";
    if (!grows)
      return;
    for (const abi::Tensor &tensor : manifest.tensors())
      if (tensor.role() == abi::Tensor::PARAMETER && extentOf(tensor).overlaps({call.input(), call.input() + 1})) {
        current.push_back(all.size());
        all.push_back({&manifest.parameters(tensor.parameter()),
                       {call.output(), end(call.output(), call.type(), rows * ranks)},
                       position,
                       {}});
      }
  }

  const abi::Manifest &manifest;
  int64_t ranks;
  int position = 0;
  std::vector<size_t> current; ///< of `all`: what is in memory now
};

struct Peak {
  uint64_t bytes = 0; ///< of gathered parameters that are whole at a time
  size_t gathers = 0;
  uint64_t ahead = 0; ///< turns before its reader's at which a gather started, the most
};

/// Fails where something is whole that none of the next readers wants; says what is whole at most.
Peak expectWithinLimit(const WholeParameters &whole, uint64_t limit, const std::string &where) {
  Peak peak = {0, whole.all.size(), 0};
  std::vector<int> turns(whole.turns.begin(), whole.turns.end());
  for (size_t turn = 0; turn < turns.size(); ++turn) {
    uint64_t alive = 0;
    int last = turns[std::min(turn + limit, turns.size() - 1)];
    // From behind the reader before to this one: whatever is whole there, this or one of the next `limit` reads.
    for (const Whole &parameter : whole.all)
      for (int command = turn == 0 ? 0 : turns[turn - 1] + 1; command <= turns[turn]; ++command)
        if (parameter.isAliveAt(command)) {
          auto next = std::ranges::lower_bound(parameter.readers, turns[turn]);
          EXPECT_LE(*next, last) << where << ": " << parameter.parameter->name() << " is whole at command " << command
                                 << " and read at " << *next;
          alive += parameter.place.bytes();
          auto distance = std::ranges::lower_bound(turns, *next) - (turns.begin() + long(turn));
          peak.ahead = std::max(peak.ahead, uint64_t(distance));
          break;
        }
    peak.bytes = std::max(peak.bytes, alive);
  }
  return peak;
}

// A parameter that is stored in pieces is whole for its reader and a limited number of readers before that, and never
// from the forward to the backward pass.
TEST(GatheredParameters, AreWholeForAFewReadersOnly) {
  for (auto [strategy, accumulation] : {std::pair("zero3", 1), {"zero3", 2}, {"megatron-sp+zero3", 1}})
    for (const char *model : {"gpt-small", "llama-small"})
      for (uint64_t limit : {0, 1, 2, 5}) {
        CompiledModel compiled({.model = model,
                                .mesh = "dp=4",
                                .strategy = strategy,
                                .accumulation = accumulation,
                                .expect = false,
                                .gatherAhead = limit});
        ASSERT_TRUE(compiled.succeeded);
        uint64_t largest = 0, sum = 0;
        for (const abi::Parameter &parameter : compiled.manifest.parameters()) {
          uint64_t bytes = sizeof(float);
          for (int64_t size : parameter.logical_shape())
            bytes *= static_cast<uint64_t>(size);
          largest = std::max(largest, bytes);
          sum += bytes;
        }
        for (const abi::CommandList &list : compiled.manifest.roles(0).lists()) {
          std::string where =
              std::string(model) + " " + strategy + ", " + std::to_string(limit) + " ahead, " + list.name();
          Peak peak = expectWithinLimit(WholeParameters(compiled.manifest, list, 4), limit, where);
          if (list.name() == "update")
            continue;
          EXPECT_GE(peak.gathers, size_t(compiled.manifest.parameters_size())) << where;
          EXPECT_EQ(peak.ahead, limit) << where; // the limit is made use of
          EXPECT_LE(peak.bytes, (limit + 1) * largest) << where;
          EXPECT_LE(4 * peak.bytes, sum) << where;
        }
      }
}

} // namespace
} // namespace dtc::test
