// Attention by a stand-in for cuDNN, against the processor's: random sizes, layouts and places; and launches that cuDNN
// does not support.
#include "runtime/kernels/cuda/attention.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/fused_gradient.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/support/error.h"
#include "test/gpu/variable.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <random>

namespace dtc::cuda {
namespace {

using dtc::test::Variable;

using testing::HasSubstr;

constexpr uint64_t WorkspaceBytes = 1 << 20;

/// Elements of a whole buffer, at a multiple of 256 bytes.
struct Memory {
  struct alignas(256) Block {
    std::byte bytes[256];
  };

  abi::DataType type = abi::F32;
  int64_t count = 0;
  std::vector<Block> blocks = {};

  Memory(abi::DataType type, int64_t count)
      : type(type), count(count), blocks(abi::bytesOf(type, uint64_t(count)) / sizeof(Block) + 1) {}

  std::byte *at(int64_t i) { return blocks[0].bytes + abi::bytesOf(type, uint64_t(i)); }
  double read(int64_t i) { return abi::readElement(abi::elementType(type), at(i)); }
  void write(int64_t i, double value) {
    double rounded = abi::roundTo(abi::elementType(type), value);
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(rounded));
    if (type == abi::I32)
      bits = uint32_t(value);
    else if (type != abi::F32)
      bits = type == abi::BF16 ? bits >> 16 : std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
    std::memcpy(at(i), &bits, abi::elementType(type).bytes);
  }
};

/// What determines a launch.
struct Shape {
  abi::DataType type = abi::BF16;
  int64_t batches = 2, queries = 9, keys = 9, groups = 2, repeats = 1, width = 16;
  int64_t causal = 2; ///< as in runtime/abi/library/attention.h
  double dropout = 0;
  int64_t window = 0;
  double softcap = 0;
};

/// Buffers and scalars of both directions.
class Problem {
public:
  Problem(const Shape &shape, std::mt19937 &random) : shape(shape), random(random) {
    scalars = {shape.batches, shape.queries, shape.keys, shape.groups, shape.repeats, shape.width};
    int64_t q = addStrides(false), k = addStrides(true), v = addStrides(true), out = addStrides(false);
    scalars.insert(scalars.end(), {std::bit_cast<int64_t>(0.9 / std::sqrt(double(shape.width))), shape.causal,
                                   std::bit_cast<int64_t>(shape.dropout), 17, 0, 0, 0, shape.groups, shape.repeats,
                                   70000, shape.type, shape.window, std::bit_cast<int64_t>(shape.softcap), 0});
    int64_t dOut = addStrides(false), dq = addStrides(false), dk = addStrides(true), dv = addStrides(true);
    for (auto [count, scale] : {std::pair(q, 2.0), std::pair(k, 2.0), std::pair(v, 1.0)})
      addRandom(shape.type, count, scale);
    for (int64_t count : {shape.queries, shape.keys}) {
      Memory &positions = buffers.emplace_back(abi::I32, count);
      for (int64_t i = 0; i < count; ++i)
        positions.write(i, double(3 + i));
    }
    addRandom(abi::I32, 4, 0);
    addRandom(shape.type, out, 1);
    addRandom(abi::F32, shape.batches * shape.groups * shape.repeats * shape.queries, 1);
    for (int64_t count : {dOut, dq, dk, dv})
      addRandom(shape.type, count, 1);
  }

  std::vector<void *> addresses(bool backward) {
    std::vector<void *> result;
    for (size_t i = 0; i < (backward ? 12U : 8U); ++i)
      result.push_back(buffers[i].at(0));
    return result;
  }
  std::span<const int64_t> scalarsOf(bool backward) const { return std::span(scalars).first(backward ? 48 : 34); }

  Shape shape;
  std::vector<Memory> buffers;
  std::vector<int64_t> scalars;

private:
  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); }

  /// Positions or heads first, with gaps after rows; heads of queries at equal distances.
  int64_t addStrides(bool isKeys) {
    int64_t rows = isKeys ? shape.keys : shape.queries, repeats = isKeys ? 1 : shape.repeats;
    int64_t row = shape.width + 8 * between(0, 1), r = row, g = 0, s = row, b = 0;
    if (between(0, 1))
      r = s * rows, g = r * repeats, b = g * shape.groups;
    else
      g = r * repeats, s = g * shape.groups, b = s * rows;
    b += 8 * between(0, 1);
    scalars.insert(scalars.end(), {b, s, g});
    if (!isKeys)
      scalars.push_back(r);
    return b * shape.batches;
  }
  void addRandom(abi::DataType type, int64_t count, double scale) {
    Memory &memory = buffers.emplace_back(type, count);
    for (int64_t i = 0; i < count; ++i)
      memory.write(i, scale * std::normal_distribution<double>()(random));
  }

  std::mt19937 &random;
};

