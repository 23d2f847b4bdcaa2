// Mistakes in the code of kernels that a GPU may not notice: the machine without a GPU notices them.
#include "test/gpu/kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using testing::HasSubstr;

namespace dtc::test {
namespace {

/// The error found in the first kernel of `text` when its code is changed this way.
std::string faultOf(const char *text, const GpuKernels::Change &change) {
  MLIRContext context;
  context.loadDialect<dt::DTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  dt::KernelOp kernel = *module->getOps<dt::KernelOp>().begin();
  EXPECT_EQ(GpuKernels(*module).findFault(kernel), "");
  return GpuKernels(*module, change).findFault(kernel);
}

/// The first operation of a kind in the code.
template <typename Op> Op first(gpu::GPUModuleOp code) {
  Op found;
  code.walk([&](Op op) {
    if (!found)
      found = op;
  });
  return found;
}

/// A constant of so many bits, before `op`.
Value constantFor(Operation *op, unsigned bits, int64_t value) {
  OpBuilder builder(op);
  return arith::ConstantOp::create(builder, op->getLoc(), builder.getIntegerAttr(builder.getIntegerType(bits), value));
}

/// The first branch is taken whatever its condition.
void takeBranch(gpu::GPUModuleOp code) {
  auto branch = first<scf::IfOp>(code);
  branch.getConditionMutable().assign(constantFor(branch, 1, 1));
}

/// A warp's rows are whole; blocks' rows meet in workgroup memory.
constexpr const char *blockRow = R"(
  dt.kernel @sum(%x: tensor<2x5000xf32>) -> tensor<2xf32> {
    %sum = dt.reduce sum %x over [1] : tensor<2x5000xf32> -> tensor<2xf32>
    dt.yield %sum : tensor<2xf32>
  })";
constexpr const char *rowsPlusBias = R"(
  dt.kernel @bias(%x: tensor<5x68xf32>, %b: tensor<68xf32>) -> tensor<5x68xf32> {
    %all = dt.broadcast %b dims [1] : tensor<68xf32> -> tensor<5x68xf32>
    %y = dt.add %x, %all : tensor<5x68xf32>
    dt.yield %y : tensor<5x68xf32>
  })";

TEST(Mistakes, DroppedBarrier) {
  std::string fault = faultOf(blockRow, [](gpu::GPUModuleOp code) { first<gpu::BarrierOp>(code).erase(); });
  EXPECT_THAT(fault, HasSubstr("reads word 1 of workgroup memory 2, which nobody has written"));
}

TEST(Mistakes, DroppedBarrierOfColumns) {
  std::string fault = faultOf(R"(
    dt.kernel @columns(%x: tensor<70x40xf32>) -> tensor<40xf32> {
      %sum = dt.reduce sum %x over [0] : tensor<70x40xf32> -> tensor<40xf32>
      dt.yield %sum : tensor<40xf32>
    })",
                              [](gpu::GPUModuleOp code) { first<gpu::BarrierOp>(code).erase(); });
  EXPECT_THAT(fault, HasSubstr("which nobody has written"));
}

// All threads of a warp write its word, instead of only the first.
TEST(Mistakes, TwoThreadsAtOneWord) {
  std::string fault = faultOf(blockRow, takeBranch);
  EXPECT_THAT(fault,
              HasSubstr("thread 1 of block 0 writes word 0 of workgroup memory 2, which thread 0 has written with "
                        "no barrier between"));
}

TEST(Mistakes, BarrierThatNotAllReach) {
  std::string fault = faultOf(blockRow, [](gpu::GPUModuleOp code) {
    auto barrier = first<gpu::BarrierOp>(code);
    OpBuilder(first<scf::IfOp>(code).thenBlock()->getTerminator()).clone(*barrier);
  });
  EXPECT_THAT(fault, HasSubstr("is stuck"));
}

// Lanes beyond the end of a row must not contribute.
TEST(Mistakes, ForgottenMask) {
  std::string fault = faultOf(blockRow, [](gpu::GPUModuleOp code) {
    code.walk([](arith::SelectOp select) {
      if (isa<VectorType>(select.getType()))
        select.replaceAllUsesWith(select.getTrueValue());
    });
  });
  EXPECT_THAT(fault, HasSubstr("output 0: element 0 is"));
}

TEST(Mistakes, WrongLanesOfAShuffle) {
  std::string fault = faultOf(blockRow, [](gpu::GPUModuleOp code) {
    auto shuffle = first<gpu::ShuffleOp>(code);
    shuffle.getOffsetMutable().assign(constantFor(shuffle, 32, 8));
  });
  EXPECT_THAT(fault, HasSubstr("output 0: element 0 is"));
}

TEST(Mistakes, MissingBoundsCheck) {
  std::string fault = faultOf(rowsPlusBias, takeBranch);
  EXPECT_THAT(fault, HasSubstr("reads 16 bytes at byte 1360 of input 0, which has 1360"));
}

TEST(Mistakes, UnalignedVectors) {
  std::string fault = faultOf(rowsPlusBias, [](gpu::GPUModuleOp code) {
    auto load = first<LLVM::LoadOp>(code);
    OpBuilder builder(load);
    Value moved = LLVM::GEPOp::create(builder, load.getLoc(), load.getAddr().getType(), builder.getF32Type(),
                                      load.getAddr(), ArrayRef<LLVM::GEPArg>{1});
    load.getAddrMutable().assign(moved);
  });
  EXPECT_THAT(fault, HasSubstr("no multiple of 16"));
}

