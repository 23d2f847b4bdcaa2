// What a program says about its parameters and itself, with one statement after the other changed.
#include "test/runtime/program/manifests.h"
#include "tools/verify/FileLayout.h"
#include "tools/verify/Marks.h"
#include "tools/verify/Statements.h"

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::HasSubstr;

namespace dtc::verify {
namespace {

constexpr const char *logicalText = R"(
module attributes {
  dt.model = "toy", dt.symbols = {vocab = 7 : i64, embed = 4 : i64},
  dt.parameters = [#dt.param<"h.0.w", layer = <"h"[0]>, file = [6, 4], factored = [3, 2, 4], permutation = [2, 0, 1],
                     dims = ["embed", "heads", "head_dim"], init = "normal", stddev = 2.000000e-02 : f64, decays = true,
                     tied = ["head.w"]>,
                   #dt.param<"b", file = [4], factored = [4], permutation = [0], dims = ["embed"],
                     init = "zeros", stddev = 0.0 : f64, decays = false>]} {
func.func @update(%w: tensor<4x3x2xf32> {dt.port = #dt.port<parameter "h.0.w">},
                  %b: tensor<4xf32> {dt.port = #dt.port<parameter "b">},
                  %tokens: tensor<2x5xi32> {dt.port = #dt.port<input "tokens" from tokens>})
    -> (tensor<4x3x2xf32> {dt.port = #dt.port<parameter "h.0.w">}) {
  return %w : tensor<4x3x2xf32>
}
})";

void addTensor(abi::Manifest &manifest, const char *name, abi::Tensor::Kind kind, int parameter,
               std::initializer_list<int64_t> shape) {
  abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
  tensor.set_name(name);
  tensor.set_kind(kind);
  tensor.set_parameter(parameter);
  tensor.set_type(kind == abi::Tensor::INPUT ? abi::I32 : abi::F32);
  tensor.mutable_global_shape()->Assign(shape.begin(), shape.end());
}

abi::Manifest makeManifest() {
  abi::Manifest manifest;
  manifest.set_model_name("toy");
  *manifest.add_roles() = timetableOf(2);
  for (auto [name, size] : {std::pair("embed", 4), std::pair("vocab", 7)}) {
    abi::Symbol &symbol = *manifest.add_symbols();
    symbol.set_name(name);
    symbol.set_size(size);
  }
  abi::Parameter &w = *manifest.add_parameters();
  w.set_name("h.0.w");
  for (int64_t number : {0, 1}) {
    abi::Layer &layer = *manifest.add_layers();
    layer.set_list("h");
    layer.set_number(number);
  }
  w.set_layer(0);
  for (int64_t size : {6, 4})
    w.add_file_shape(size);
  for (int64_t size : {3, 2, 4})
    w.add_factored_shape(size);
  for (int64_t dim : {2, 0, 1})
    w.add_permutation(dim);
  for (int64_t size : {4, 3, 2})
    w.add_logical_shape(size);
  for (const char *name : {"embed", "heads", "head_dim"})
    w.add_dim_names(name);
  w.mutable_init()->set_kind(abi::Init::NORMAL);
  w.mutable_init()->set_stddev(0.02);
  w.set_decays(true);
  w.add_tied_names("head.w");
  abi::Parameter &b = *manifest.add_parameters();
  b.set_name("b");
  b.add_file_shape(4);
  b.add_factored_shape(4);
  b.add_permutation(0);
  b.add_logical_shape(4);
  b.add_dim_names("embed");
  for (abi::Tensor::Kind kind : {abi::Tensor::PARAMETER, abi::Tensor::SLOT, abi::Tensor::SLOT, abi::Tensor::GRADIENT,
                                 abi::Tensor::REDUCED_GRADIENT}) {
    addTensor(manifest, "h.0.w", kind, 0, {4, 3, 2});
    addTensor(manifest, "b", kind, 1, {4});
  }
  for (int tensor : {2, 3, 4, 5})
    manifest.mutable_roles(0)->mutable_tensors(tensor)->set_slot(tensor < 4 ? "exp_avg" : "exp_avg_sq");
  addTensor(manifest, "tokens", abi::Tensor::INPUT, -1, {2, 5});
  manifest.mutable_roles(0)->mutable_tensors()->rbegin()->mutable_source()->set_kind(abi::Source::TOKENS);
  manifest.mutable_training()->set_accumulation(2);
  return manifest;
}

class FileLayoutTest : public testing::Test {
protected:
  FileLayoutTest() {
    context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(logicalText, &context);
  }

  using Change = std::function<void(abi::Manifest &)>;

  std::string parameters(const Change &change) {
    abi::Manifest manifest = makeManifest();
    change(manifest);
    return findParameterDifference(*module, manifest);
  }

  std::string statements(const Change &change) {
    abi::Manifest manifest = makeManifest();
    change(manifest);
    return findStatementDifference(*module, manifest);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(FileLayoutTest, WhatIsAsTheModelSaysAgrees) {
  ASSERT_TRUE(module);
  EXPECT_EQ(parameters([](auto &) {}), "");
  EXPECT_EQ(statements([](auto &) {}), "");
}

TEST_F(FileLayoutTest, EachStatementOfAParameterCounts) {
  auto w = [](auto change) { return [change](abi::Manifest &manifest) { change(*manifest.mutable_parameters(0)); }; };
  for (auto [what, change] : std::vector<std::pair<const char *, Change>>{
           {"its name is h.1.w", w([](abi::Parameter &p) { p.set_name("h.1.w"); })},
           {"the list of its other names in files is [], the model's is [head.w]",
            w([](abi::Parameter &p) { p.clear_tied_names(); })},
           {"the list of its other names in files is [tail.w]",
            w([](abi::Parameter &p) { p.set_tied_names(0, "tail.w"); })},
           {"the shape in the file is [4, 6]",
            w([](abi::Parameter &p) { p.mutable_file_shape()->SwapElements(0, 1); })},
           {"the factored shape is [2, 3, 4]",
            w([](abi::Parameter &p) { p.mutable_factored_shape()->SwapElements(0, 1); })},
           {"the permutation is [2, 1, 0]", w([](abi::Parameter &p) { p.mutable_permutation()->SwapElements(1, 2); })},
           {"the logical shape is [3, 4, 2]",
            w([](abi::Parameter &p) { p.mutable_logical_shape()->SwapElements(0, 1); })},
           {"the names of its dimensions", w([](abi::Parameter &p) { p.mutable_dim_names()->SwapElements(1, 2); })},
           {"the initialisation is ones", w([](abi::Parameter &p) { p.mutable_init()->set_kind(abi::Init::ONES); })},
           {"the standard deviation", w([](abi::Parameter &p) { p.mutable_init()->set_stddev(0.02 + 1e-9); })},
           {"weight decay is off", w([](abi::Parameter &p) { p.set_decays(false); })},
           {"the layer is none", w([](abi::Parameter &p) { p.clear_layer(); })},
           {"the layer is h.1", w([](abi::Parameter &p) { p.set_layer(1); })},
       })
    EXPECT_THAT(parameters(change), testing::AllOf(HasSubstr("parameter h.0.w: "), HasSubstr(what)));
  EXPECT_THAT(parameters([](abi::Manifest &manifest) { manifest.mutable_parameters()->RemoveLast(); }),
              HasSubstr("1 parameters, the model 2"));
}

TEST_F(FileLayoutTest, StateBelongsToTheParameterOfItsName) {
  for (int tensor = 0; tensor < 10; ++tensor) {
    EXPECT_THAT(parameters([&](abi::Manifest &manifest) {
                  manifest.mutable_roles(0)->mutable_tensors(tensor)->set_parameter(1 - tensor % 2);
                }),
                HasSubstr("which is not the one of its name"))
        << tensor;
    EXPECT_THAT(parameters([&](abi::Manifest &manifest) {
                  manifest.mutable_roles(0)->mutable_tensors(tensor)->set_parameter(2);
                }),
                HasSubstr("belongs to parameter 2"))
        << tensor;
    EXPECT_THAT(parameters([&](abi::Manifest &manifest) {
                  manifest.mutable_roles(0)->mutable_tensors(tensor)->set_global_shape(0, 5);
                }),
                HasSubstr("has the shape [5"))
        << tensor;
  }
}

// Against the program of the model compiled again.
TEST_F(FileLayoutTest, EachEntryOfATimetableCounts) {
  auto timetables = [&](const std::function<void(abi::Manifest &)> &change) {
    abi::Manifest program = makeManifest();
    change(program);
    return findMarkDifference(program, makeManifest());
  };
  auto step = [](int i, const char *list, int64_t micro) {
    return [=](abi::Manifest &manifest) {
      test::entriesOf(manifest).Mutable(i)->set_list(list);
      test::entriesOf(manifest).Mutable(i)->set_micro_batch(micro);
    };
  };
  EXPECT_THAT(timetables(step(1, "micro", 1)), HasSubstr("the model's: micro 0, micro_last 1, update"));
  EXPECT_THAT(timetables(step(1, "micro_next", 0)), HasSubstr("its step runs micro 0, micro_next 0"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).RemoveLast(); }),
              HasSubstr("micro_last 1; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).Mutable(2)->set_micro_batch(0); }),
              HasSubstr("update 0; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).Mutable(1)->add_places(1); }),
              HasSubstr("micro_last 1 in places 1, update; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).Mutable(1)->set_step(1); }),
              HasSubstr("micro_last 1 of stage 0 and step 1, update; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).Mutable(1)->set_stage(1); }),
              HasSubstr("micro_last 1 of stage 1 and step 0, update; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest).Mutable(2)->set_beside(true); }),
              HasSubstr("update of stage 0 and step 0 beside the one before; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) {
                for (uint32_t turns : {0, 2})
                  test::entriesOf(manifest).Mutable(2)->add_turns(turns);
              }),
              HasSubstr("update in turns of 0 2; the model's"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest, abi::evaluationTimetable).Clear(); }),
              HasSubstr("its evaluation runs ; the model's: eval 0"));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { test::entriesOf(manifest, "other").Add()->set_list("eval"); }),
              HasSubstr("its other runs eval; the model's: "));
  auto refresh = [](abi::Manifest &manifest) {
    test::entriesOf(manifest, abi::refreshTimetable).Add()->set_list("refresh");
  };
  EXPECT_THAT(timetables(refresh), HasSubstr("its refresh runs refresh; the model's: "));
  EXPECT_THAT(timetables([](abi::Manifest &manifest) { manifest.add_roles(); }), HasSubstr("it has 2 roles"));
  EXPECT_EQ(timetables([](abi::Manifest &) {}), "");
}

TEST_F(FileLayoutTest, EachStatementOfTheProgramCounts) {
  EXPECT_THAT(statements([](abi::Manifest &manifest) { manifest.set_model_name("other"); }), HasSubstr("other"));
  EXPECT_THAT(statements([](abi::Manifest &manifest) { manifest.mutable_symbols(1)->set_size(8); }),
              HasSubstr("the sizes are embed 4, vocab 8; the model's: embed 4, vocab 7"));
  EXPECT_THAT(statements([](abi::Manifest &manifest) {
                manifest.mutable_roles(0)->mutable_tensors(10)->set_global_shape(1, 6);
              }),
              HasSubstr("tokens is [2, 6] of i32, the model's is [2, 5] of i32"));
  EXPECT_THAT(
      statements([](abi::Manifest &manifest) { manifest.mutable_roles(0)->mutable_tensors(10)->set_type(abi::F32); }),
      HasSubstr("tokens is [2, 5] of f32"));
  auto source = [](abi::Source::Kind kind, const char *setting) {
    return [=](abi::Manifest &manifest) {
      abi::Source &source = *manifest.mutable_roles(0)->mutable_tensors(10)->mutable_source();
      source.set_kind(kind);
      source.set_setting(setting);
    };
  };
  EXPECT_THAT(statements(source(abi::Source::NEXT_TOKENS, "")),
              HasSubstr("tokens is from NEXT_TOKENS, the model's is from TOKENS"));
  EXPECT_THAT(statements(source(abi::Source::TOKENS, "beta1")), HasSubstr("tokens is from TOKENS of beta1"));
}

// Where other ranks play a role, its tensors may be at other addresses.
TEST_F(FileLayoutTest, EachRolesTensorsCount) {
  EXPECT_THAT(statements([](abi::Manifest &manifest) {
                manifest.add_stages();
                manifest.add_stages();
                *manifest.add_roles() = manifest.roles(0);
                manifest.mutable_roles(1)->mutable_tensors(10)->mutable_source()->set_kind(abi::Source::KEY);
              }),
              HasSubstr("tokens is from KEY"));
}

} // namespace
} // namespace dtc::verify
