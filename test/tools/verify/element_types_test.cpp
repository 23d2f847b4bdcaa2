// Tensors of several widths through the whole of lowering: planned, emitted, run by the command-list interpreter and by
// the executor, and compared with the reference interpreter. Narrow types are moved: copied, cut, joined, gathered,
// filled and exchanged.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/pipelines/How.h"
#include "passes/schedule/emit/EmitManifest.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/volume.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/cpu/kernels.h"
#include "test/passes/schedule/plan.h"
#include "test/runtime/program/manifests.h"
#include "tools/dtc/Program.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/Provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace mlir;
using namespace mlir::dt;
using testing::HasSubstr;

namespace dtc::verify {
namespace {

constexpr const char *text = R"(
module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
func.func @micro(%h: tensor<4x6xbf16> {dt.port = #dt.port<input "h">}, %f: tensor<3xf16> {dt.port = #dt.port<input "f">},
                 %b: tensor<4x3xi8> {dt.port = #dt.port<input "b">}, %i: tensor<3xi32> {dt.port = #dt.port<input "i">},
                 %m: tensor<5xi1> {dt.port = #dt.port<input "m">}, %x: tensor<7xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<6x4xbf16> {dt.port = #dt.port<output "turned">}, tensor<3x6xbf16> {dt.port = #dt.port<output "rows">},
        tensor<8x3xbf16> {dt.port = #dt.port<output "parts">}, tensor<2x3xbf16> {dt.port = #dt.port<output "box">},
        tensor<4x12xbf16> {dt.port = #dt.port<output "joined">}, tensor<6xf16> {dt.port = #dt.port<output "both">},
        tensor<2x6xi8> {dt.port = #dt.port<output "exchanged">}, tensor<6x5xi8> {dt.port = #dt.port<output "padded">},
        tensor<5xi8> {dt.port = #dt.port<output "filled">}, tensor<10xi1> {dt.port = #dt.port<output "masks">},
        tensor<7xf32> {dt.port = #dt.port<output "sum">}) {
  %view = dt.transpose %h by [1, 0] : tensor<4x6xbf16> -> tensor<6x4xbf16>
  %turned = dt.copy %view : tensor<6x4xbf16>
  %rows = dt.gather %h, %i : tensor<4x6xbf16>, tensor<3xi32> -> tensor<3x6xbf16>
  %half = dt.shard_slice %h along 1 over [#dt.axis_ref<"tp", 1, 0>] : tensor<4x6xbf16> -> tensor<4x3xbf16>
  %parts = dt.all_gather %half along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<4x3xbf16> -> tensor<8x3xbf16>
  %cut = dt.slice %h at [1, 2] : tensor<4x6xbf16> -> tensor<2x3xbf16>
  %box = dt.copy %cut : tensor<2x3xbf16>
  %joined = dt.concat %h, %h along 1 : tensor<4x6xbf16>, tensor<4x6xbf16> -> tensor<4x12xbf16>
  %both = dt.all_gather %f along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<3xf16> -> tensor<6xf16>
  %own = dt.copy %b : tensor<4x3xi8>
  %exchanged = dt.all_to_all %own split 0 concat 1 over [#dt.axis_ref<"tp", 1, 0>] : tensor<4x3xi8> -> tensor<2x6xi8>
  %padded = dt.pad %b at [1, 2] : tensor<4x3xi8> -> tensor<6x5xi8>
  %filled = dt.constant dense<-2> : tensor<5xi8>
  %set = dt.copy %filled : tensor<5xi8>
  %masks = dt.all_gather %m along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<5xi1> -> tensor<10xi1>
  %mine = dt.copy %x : tensor<7xf32>
  %sum = dt.all_reduce sum %mine over [#dt.axis_ref<"tp", 1, 0>] : tensor<7xf32> -> tensor<7xf32>
  return %turned, %rows, %parts, %box, %joined, %both, %exchanged, %padded, %set, %masks, %sum
      : tensor<6x4xbf16>, tensor<3x6xbf16>, tensor<8x3xbf16>, tensor<2x3xbf16>, tensor<4x12xbf16>, tensor<6xf16>,
        tensor<2x6xi8>, tensor<6x5xi8>, tensor<5xi8>, tensor<10xi1>, tensor<7xf32>
}
})";

/// The bits of a value that the type can hold.
uint32_t bitsOf(const abi::ElementType &type, double value) {
  for (uint32_t bits = 0; type.bytes < 4 && bits < 1u << 8 * type.bytes; ++bits)
    if (abi::readElement(type, reinterpret_cast<const std::byte *>(&bits)) == value)
      return bits;
  return type.isFloating() ? std::bit_cast<uint32_t>(static_cast<float>(value)) : static_cast<int32_t>(value);
}

class ElementTypes : public testing::Test {
protected:
  static constexpr int ranks = 2;

  void SetUp() override {
    context.loadDialect<DTDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    auto micro = *module->getOps<func::FuncOp>().begin();
    for (int rank = 0; rank < ranks; ++rank) {
      HostTensors &pieces = arguments.emplace_back();
      for (Type type : micro.getArgumentTypes())
        pieces.push_back(randomTensor(cast<RankedTensorType>(type), rank));
    }
    FailureOr<SmallVector<HostTensors>> results =
        interpret(micro, (*module)->getAttrOfType<MeshAttr>(module_attr::mesh), arguments);
    ASSERT_TRUE(succeeded(results));
    expected = *results;

    lowered = module->clone();
    PassManager passes(&context);
    buildHowPipeline(passes);
    ASSERT_TRUE(succeeded(passes.run(*lowered)));
    FailureOr<ArenaLayout> plan = test::planMemory(*lowered);
    ASSERT_TRUE(succeeded(plan));
    arenaUse = plan->memoryUse();
    ASSERT_TRUE(succeeded(emitManifest(*lowered, manifest)));
    test::entriesOf(manifest).Clear();
    test::addEntry(*manifest.mutable_roles(0), abi::stepTimetable, "micro");
  }

  /// Small integers, which all types hold; indices of which one lies outside the table.
  static HostTensor randomTensor(RankedTensorType type, int rank) {
    HostTensor tensor(type.getShape());
    for (int64_t i = 0; i < tensor.size(); ++i) {
      double value = double((i * 7 + rank * 3) % 11);
      bool isIndex = type.getElementType().isInteger(32);
      tensor[i] = type.getElementType().isInteger(1) ? double(int64_t(value) % 2) : isIndex ? double(i * 2) : value - 5;
    }
    return tensor;
  }

  const abi::Tensor &tensor(StringRef name) const {
    for (const abi::Tensor &tensor : manifest.roles(0).tensors())
      if (tensor.name() == name.str())
        return tensor;
    throw std::logic_error(name.str());
  }
  const abi::Tensor &argument(unsigned index) const { return tensor(portOf(index, true).getName()); }
  const abi::Tensor &result(unsigned index) const { return tensor(portOf(index, false).getName()); }
  PortAttr portOf(unsigned index, bool isArgument) const {
    ModuleOp whole = module.get();
    auto micro = *whole.getOps<func::FuncOp>().begin();
    return isArgument ? argumentPort(micro, index) : resultPort(micro, index);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module, lowered;
  SmallVector<HostTensors> arguments, expected; ///< of each rank
  std::vector<std::pair<std::string, uint64_t>> arenaUse;
  abi::Manifest manifest;
};

TEST_F(ElementTypes, TheCommandListsMeanWhatTheModuleMeans) {
  CommandInterpreter interpreter(manifest, context);
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < arguments[rank].size(); ++i)
      interpreter.write(rank, argument(i), arguments[rank][i]);
  interpreter.run("micro");
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < expected[rank].size(); ++i)
      EXPECT_EQ(*interpreter.read(rank, result(i)).elements, *expected[rank][i].elements)
          << "rank " << rank << ", " << result(i).name();
}

TEST_F(ElementTypes, TheExecutorComputesTheSame) {
  InProcessJob job(ranks);
  std::vector<std::string> problems(ranks);
  auto body = [&](int rank) {
    const abi::Role &role = manifest.roles(0);
    Arena arena(role.arena_bytes(), role.shared_begin());
    auto communicator = job.join(rank, arena);
    CpuDevice device(1, [](const abi::Kernel &kernel) { return kernels::find(kernel.symbol()); });
    Executor executor(manifest, *communicator, device, arena);
    for (size_t i = 0; i < arguments[rank].size(); ++i) {
      const abi::ElementType &type = abi::elementType(argument(i).type());
      for (int64_t j = 0; j < arguments[rank][i].size(); ++j) {
        uint32_t bits = bitsOf(type, arguments[rank][i][j]);
        std::memcpy(arena.base() + abi::arenaOffset(role, argument(i).address()) + j * type.bytes, &bits, type.bytes);
      }
    }
    executor.run("micro");
    for (size_t i = 0; i < expected[rank].size(); ++i) {
      const abi::ElementType &type = abi::elementType(result(i).type());
      for (int64_t j = 0; j < expected[rank][i].size(); ++j) {
        double got =
            abi::readElement(type, arena.base() + abi::arenaOffset(role, result(i).address()) + j * type.bytes);
        if (got != expected[rank][i][j])
          problems[rank] += result(i).name() + "[" + std::to_string(j) + "] is " + std::to_string(got) + ", not " +
                            std::to_string(expected[rank][i][j]) + "\n";
      }
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception &error) {
        problems[rank] += error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(problems, std::vector<std::string>(ranks));
}

TEST_F(ElementTypes, TheManifestSaysThemAndSizesAreBytes) {
  EXPECT_EQ(tensor("h").type(), abi::BF16);
  EXPECT_EQ(tensor("f").type(), abi::F16);
  EXPECT_EQ(tensor("b").type(), abi::I8);
  EXPECT_EQ(tensor("i").type(), abi::I32);
  EXPECT_EQ(tensor("m").type(), abi::MASK);
  EXPECT_EQ(tensor("x").type(), abi::F32);
  std::map<std::string, std::vector<std::pair<abi::DataType, uint64_t>>> launches;
  for (const abi::Command &command : manifest.lists(0).commands())
    for (int i = 0; i < command.launch().buffers_size(); ++i)
      launches[manifest.kernels(command.launch().kernel()).symbol()].push_back(
          {static_cast<abi::DataType>(command.launch().buffer_types(i)), command.launch().buffer_bytes(i)});
  using Buffers = std::vector<std::pair<abi::DataType, uint64_t>>;
  EXPECT_EQ(launches["dtc_gather"], (Buffers{{abi::BF16, 48}, {abi::I32, 12}, {abi::BF16, 36}}));
  EXPECT_THAT(launches["dtc_copy"], testing::Contains(std::pair(abi::I8, uint64_t(12))));
  // The box of two rows of a row of six: to the end of its last element.
  EXPECT_THAT(launches["dtc_copy"], testing::Contains(std::pair(abi::BF16, uint64_t(2 * (6 + 3)))));
  EXPECT_THAT(launches["dtc_fill"], testing::Contains(std::pair(abi::I8, uint64_t(30))));
  EXPECT_THAT(launches["dtc_fill"], testing::Contains(std::pair(abi::I8, uint64_t(5))));
}

/// Each tensor takes its bytes, rounded up to whole cache lines.
TEST_F(ElementTypes, TheArenaHoldsNoMoreThanTheirBytes) {
  uint64_t lines = 0;
  for (const abi::Tensor &tensor : manifest.roles(0).tensors())
    lines += (abi::bytesOf(tensor) + 63) / 64;
  for (const auto &[category, bytes] : arenaUse)
    if (category == "inputs and outputs")
      EXPECT_EQ(bytes, 64 * lines);
}

TEST_F(ElementTypes, ProvenanceFollowsBytes) {
  // "parts" is what was gathered, and its neighbours in memory are not.
  EXPECT_THAT(findCollectiveBehind(manifest, manifest.roles(0), {"micro"}, tensor("parts")), HasSubstr("all-gather"));
  EXPECT_THAT(findCollectiveBehind(manifest, manifest.roles(0), {"micro"}, tensor("exchanged")),
              HasSubstr("all-to-all"));
  EXPECT_THAT(findCollectiveBehind(manifest, manifest.roles(0), {"micro"}, tensor("turned")),
              HasSubstr("no collective"));
}

/// Two ranks gather 16 bf16 each into bytes 64 to 128; other tensors are on both sides.
TEST(Provenance, EndsWhereATensorAndACollectiveEnd) {
  abi::Manifest manifest;
  abi::Role &role = *manifest.add_roles();
  test::setArena(role, 192);
  test::addEntry(role, abi::stepTimetable, "main");
  abi::Collective *gather = test::addList(manifest, "main").add_commands()->mutable_start();
  gather->set_kind(abi::Collective::ALL_GATHER);
  gather->set_type(abi::BF16);
  gather->set_outer(1);
  gather->set_chunk(16);
  gather->set_output(64);
  manifest.add_groups()->add_axes()->set_size(2);
  for (auto [offset, found] : {std::pair(0, false), std::pair(64, true), std::pair(128, false)}) {
    abi::Tensor tensor;
    tensor.set_type(abi::BF16);
    tensor.set_address(offset);
    tensor.add_local_shape(32);
    EXPECT_THAT(findCollectiveBehind(manifest, manifest.roles(0), {"main"}, tensor),
                HasSubstr(found ? "all-gather" : "no collective"));
  }
}

TEST(Explain, CountsBytesOfTheCollectivesType) {
  abi::Collective collective;
  collective.set_outer(3);
  collective.set_chunk(8);
  for (auto [type, width] : {std::pair(abi::F32, 4), std::pair(abi::BF16, 2), std::pair(abi::I8, 1)}) {
    collective.set_type(type);
    EXPECT_EQ(payloadBytes(collective, 2), 24 * width);
    EXPECT_EQ(sentBytes(collective, 2), 24 * width);
  }
}

/// An arena of bf16 and f32: the bytes of one type mean nothing as the other.
TEST(Memory, ReadsWhatWasWrittenAsTheSameType) {
  Memory memory(32, 2, /*mixed=*/true);
  Buffer wide = memory.buffer(0, 16, abi::F32), narrow = memory.buffer(0, 16, abi::BF16);
  wide.writeAll({1, 2, 3, 4});
  EXPECT_EQ(wide.readAll(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(std::isnan(narrow.read(0)) && std::isnan(narrow.read(1)));
  narrow.write(3, 7); // the upper half of the second f32
  EXPECT_EQ(narrow.read(3), 7);
  EXPECT_TRUE(std::isnan(wide.read(1)));
  EXPECT_EQ(wide.read(2), 3);
  EXPECT_TRUE(std::isnan(memory.buffer(0, 16, abi::I32).read(0)));
  EXPECT_TRUE(memory.buffer(4, 4, abi::F32).overlaps(memory.buffer(6, 2, abi::BF16)));
  EXPECT_FALSE(memory.buffer(4, 4, abi::F32).overlaps(memory.buffer(8, 2, abi::BF16)));
  EXPECT_THROW(memory.buffer(2, 4, abi::F32), ProgramFault);
  EXPECT_THROW(memory.buffer(30, 4, abi::BF16), ProgramFault);
  EXPECT_THROW(memory.buffer(0, 4, abi::DataType(9)), ProgramFault);
}

class Refused : public testing::Test {
protected:
  /// The diagnostics of lowering a function of x: bf16 [8] to y: bf16 [8].
  std::string problemOf(const std::string &body) {
    context.loadDialect<DTDialect, func::FuncDialect>();
    std::string problem;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { problem += diagnostic.str() + "\n"; });
    auto module = parseSourceString<ModuleOp>(
        "module attributes {dt.mesh = #dt.mesh<\"tp\" = 2>} {\nfunc.func @micro(%x: tensor<8x8xbf16> {dt.port = "
        "#dt.port<input \"x\">}) -> (tensor<8x8xbf16> {dt.port = #dt.port<output \"y\">}) {\n" +
            body + "\n  return %y : tensor<8x8xbf16>\n}\n}",
        &context);
    PassManager passes(&context);
    buildHowPipeline(passes);
    if (!module || failed(passes.run(*module)))
      return problem;
    FailureOr<ArenaLayout> plan = test::planMemory(*module);
    abi::Manifest manifest;
    if (succeeded(plan) && succeeded(emitManifest(*module, manifest)))
      return "accepted";
    return problem;
  }

  MLIRContext context;
};

TEST_F(Refused, LibraryKernelsThatComputeInF32) {
  EXPECT_THAT(
      problemOf("  %i = dt.constant dense<0> : tensor<2xi32>\n  %u = dt.constant dense<1.0> : tensor<2x8xbf16>\n"
                "  %z = dt.copy %x : tensor<8x8xbf16>\n"
                "  %y = dt.scatter_add %z, %i, %u : tensor<8x8xbf16>, tensor<2xi32>, tensor<2x8xbf16>"),
      HasSubstr("'dt.scatter_add' has no library kernel for bf16: these compute in f32; convert"));
}

TEST_F(Refused, NeitherArithmeticNorReductions) {
  EXPECT_EQ(
      problemOf("  %s = dt.add %x, %x : tensor<8x8xbf16>\n"
                "  %p = dt.contract \"ab,bc->ac\" %s, %x : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>\n"
                "  %y = dt.all_reduce sum %p over [#dt.axis_ref<\"tp\", 1, 0>] : tensor<8x8xbf16> -> "
                "tensor<8x8xbf16>"),
      "accepted");
}

TEST_F(Refused, NothingThatIsOnlyMoved) {
  EXPECT_EQ(problemOf("  %t = dt.transpose %x by [1, 0] : tensor<8x8xbf16> -> tensor<8x8xbf16>\n"
                      "  %y = dt.copy %t : tensor<8x8xbf16>"),
            "accepted");
}

} // namespace
} // namespace dtc::verify
