#include "runtime/program/train/batch_inputs.h"

#include "runtime/support/error.h"
#include "test/runtime/program/toy_model.h"

#include <gmock/gmock.h>

using testing::HasSubstr;

namespace dtc {
namespace {

abi::Tensor &find(abi::Manifest &manifest, std::string_view name) {
  for (abi::Tensor &tensor : *manifest.mutable_roles(0)->mutable_tensors())
    if (tensor.name() == name)
      return tensor;
  throw std::logic_error("no such tensor");
}

const BatchInput &find(const std::vector<BatchInput> &inputs, SamplePart part) {
  for (const BatchInput &input : inputs)
    if (input.part == part)
      return input;
  throw std::logic_error("no such input");
}

// On dp=2,tp=2 the tokens' rows are split over dp, the targets' columns over tp.
TEST(BatchInputs, EachIsCutByItsOwnPlacement) {
  abi::Manifest manifest = test::toyManifest({.dp = 2, .tp = 2});
  abi::Tensor &targets = find(manifest, "targets");
  targets.set_local_shape(0, 8);
  targets.set_local_shape(1, 2);
  targets.mutable_sharding()->mutable_dims(0)->clear_axes();
  abi::AxisRef &axis = *targets.mutable_sharding()->mutable_dims(1)->add_axes();
  axis.set_axis("tp");
  axis.set_pre(1);
  axis.set_size(2);
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<BatchInput> inputs = batchInputsOf(manifest, rank);
    ASSERT_EQ(inputs.size(), 2u);
    const BatchSlice &tokens = find(inputs, SamplePart::Tokens).slice, &cut = find(inputs, SamplePart::Targets).slice;
    EXPECT_EQ(tokens.firstRow, rank / 2 * 4);
    EXPECT_EQ(tokens.rows, 4);
    EXPECT_EQ(tokens.firstColumn, 0);
    EXPECT_EQ(tokens.columns, 4);
    EXPECT_EQ(cut.firstRow, 0);
    EXPECT_EQ(cut.rows, 8);
    EXPECT_EQ(cut.firstColumn, rank % 2 * 2);
    EXPECT_EQ(cut.columns, 2);
    EXPECT_EQ(cut.localRows * cut.localColumns, 16);
  }
}

TEST(BatchInputs, RefusesInputsOfDifferentShapes) {
  abi::Manifest manifest = test::toyManifest({});
  find(manifest, "targets").set_global_shape(1, 3);
  try {
    batchInputsOf(manifest, 0);
    FAIL() << "accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("'targets' is 8 x 3, but 'tokens' is 8 x 4"));
  }
}

} // namespace
} // namespace dtc
