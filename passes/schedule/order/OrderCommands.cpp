// Moves operations as a choice says; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/schedule/order/OrderCommands.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/ReadStep.h"
#include "passes/schedule/order/Order.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_ORDERCOMMANDS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;

namespace {

struct OrderCommands : dtc::impl::OrderCommandsBase<OrderCommands> {
  using OrderCommandsBase::OrderCommandsBase;
  explicit OrderCommands(std::vector<dtc::OrderRule> rules) : read(std::move(rules)) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!text.empty() && !readText())
      return signalPassFailure();
    if (read.empty())
      return;
    dtc::Kernels kernels(module);
    std::deque<dtc::ReadRole> roles;
    for (auto [role, functions] : llvm::enumerate(dtc::functionsOfRoles(module))) {
      roles.push_back(dtc::readRole(module, kernels, static_cast<int64_t>(role), functions));
      if (failed(describeCommands(roles.back(), kernels)))
        return signalPassFailure();
    }
    std::vector<const dtc::FlatRole *> flat;
    for (const dtc::ReadRole &role : roles)
      flat.push_back(&role.role);
    std::vector<std::vector<dtc::FlatOrder>> orders;
    if (std::string problem = dtc::applyOrder(read, flat, orders); !problem.empty()) {
      module.emitError(problem);
      return signalPassFailure();
    }
    for (auto [role, ofRole] : llvm::zip_equal(roles, orders))
      for (auto [function, order] : llvm::zip_equal(role.functions, ofRole))
        for (Operation *end = function.function.front().getTerminator(); int command : order)
          function.commands[command]->moveBefore(end);
  }

private:
  bool readText() {
    std::optional<dtc::Choices> choices = dtc::parseChoices(
        text, "rules", {}, [&](const Twine &problem) { getOperation().emitError(problem); });
    if (choices)
      read = choices->order;
    return choices.has_value();
  }

  std::vector<dtc::OrderRule> read;
};

} // namespace

std::unique_ptr<Pass> dtc::createOrderCommands(std::vector<OrderRule> rules) {
  return std::make_unique<OrderCommands>(std::move(rules));
}