TEST(Mistakes, MemoryThatNobodyHasWritten) {
  std::string fault = faultOf(blockRow, [](gpu::GPUModuleOp code) { first<memref::StoreOp>(code).erase(); });
  EXPECT_THAT(fault, HasSubstr("which nobody has written"));
}

TEST(Mistakes, ElementThatTwoThreadsWrite) {
  std::string fault = faultOf(rowsPlusBias, [](gpu::GPUModuleOp code) {
    auto store = first<LLVM::StoreOp>(code);
    store.getAddrMutable().assign(store->getParentOfType<gpu::GPUFuncOp>().getArgument(2));
  });
  EXPECT_THAT(fault, HasSubstr("thread 1 of block 0 writes byte 0 of output 0, which thread 0 of block 0 writes"));
}

// Partial sums are for the next launch.
TEST(Mistakes, ResultOfAnotherBlockReadAtOnce) {
  std::string fault =
      faultOf(R"(
    dt.kernel @whole(%x: tensor<40000xf32>) -> tensor<f32> {
      %sum = dt.reduce sum %x over [0] : tensor<40000xf32> -> tensor<f32>
      dt.yield %sum : tensor<f32>
    })",
              [](gpu::GPUModuleOp code) {
                auto function = *code.getOps<gpu::GPUFuncOp>().begin();
                OpBuilder builder(function.getBody().front().getTerminator());
                LLVM::LoadOp::create(builder, function.getLoc(), builder.getF64Type(), function.getArgument(2), 8);
              });
  EXPECT_THAT(fault, HasSubstr("reads byte 0 of scratch, which thread 0 of block 0 writes"));
}

TEST(Mistakes, InputThatIsWritten) {
  std::string fault = faultOf(rowsPlusBias, [](gpu::GPUModuleOp code) {
    auto load = first<LLVM::LoadOp>(code);
    first<LLVM::StoreOp>(code).getAddrMutable().assign(load.getAddr());
  });
  EXPECT_THAT(fault, HasSubstr("writes to input 0, which is only read"));
}

// Matrices in workgroup memory, and copies to it, by a warp.

enum Mistake : uint64_t { None, NoWait, NoBarrier, NoWaitAtAll, RowOffItsPlace, RowsInOneBank, SourceOffItsPlace };
Hooks hooks;

/// Copies one piece per thread and reads the pieces as matrices. Pieces, a word per thread, the mistake.
void bringAndRead(const uint64_t *arguments) {
  uint64_t mistake = arguments[2];
  int64_t thread = hooks.thread(), begin = hooks.addressOfShared(0, 32, 16);
  uint64_t from = arguments[0] + 16 * uint64_t(thread) + (mistake == SourceOffItsPlace ? 2 : 0);
  hooks.beginCopy(begin + 16 * thread, reinterpret_cast<const void *>(from));
  if (mistake == NoWaitAtAll)
    return;
  if (mistake != NoWait)
    hooks.waitForCopies();
  if (mistake != NoBarrier)
    hooks.barrier();
  int64_t row = mistake == RowsInOneBank ? thread % 4 * 8 : thread;
  uint32_t words[4];
  hooks.loadMatrices(begin + 16 * row + (mistake == RowOffItsPlace ? 2 : 0), words, /*isTransposed=*/0);
  const auto *to = reinterpret_cast<const uint32_t *>(arguments[1]) + thread;
  *static_cast<uint32_t *>(hooks.access(to, 4, 4, true)) = words[1];
}

std::string faultOf(Mistake mistake) {
  GpuMachine machine;
  hooks = machine.hooks();
  alignas(16) uint16_t pieces[33 * 8];
  uint32_t words[32];
  for (size_t i = 0; i < std::size(pieces); ++i)
    pieces[i] = uint16_t(i);
  std::string fault = machine.launch(bringAndRead, 1, 32,
                                     {reinterpret_cast<uint64_t>(pieces), reinterpret_cast<uint64_t>(words), mistake},
                                     {{reinterpret_cast<std::byte *>(pieces), sizeof pieces, false, true, "pieces"},
                                      {reinterpret_cast<std::byte *>(words), sizeof words, true, false, "words"}});
  // The second matrix is pieces 8 to 15: thread 4i + j has elements 2j and 2j + 1 of its row i.
  for (uint32_t i = 0; i < 32 && fault.empty(); ++i)
    EXPECT_EQ(words[i], (64 + 2 * i) | (65 + 2 * i) << 16) << i;
  return fault;
}

TEST(Mistakes, OfCopiesAndMatrices) {
  EXPECT_EQ(faultOf(None), "");
  EXPECT_THAT(faultOf(NoWait), HasSubstr("reads word 0 of workgroup memory 0, which a copy is on its way to"));
  EXPECT_THAT(faultOf(NoBarrier), HasSubstr("which thread 0 has written with no barrier between"));
  EXPECT_THAT(faultOf(NoWaitAtAll), HasSubstr("ends without having waited for its copies"));
  EXPECT_THAT(faultOf(RowOffItsPlace), HasSubstr("reads 16 bytes of workgroup memory at no multiple of 16"));
  EXPECT_THAT(faultOf(RowsInOneBank), HasSubstr("names a row of a matrix in the banks of another"));
  EXPECT_THAT(faultOf(SourceOffItsPlace), HasSubstr("at an address that is no multiple of 16"));
}

} // namespace
} // namespace dtc::test
