// How much memory a rank needs, by the compiled plan.
#include "runtime/abi/element_type.h"
#include "runtime/abi/tensors.h"
#include "test/e2e/compiled_model.h"

#include <numeric>
#include <set>

namespace dtc::test {
namespace {

/// Each tensor begins on a cache line.
uint64_t lines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of one parameter's elements of `width` bytes, split over `shards` ranks: along the first dimension that
/// divides evenly, or else along the longest, in pieces of which the last may be padded.
uint64_t pieceBytes(const abi::Parameter &parameter, uint64_t shards, uint64_t width) {
  uint64_t elements = 1, longest = 0;
  bool divides = shards == 1;
  for (int64_t dimension : parameter.logical_shape()) {
    auto size = static_cast<uint64_t>(dimension);
    elements *= size;
    longest = std::max(longest, size);
    divides |= size % shards == 0;
  }
  return lines(width * (divides ? elements / shards : elements / longest * ((longest + shards - 1) / shards)));
}

/// What a strategy divides by how many ranks. Under zero1, reduced gradients are stored next to the whole ones where
/// these are accumulated; otherwise gradients are stored once.
struct Shards {
  const char *mesh, *strategy;
  uint64_t parameters, slots, gradients;
  bool accumulatesWhole = false;
};

struct Precision {
  const char *compute, *gradients;
};

void PrintTo(const Shards &shards, std::ostream *out) { *out << shards.mesh << " " << shards.strategy; }

class StateBytes : public testing::TestWithParam<std::tuple<const char *, Shards>> {
protected:
  void expectFormula(Precision precision, int64_t accumulation);
};

void StateBytes::expectFormula(Precision precision, int64_t accumulation) {
  auto [model, shards] = GetParam();
  CompiledModel compiled({.model = model,
                          .mesh = shards.mesh,
                          .strategy = shards.strategy,
                          .accumulation = accumulation,
                          .batch = 12,
                          .expect = false,
                          .compute = precision.compute,
                          .gradients = precision.gradients});
  ASSERT_TRUE(compiled.succeeded);
  bool isF16 = std::string(precision.compute) == "f16", travelsNarrow = std::string(precision.gradients) != "f32";
  std::map<std::string, uint64_t> expected;
  for (const abi::Parameter &parameter : compiled.manifest.parameters()) {
    expected["parameters"] += pieceBytes(parameter, shards.parameters, 4);
    expected["optimizer state"] += 2 * pieceBytes(parameter, shards.slots, 4);
    expected["gradients"] += pieceBytes(parameter, shards.gradients, accumulation == 1 && travelsNarrow ? 2 : 4);
    if (accumulation > 1 && shards.accumulatesWhole)
      expected["gradients"] += pieceBytes(parameter, 1, 4);
  }
  uint64_t ranks = shards.mesh[3] - '0', rows = 12 / ranks * 8 * 4; // of 8 tokens of 4 bytes
  uint64_t inputs = 4 + isF16;                                      // key, rate, two corrections; the loss scale
  uint64_t outputs = 7;                                             // of the step five and of the evaluation two
  uint64_t accumulated = accumulation > 1 ? 2 : 0;                  // this rank's sum of losses, and of tokens
  uint64_t squares = static_cast<uint64_t>(compiled.manifest.parameters_size()) * 4;
  expected["inputs and outputs"] = 2 * lines(rows) + 64 * (inputs + outputs + accumulated) + lines(squares);

  std::map<std::string, uint64_t> bytes;
  uint64_t sum = 0;
  for (const abi::MemoryUse &use : compiled.manifest.roles(0).memory()) {
    bytes[use.category()] = use.bytes();
    sum += use.bytes();
  }
  for (const auto &[category, number] : expected)
    EXPECT_EQ(bytes[category], number) << category;
  EXPECT_EQ(sum, compiled.manifest.roles(0).arena_bytes());
}

// Bytes of state are the stated widths over the stated shards, in any precision: parameters and both moments in 32
// bits, accumulated gradients in 32 bits, those of a step of one micro-batch in the type in which they travelled.
// Inputs and outputs are a cache line each, except for the rows and the sums of squares.
TEST_P(StateBytes, AreTheWidthsOverTheShards) {
  for (Precision precision :
       {Precision{"f32", "f32"}, {"f32", "bf16"}, {"bf16", "f32"}, {"bf16", "bf16"}, {"f16", "f32"}, {"f16", "f16"}})
    for (int64_t accumulation : {1, 2}) {
      SCOPED_TRACE(std::string(precision.compute) + " " + precision.gradients + " " + std::to_string(accumulation));
      expectFormula(precision, accumulation);
    }
}

constexpr Shards allShards[] = {{"dp=4", "ddp", 1, 1, 1},     {"dp=4", "zero1", 1, 4, 4, true},
                                {"dp=4", "zero2", 1, 4, 4},   {"dp=4", "zero3", 4, 4, 4},
                                {"dp=4", "hsdp:2", 2, 2, 2},  {"dp=3", "zero1", 1, 3, 3, true},
                                {"dp=3", "zero2", 1, 3, 3},   {"dp=3", "zero3", 3, 3, 3},
                                {"cp=4", "cp", 1, 1, 1},      {"cp=4", "zero1+cp", 1, 4, 4, true},
                                {"cp=4", "zero3+cp", 4, 4, 4}};
std::string nameOfState(const testing::TestParamInfo<StateBytes::ParamType> &info) {
  auto [model, shards] = info.param;
  std::string name = std::string(model) + "_" + shards.mesh + "_" + shards.strategy;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Presets, StateBytes,
                         testing::Combine(testing::Values("gpt-small", "llama-small"), testing::ValuesIn(allShards)),
                         nameOfState);

// What is gathered or reduced is freed before the next layer: two matrices, a gradient, and small tensors.
TEST(Communication, NeedsAFewMatrices) {
  for (const char *strategy : {"ddp", "zero1", "zero2", "zero3", "hsdp:2"}) {
    CompiledModel compiled({.model = "gpt-small", .mesh = "dp=4", .strategy = strategy, .expect = false});
    ASSERT_TRUE(compiled.succeeded) << strategy;
    uint64_t largest = 0;
    for (const abi::Parameter &parameter : compiled.manifest.parameters())
      largest = std::max(largest, pieceBytes(parameter, 1, 4));
    for (const abi::MemoryUse &use : compiled.manifest.roles(0).memory())
      if (use.category() == "communication buffers") {
        EXPECT_LE(4 * use.bytes(), 13 * largest) << strategy;
      }
  }
}

// Accumulated gradients are rounded and sent as soon as the backward pass has them: they do not pile up until its end,
// where they would take four bytes per element, or two in the type in which they travel.
TEST(Communication, OfAccumulatedGradientsDoesNotWaitForTheEnd) {
  for (const char *strategy : {"ddp", "zero1", "zero2", "zero3", "hsdp:2"})
    for (Precision precision : {Precision{"f32", "bf16"}, {"bf16", "bf16"}, {"f16", "f16"}}) {
      CompiledModel compiled({.model = "gpt-small",
                              .mesh = "dp=4",
                              .strategy = strategy,
                              .accumulation = 2,
                              .expect = false,
                              .compute = precision.compute,
                              .gradients = precision.gradients});
      ASSERT_TRUE(compiled.succeeded) << strategy;
      uint64_t sum = 0, temporary = 0;
      for (const abi::Parameter &parameter : compiled.manifest.parameters())
        sum += pieceBytes(parameter, 1, 2);
      for (const abi::MemoryUse &use : compiled.manifest.roles(0).memory())
        if (use.category() == "communication buffers" || use.category() == "activations and workspace")
          temporary += use.bytes();
      EXPECT_LT(temporary, sum) << strategy << " " << precision.compute << " " << precision.gradients;
    }
}

/// Addresses of one address space.
struct Extent {
  uint64_t begin, end;
  bool overlaps(Extent other) const { return begin < other.end && other.begin < end; }
  uint64_t bytes() const { return end - begin; }
};

Extent extentOf(const abi::Tensor &tensor) { return {tensor.address(), tensor.address() + abi::bytesOf(tensor)}; }

/// A parameter that a list gathers: whole from the start of the gather until its last reader.
struct Whole {
  const abi::Parameter *parameter;
  Extent place;
  int first;
  std::vector<int> readers; ///< commands
  bool isAliveAt(int command) const { return first <= command && !readers.empty() && command <= readers.back(); }
};

/// Follows a list's commands and notes which parameters are whole when. Other writes to its memory end a value.
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
    std::erase_if(copies, [&](const auto &copy) { return copy.second.first.overlaps(place); });
  }