constexpr const char *forward = "dtc_cuda_attention_forward$bf16_16_causal_2x9x9x2x1",
                     *backward = "dtc_cuda_attention_backward$bf16_16_causal_2x9x9x2x1";

class FusedAttention : public testing::Test {
protected:
  bool launch(Attention &attention, Problem &problem, bool isBackward, bool mayPrepare = true) {
    return attention.tryLaunch(isBackward ? backward : forward, context, problem.addresses(isBackward),
                               problem.scalarsOf(isBackward), mayPrepare);
  }

  /// Runs a direction on copies of the buffers by the processor, on the buffers themselves by cuDNN.
  void expectMatch(Attention &attention, Problem &problem, bool isBackward) {
    Problem others = problem;
    std::span<const int64_t> scalars = problem.scalarsOf(isBackward);
    int64_t grid = problem.shape.batches * problem.shape.groups * (isBackward ? 1 : problem.shape.repeats);
    kernels::find(isBackward ? "dtc_attention_backward" : "dtc_attention_forward")(others.addresses(isBackward).data(),
                                                                                   scalars.data(), 0, grid);
    ASSERT_TRUE(launch(attention, problem, isBackward)) << testing::PrintToString(attention.takeNotes());
    for (size_t i = 0; i < (isBackward ? 12U : 8U); ++i) {
      double ulp = std::ldexp(1.0, -abi::elementType(problem.buffers[i].type).fractionBits);
      double errors = 0, squares = 0;
      for (int64_t j = 0; j < problem.buffers[i].count; ++j) {
        double value = problem.buffers[i].read(j), expected = others.buffers[i].read(j);
        // Probabilities, and gradients of scores, are rounded before they are multiplied: see GpuTiles.h.
        ASSERT_NEAR(value, expected, (5 * ulp + 2e-5) * std::max(1.0, std::abs(expected)))
            << "element " << j << " of buffer " << i;
        errors += (value - expected) * (value - expected);
        squares += expected * expected;
      }
      EXPECT_LE(std::sqrt(errors), (ulp + 1e-5) * std::sqrt(squares + double(problem.buffers[i].count) * 1e-2))
          << "buffer " << i;
    }
  }

  /// Why cuDNN does not support a launch of that shape; empty: it does.
  std::string whyNot(Problem problem, bool isBackward = false, int architecture = 90) {
    Attention attention(architecture);
    if (launch(attention, problem, isBackward))
      return "";
    std::vector<std::string> notes = attention.takeNotes();
    return notes.empty() ? "nothing was said" : notes.back();
  }

  std::mt19937 random{5};
  alignas(256) std::byte workspace[WorkspaceBytes];
  LibraryContext context{nullptr, reinterpret_cast<DevicePointer>(workspace), WorkspaceBytes};
};

TEST_F(FusedAttention, IsTheProcessors) {
  Attention attention(90);
  for (int trial = 0; trial < 40; ++trial) {
    auto between = [&](int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); };
    Shape shape{between(0, 1) ? abi::BF16 : abi::F16,
                between(1, 2),
                between(2, 40),
                0,
                between(1, 3),
                between(1, 3),
                8 * between(1, 5),
                2 * between(0, 1)};
    shape.keys = shape.causal ? shape.queries : between(2, 40);
    Problem problem(shape, random);
    SCOPED_TRACE("trial " + std::to_string(trial));
    expectMatch(attention, problem, false);
    if (HasFatalFailure())
      return;
    expectMatch(attention, problem, true);
    if (HasFatalFailure())
      return;
  }
}

