// Moves starts that go together next to each other; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/schedule/buckets/BucketCollectives.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/ReadStep.h"
#include "passes/schedule/buckets/Buckets.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;

namespace {

struct BucketCollectives : dtc::impl::BucketCollectivesBase<BucketCollectives> {
  using BucketCollectivesBase::BucketCollectivesBase;
  BucketCollectives(std::vector<dtc::BucketRule> rules, dtc::abi::BucketSize size, dtc::StartCosts costs,
                    std::vector<dtc::BucketRule> *chosen)
      : rules(std::move(rules)), size(size), costs(std::move(costs)), chosen(chosen) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!text.empty() && !readText())
      return signalPassFailure();
    if (rules.empty() && size.kind == dtc::abi::BucketSize::Kind::None)
      return;
    dtc::Kernels kernels(module);
    std::deque<dtc::ReadRole> roles;
    std::vector<const dtc::FlatRole *> flat;
    for (auto [role, functions] : llvm::enumerate(dtc::functionsOfRoles(module))) {
      roles.push_back(dtc::readRole(module, kernels, static_cast<int64_t>(role), functions));
      if (failed(describeCommands(roles.back(), kernels)))
        return signalPassFailure();
      flat.push_back(&roles.back().role);
    }
    if (!choose(flat))
      return signalPassFailure();
    for (dtc::ReadRole &role : roles)
      for (auto [read, function] : llvm::zip_equal(role.functions, role.role.functions))
        bucket(read, function, role.role.moves);
  }

private:
  bool readText() {
    std::optional<dtc::Choices> choices =
        dtc::parseChoices(text, "rules", {}, [&](const Twine &problem) { getOperation().emitError(problem); });
    if (choices) {
      rules = choices->buckets;
      size = choices->bucketSize;
      costs = dtc::assumedCosts();
    }
    return choices.has_value();
  }

  bool choose(const std::vector<const dtc::FlatRole *> &roles) {
    dtc::ChosenBuckets found = dtc::chooseBuckets(roles, size, costs, rules);
    std::string problem = dtc::findUnknownStart(rules, roles);
    if (problem.empty())
      problem = found.problem;
    if (!problem.empty())
      getOperation().emitError(problem);
    llvm::append_range(rules, found.rules);
    if (chosen)
      *chosen = rules;
    return problem.empty();
  }

  void bucket(dtc::ReadRole::Function &read, const dtc::FlatFunction &function,
              const std::vector<dtc::FlatMove> &moves) {
    std::vector<dtc::Bucket> buckets = dtc::findBuckets(rules, function, moves);
    if (buckets.empty())
      return;
    Builder builder(&getContext());
    for (auto [number, bucket] : llvm::enumerate(buckets)) {
      for (int start : bucket.starts) {
        read.commands[start]->setAttr(dtc::bucketAttr, builder.getI64IntegerAttr(static_cast<int64_t>(number)));
        read.commands[start]->setAttr(dtc::bucketWhyAttr, builder.getStringAttr(bucket.rule->why));
      }
    }
    for (Operation *end = read.function.front().getTerminator(); int command : orderOf(buckets, function))
      read.commands[command]->moveBefore(end);
  }

  std::vector<dtc::BucketRule> rules;
  dtc::abi::BucketSize size;
  dtc::StartCosts costs;
  std::vector<dtc::BucketRule> *chosen = nullptr;
};

} // namespace

std::unique_ptr<Pass> dtc::createBucketCollectives(std::vector<BucketRule> rules, abi::BucketSize size,
                                                   StartCosts costs, std::vector<BucketRule> *chosen) {
  return std::make_unique<BucketCollectives>(std::move(rules), size, std::move(costs), chosen);
}