  void follow(const abi::Launch &launch) {
    int inputs = static_cast<int>(manifest.kernels(static_cast<int>(launch.kernel())).inputs());
    const abi::Tensor *converted = inputs == 1 && launch.buffers_size() == 2 ? parameterAt(launch.buffers(0)) : nullptr;
    for (int i = 0; i < launch.buffers_size(); ++i) {
      Extent place = {launch.buffers(i), launch.buffers(i) + launch.buffer_bytes(i)};
      for (size_t index : current)
        if (i < inputs && all[index].place.overlaps(place) &&
            (all[index].readers.empty() || all[index].readers.back() != position))
          all[index].readers.push_back(position);
    }
    for (int i = inputs; i < launch.buffers_size(); ++i)
      write({launch.buffers(i), launch.buffers(i) + launch.buffer_bytes(i)});
    if (converted)
      copies[launch.buffers(1)] = {{launch.buffers(1), launch.buffers(1) + launch.buffer_bytes(1)}, converted};
  }

  void follow(const abi::Collective &call) {
    bool grows = call.kind() == abi::Collective::ALL_GATHER;
    int64_t rows = call.outer() * call.chunk();
    write({call.output(), end(call.output(), call.type(), grows ? rows * ranks : rows)});
    EXPECT_NE(call.kind(), abi::Collective::ALL_TO_ALL) << "whose bytes are not counted here";
    if (!grows)
      return;
    if (const abi::Tensor *tensor = parameterAt(call.input())) {
      current.push_back(all.size());
      all.push_back({&manifest.parameters(tensor->parameter()),
                     {call.output(), end(call.output(), call.type(), rows * ranks)},
                     position,
                     {}});
    }
  }