// An engine that may give different bits each time is listed first, and does.
TEST_F(FusedAttention, GivesEqualBitsEachTime) {
  Attention attention(90);
  Problem problem({}, random), again = problem;
  for (Problem *each : {&problem, &again})
    for (bool isBackward : {false, true})
      ASSERT_TRUE(launch(attention, *each, isBackward));
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    for (int64_t j = 0; j < problem.buffers[i].count; ++j)
      ASSERT_EQ(problem.buffers[i].read(j), again.buffers[i].read(j)) << "element " << j << " of buffer " << i;
}

TEST_F(FusedAttention, SaysWhatIsNotItsOwn) {
  auto of = [&](auto change) {
    Shape shape;
    change(shape);
    return Problem(shape, random);
  };
  EXPECT_EQ(whyNot(of([](Shape &) {})), "");
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.type = abi::F32; })), HasSubstr("not bf16 or f16"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.dropout = 0.1; })), HasSubstr("dropout"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.window = 4; })), HasSubstr("window"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.softcap = 30; })), HasSubstr("soft cap"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.width = 12; })), HasSubstr("multiple of 8"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.width = 136; })), HasSubstr("128 at most"));
  EXPECT_THAT(whyNot(of([](Shape &shape) { shape.queries = 1, shape.causal = 0; })), HasSubstr("less than two"));
}

// Positions that are not indices, or are those of pieces of a sequence: masks by index would differ.
TEST_F(FusedAttention, IsNotCausalByPositionsThatMayBeAny) {
  for (bool isBackward : {false, true}) {
    EXPECT_THAT(whyNot(Problem(Shape{.causal = 1}, random), isBackward), HasSubstr("is not known by their indices"));
    EXPECT_THAT(whyNot(Problem(Shape{.keys = 18, .causal = 2}, random), isBackward),
                HasSubstr("is not known by their indices"));
    EXPECT_EQ(whyNot(Problem(Shape{.keys = 18, .causal = 0}, random), isBackward), "");
  }
}

TEST_F(FusedAttention, NeedsRowsThatAreAligned) {
  Problem problem({}, random);
  problem.scalars[7] += 4;
  EXPECT_THAT(whyNot(problem), HasSubstr("rows are not at multiples of 16 bytes"));
  Problem uneven(Shape{.repeats = 3}, random);
  uneven.scalars[8] += 8; // the groups of q
  EXPECT_THAT(whyNot(uneven), HasSubstr("heads are not evenly spaced"));
  Problem shifted({}, random);
  Attention attention(90);
  std::vector<void *> addresses = shifted.addresses(false);
  addresses[2] = static_cast<std::byte *>(addresses[2]) + 8;
  EXPECT_FALSE(attention.tryLaunch(forward, context, addresses, shifted.scalarsOf(false), true));
  EXPECT_THAT(attention.takeNotes().back(), HasSubstr("does not begin at a multiple of 16 bytes"));
}

// On sm_100 the engines that heuristics name are unknown.
TEST_F(FusedAttention, HasAGradientOnlyWhereItGivesEqualBits) {
  for (int architecture : {80, 89, 90})
    EXPECT_EQ(whyNot(Problem({}, random), true, architecture), "");
  for (int architecture : {100, 120}) {
    EXPECT_EQ(whyNot(Problem({}, random), false, architecture), "");
    EXPECT_THAT(whyNot(Problem({}, random), true, architecture), HasSubstr("equal bits each time"));
  }
}

TEST_F(FusedAttention, NeedsItsWorkspace) {
  context.workspaceBytes = 383; // the plan's has 384
  EXPECT_THAT(whyNot(Problem({}, random)), HasSubstr("some need 384 bytes of workspace, and there are 256"));
  context.workspaceBytes = 640;
  EXPECT_EQ(whyNot(Problem({}, random)), "");
  EXPECT_THAT(whyNot(Problem({}, random), true), HasSubstr("of workspace"));
  context.workspaceBytes = 512 + 4 * 2 * 2 * 9; // and the sums of all queries
  EXPECT_EQ(whyNot(Problem({}, random), true), "");
}

