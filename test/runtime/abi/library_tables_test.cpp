// The tables of library kernels: complete, and in the order of scalars that compiled programs have.
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/all.h"
#include "runtime/kernels/cpu/kernels.h"

#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace dtc::abi::library {
namespace {

std::vector<const KernelTable *> all() {
  std::vector<const KernelTable *> tables(std::begin(allKernels), std::end(allKernels));
  tables.push_back(&tableOf<ProductScalars>);
  return tables;
}

template <class Scalars> class Tables : public testing::Test {};
using EveryScalars =
    testing::Types<GemmScalars, ProductScalars, AttentionScalars, AttentionBackwardScalars, RotaryScalars,
                   GatherScalars, ScatterAddScalars, WriteRowsScalars, CopyScalars, FillScalars>;
TYPED_TEST_SUITE(Tables, EveryScalars);

TYPED_TEST(Tables, NameEachScalarOnce) {
  const KernelTable &table = tableOf<TypeParam>;
  EXPECT_FALSE(table.name.empty());
  EXPECT_EQ(sizeof(TypeParam), 8 * table.scalars.size());
  EXPECT_EQ(sizeof(TypeParam), 8 * countOf<TypeParam>);
  std::set<std::string_view> names;
  for (size_t i = 0; i < table.scalars.size(); ++i) {
    EXPECT_EQ(table.scalars[i].index, i);
    EXPECT_TRUE(names.insert(table.scalars[i].name).second) << table.scalars[i].name;
  }
}

/// What already compiled programs have in their command lists.
TEST(LibraryTables, ScalarsStandWhereTheyAlwaysStood) {
  EXPECT_EQ(countOf<GemmScalars>, 16u);
  EXPECT_EQ(indexOf(&GemmScalars::ldc), 8u);
  EXPECT_EQ(indexOf(&GemmScalars::accumulate), 12u);
  EXPECT_EQ(indexOf(&GemmScalars::splitColumns), 13u);
  EXPECT_EQ(indexOf(&GemmScalars::result), 15u);
  EXPECT_EQ(indexOf(&ProductScalars::epilogue), 16u);
  EXPECT_EQ(countOf<AttentionScalars>, 34u);
  EXPECT_EQ(indexOf(&AttentionScalars::q), 6u);
  EXPECT_EQ(indexOf(&AttentionScalars::out), 16u);
  EXPECT_EQ(indexOf(&AttentionScalars::causal), 21u);
  EXPECT_EQ(indexOf(&AttentionScalars::dropout), 22u);
  EXPECT_EQ(indexOf(&AttentionScalars::length), 29u);
  EXPECT_EQ(indexOf(&AttentionScalars::softcap), 32u);
  EXPECT_EQ(countOf<AttentionBackwardScalars>, 48u);
  EXPECT_EQ(indexOf(&AttentionBackwardScalars::window), 31u);
  EXPECT_EQ(indexOf(&AttentionBackwardScalars::dOut), 34u);
  EXPECT_EQ(indexOf(&AttentionBackwardScalars::dV), 45u);
  EXPECT_EQ(countOf<RotaryScalars>, 19u);
  EXPECT_EQ(indexOf(&RotaryScalars::theta), 4u);
  EXPECT_EQ(indexOf(&RotaryScalars::out), 9u);
  EXPECT_EQ(indexOf(&RotaryScalars::scaling), 14u);
  EXPECT_EQ(indexOf(&GatherScalars::bytes), 3u);
  EXPECT_EQ(indexOf(&ScatterAddScalars::count), 3u);
  EXPECT_EQ(indexOf(&WriteRowsScalars::strides), 5u);
  EXPECT_EQ(indexOf(&WriteRowsScalars::bytes), 8u);
  EXPECT_EQ(countOf<CopyScalars>, 24u);
  EXPECT_EQ(indexOf(&CopyScalars::outStrides), 12u);
  EXPECT_EQ(indexOf(&CopyScalars::available), 20u);
  EXPECT_EQ(indexOf(&CopyScalars::bytes), 23u);
  EXPECT_EQ(indexOf(&FillScalars::bytes), 1u);
  EXPECT_EQ(tableOf<AttentionBackwardScalars>.scalars[46].name, "dV.t");
  EXPECT_EQ(tableOf<CopyScalars>.scalars[17].name, "outStrides[5]");
  EXPECT_TRUE(tableOf<RotaryScalars>.scalars[18].isReal);
  EXPECT_FALSE(tableOf<RotaryScalars>.scalars[13].isReal);
}

TEST(LibraryTables, ALaunchIsReadByName) {
  std::vector<int64_t> scalars(countOf<AttentionBackwardScalars>);
  for (size_t i = 0; i < scalars.size(); ++i)
    scalars[i] = 100 + int64_t(i);
  scalars[indexOf(&AttentionScalars::scale)] = std::bit_cast<int64_t>(0.125);
  auto read = load<AttentionBackwardScalars>(scalars.data());
  EXPECT_EQ(read.T, 102);
  EXPECT_EQ(read.k.g, 112);
  EXPECT_EQ(read.scale, 0.125);
  EXPECT_EQ(read.starts, 133);
  EXPECT_EQ(read.dK.b, 142);
}

TEST(LibraryTables, ProcessorsHaveEachKernel) {
  std::set<std::string_view> names;
  for (const KernelTable *table : allKernels) {
    EXPECT_TRUE(dtc::kernels::find("dtc_" + std::string(table->name))) << table->name;
    EXPECT_TRUE(names.insert(table->name).second) << table->name;
  }
}

/// Shapes consist of scalars of the launch, and types of scalars that can state them.
TEST(LibraryTables, OperandsAreDescribedByScalars) {
  for (const KernelTable *table : all()) {
    std::set<std::string> sizes = {"grid", "4"}, operands;
    for (const ScalarField &field : table->scalars)
      sizes.insert(std::string(field.name));
    bool isWrittenYet = false;
    for (const Operand &operand : table->operands) {
      EXPECT_TRUE(operands.insert(std::string(operand.name)).second) << table->name << " " << operand.name;
      std::istringstream shape{std::string(operand.shape)};
      for (std::string size; shape >> size;)
        EXPECT_TRUE(sizes.contains(size)) << table->name << " " << operand.name << ": " << size;
      EXPECT_LT(operand.element.scalar, table->scalars.size());
      EXPECT_FALSE(table->scalars[operand.element.scalar].isReal && operand.element.kind == ElementRule::Told);
      EXPECT_FALSE(isWrittenYet && !operand.isWritten()) << table->name << ": inputs come before outputs";
      isWrittenYet = operand.isWritten();
    }
    EXPECT_TRUE(isWrittenYet) << table->name;
  }
}

/// The operands of a launch with these scalars, and what it does with each.
std::string describe(const KernelTable &table, const std::vector<int64_t> &scalars) {
  std::string text;
  for (const Operand &operand : table.operands)
    if (operand.isIn(scalars.data()))
      text += (text.empty() ? "" : " ") + std::string(operand.isRead(scalars.data()) ? "r" : "") +
              (operand.isWritten() ? "w" : "") + ":" + std::string(operand.name);
  return text;
}

TEST(LibraryTables, OperandsAreThoseOfALaunch) {
  std::vector<int64_t> scalars(countOf<AttentionBackwardScalars>);
  EXPECT_EQ(describe(tableOf<GemmScalars>, scalars), "r:A r:B w:C");
  scalars[indexOf(&GemmScalars::accumulate)] = 1;
  EXPECT_EQ(describe(tableOf<GemmScalars>, scalars), "r:A r:B rw:C");
  EXPECT_EQ(describe(tableOf<AttentionScalars>, scalars), "r:q r:k r:v r:q_positions r:k_positions r:key w:out w:lse");
  scalars[indexOf(&AttentionScalars::starts)] = 1;
  EXPECT_EQ(describe(tableOf<AttentionBackwardScalars>, scalars),
            "r:q r:k r:v r:q_positions r:k_positions r:key r:starts r:out r:lse r:d_out w:d_q w:d_k w:d_v");
  EXPECT_EQ(describe(tableOf<ScatterAddScalars>, scalars), "r:updates r:indices rw:out");
  EXPECT_EQ(describe(tableOf<WriteRowsScalars>, scalars), "r:rows r:positions rw:out");
  EXPECT_EQ(describe(tableOf<GatherScalars>, scalars), "r:table r:indices w:out");
  EXPECT_EQ(describe(tableOf<FillScalars>, scalars), "w:out");
}

/// As many inputs and outputs as runtime/abi/epilogue.h says.
TEST(LibraryTables, ProductsHaveTheBuffersOfTheirEpilogue) {
  for (const EpilogueForm &form : EpilogueForms) {
    std::vector<int64_t> scalars(countOf<ProductScalars>);
    scalars[indexOf(&ProductScalars::epilogue)] = static_cast<int64_t>(form.epilogue);
    size_t inputs = 0, outputs = 0;
    for (const Operand &operand : tableOf<ProductScalars>.operands)
      if (operand.isIn(scalars.data()))
        ++(operand.isWritten() ? outputs : inputs);
    EXPECT_EQ(inputs, form.inputs()) << form.name;
    EXPECT_EQ(outputs, form.outputs()) << form.name;
  }
}

TEST(LibraryTables, FusedAttentionIsOfPlainOnes) {
  AttentionScalars plain = {};
  plain.B = plain.G = plain.R = 1, plain.S = plain.T = 16, plain.E = 64;
  plain.element = dtc_bf16, plain.causal = causalByIndex;
  EXPECT_FALSE(whyNotFused(plain));
  auto refuses = [&](auto AttentionScalars::*field, auto value) {
    AttentionScalars other = plain;
    other.*field = value;
    return whyNotFused(other) != nullptr;
  };
  EXPECT_TRUE(refuses(&AttentionScalars::element, int64_t(dtc_f32)));
  EXPECT_TRUE(refuses(&AttentionScalars::dropout, 0.1));
  EXPECT_TRUE(refuses(&AttentionScalars::causal, causalByPosition));
  EXPECT_TRUE(refuses(&AttentionScalars::S, int64_t(8)));
  EXPECT_TRUE(refuses(&AttentionScalars::window, int64_t(4)));
  EXPECT_TRUE(refuses(&AttentionScalars::softcap, 30.0));
  EXPECT_TRUE(refuses(&AttentionScalars::starts, int64_t(1)));
  EXPECT_TRUE(refuses(&AttentionScalars::E, int64_t(136)));
  EXPECT_TRUE(refuses(&AttentionScalars::E, int64_t(60)));
  EXPECT_FALSE(refuses(&AttentionScalars::causal, int64_t(0)));
}

} // namespace
} // namespace dtc::abi::library