  /// The parameter whose bytes are at an address, or its 16-bit copy. Null: something else.
  const abi::Tensor *parameterAt(uint64_t address) const {
    for (const abi::Tensor &tensor : manifest.roles(0).tensors())
      if (tensor.kind() == abi::Tensor::PARAMETER && extentOf(tensor).overlaps({address, address + 1}))
        return &tensor;
    auto copy = copies.find(address);
    return copy == copies.end() ? nullptr : copy->second.second;
  }

  const abi::Manifest &manifest;
  int64_t ranks;
  int position = 0;
  std::vector<size_t> current; ///< of `all`: what is in memory now
  std::map<uint64_t, std::pair<Extent, const abi::Tensor *>>
      copies; ///< of stored parameters, converted; by their begins
};

struct Peak {
  uint64_t bytes = 0; ///< of gathered parameters that are whole at a time
  size_t gathers = 0;
  uint64_t ahead = 0; ///< the most turns by which a gather started before its reader's turn
};

/// Fails where a parameter is whole that none of the next readers needs; returns the maximum that is whole.
Peak expectWithinLimit(const WholeParameters &whole, uint64_t limit, const std::string &where) {
  Peak peak = {0, whole.all.size(), 0};
  std::vector<int> turns(whole.turns.begin(), whole.turns.end());
  for (size_t turn = 0; turn < turns.size(); ++turn) {
    uint64_t alive = 0;
    int last = turns[std::min(turn + limit, turns.size() - 1)];
    // From after the reader before to this one: every parameter whole there is read here or by one of the next `limit`
    // readers.
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

// A parameter that is stored in pieces is whole for its reader and for a limited number of readers before that, and
// never from the forward to the backward pass.
TEST(GatheredParameters, AreWholeForAFewReadersOnly) {
  struct Case {
    const char *strategy;
    int64_t accumulation;
    const char *compute;
  };
  for (auto [strategy, accumulation, compute] : {Case{"zero3", 1, "f32"}, {"zero3", 2, "f32"}, {"zero3", 1, "bf16"}})
    for (const char *model : {"gpt-small", "llama-small"})
      for (uint64_t limit : {0, 1, 2, 5}) {
        CompiledModel compiled({.model = model,
                                .mesh = "dp=4",
                                .strategy = strategy,
                                .accumulation = accumulation,
                                .expect = false,
                                .compute = compute,
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
        for (const abi::CommandList &list : compiled.manifest.lists()) {
          std::string where = std::string(model) + " " + strategy + " " + compute + ", " + std::to_string(limit) +
                              " ahead, " + list.name();
          Peak peak = expectWithinLimit(WholeParameters(compiled.manifest, list, 4), limit, where);
          if (list.name() == "update")
            continue;
          EXPECT_GE(peak.gathers, size_t(compiled.manifest.parameters_size())) << where;
          EXPECT_EQ(peak.ahead, limit) << where; // the limit is reached
          EXPECT_LE(peak.bytes, (limit + 1) * largest) << where;
          EXPECT_LE(4 * peak.bytes, sum) << where;
        }
      }
}

} // namespace
} // namespace dtc::test