// The scores' gradients do not fit into the workspace: heads are processed in several parts.
TEST_F(FusedAttention, HasItsGradientInPieces) {
  struct Cut {
    Shape shape;
    int64_t headsOfKeys; ///< that fit
    std::string said;
  };
  const Cut cuts[] = {{{.batches = 3, .groups = 2}, 6, "is cuDNN's"},
                      {{.batches = 3, .groups = 2}, 5, "is cuDNN's, in 2 pieces"},
                      {{.batches = 3, .groups = 2, .repeats = 3}, 1, "is cuDNN's, in 6 pieces"},
                      {{.batches = 2, .groups = 5, .repeats = 2, .causal = 0}, 4, "is cuDNN's, in 4 pieces"}};
  for (const Cut &cut : cuts) {
    Shape shape = cut.shape;
    shape.queries = shape.keys = 12;
    Problem problem(shape, random);
    context.workspaceBytes = uint64_t(
        abi::FusedGradient{shape.type, 1, cut.headsOfKeys, shape.repeats, shape.queries, shape.keys, shape.width}
            .scratchBytes());
    ASSERT_LE(context.workspaceBytes, WorkspaceBytes);
    Attention attention(90);
    SCOPED_TRACE(cut.said);
    for (bool isBackward : {false, true}) {
      expectMatch(attention, problem, isBackward);
      if (HasFatalFailure())
        return;
    }
    EXPECT_THAT(attention.takeNotes().back(), testing::EndsWith(cut.said));
    EXPECT_TRUE(launch(attention, problem, true, /*mayPrepare=*/false));
  }
}

// A piece's log-sum-exps begin where those before it end.
TEST_F(FusedAttention, IsNotCutWhereNoPieceIsAligned) {
  context.workspaceBytes = uint64_t(abi::FusedGradient{abi::BF16, 1, 1, 1, 9, 9, 16}.scratchBytes());
  EXPECT_THAT(whyNot(Problem({}, random), true), HasSubstr("does not begin at a multiple of 16 bytes"));
}

// A stream that is being captured must not get anything that has never been prepared: that loads code.
TEST_F(FusedAttention, PreparesOnlyWhenItMay) {
  Attention attention(90);
  Problem problem({}, random);
  EXPECT_FALSE(launch(attention, problem, false, /*mayPrepare=*/false));
  EXPECT_TRUE(launch(attention, problem, false, /*mayPrepare=*/true));
  EXPECT_TRUE(launch(attention, problem, false, /*mayPrepare=*/false));
}

TEST_F(FusedAttention, ThatCudnnRefusesIsNotAskedAgain) {
  for (const char *what : {"refuses", "fails"}) {
    Attention attention(90);
    Problem problem({}, random);
    {
      Variable variable("DTC_STAND_IN_CUDNN", what);
      EXPECT_FALSE(launch(attention, problem, false));
    }
    std::vector<std::string> notes = attention.takeNotes();
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_THAT(notes[0], HasSubstr("attention may be cuDNN's, 9.19.0"));
    EXPECT_THAT(notes[1], HasSubstr(std::string(forward) + " is the program's own: "));
    EXPECT_FALSE(launch(attention, problem, false));
    EXPECT_TRUE(attention.takeNotes().empty());
  }
}

TEST(CudnnSymbols, AreThoseOfSixteenBitsWithoutDropout) {
  EXPECT_TRUE(Attention::isFor("dtc_cuda_attention_forward$bf16_64_causal_8x1024x1024x12x1"));
  EXPECT_TRUE(Attention::isFor("dtc_cuda_attention_backward$f16_64_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward$f32_64_causal_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward$bf16_64_causal_dropout_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward$bf16_64_causal_window_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward$bf16_64_causal_softcap_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward$bf16_64_causal_documents_8x1024x1024x12x1"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_gemm"));
  EXPECT_FALSE(Attention::isFor("dtc_cuda_attention_forward"));
}

/// The messages when a device starts with a library.
std::string complaintOf(const char *name) {
  try {
    Attention attention(90, name);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Cudnn, IsMissed) {
  EXPECT_THAT(complaintOf("libcudnn.so.999"),
              HasSubstr("cuDNN cannot be loaded: libcudnn.so.999: cannot open shared object file"));
  EXPECT_THAT(complaintOf("libm.so.6"), HasSubstr("libm.so.6 has no function 'cudnnGetVersion'"));
}

TEST(Cudnn, MustBeNewEnough) {
  Variable variable("DTC_STAND_IN_CUDNN", "version=91501");
  EXPECT_THAT(complaintOf("libcudnn.so.9"), HasSubstr("is cuDNN 9.15.1, and 9.16.0 or later is needed"));
}

} // namespace
} // namespace dtc::cuda
