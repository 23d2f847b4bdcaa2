// The cost of candidate plans: user seconds of this process, by getrusage, one line of JSON.
//
//   search_bench MODEL MESH STRATEGY BATCH SEQUENCE CLUSTER EFFORT
//
// A search for an order on a cluster, as in `dtc compile --cluster`: each candidate changes choices, is planned and is
// simulated. `place`: reading the model, *what* and *where*, which are run once; `search`: all else, over `plans`
// candidates, of which `fit` were simulated and fit.
#include "frontends/Frontend.h"
#include "mlir/IR/DialectRegistry.h"
#include "passes/pipelines/search/SearchOrder.h"

#include <cstdlib>
#include <fmt/format.h>
#include <sys/resource.h>

using namespace dtc;

static double userSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fmt::print(stderr, "search_bench MODEL MESH STRATEGY BATCH SEQUENCE CLUSTER EFFORT\n");
    return 2;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::DialectRegistry registry;
  registerFrontendDialects(registry);
  context.appendDialectRegistry(registry);
  Model model = load(argv[1], {std::atoll(argv[4]), std::atoll(argv[5]), 0.1, {}}, context);
  CompileOptions options;
  options.where.mesh = argv[2];
  options.where.strategy = argv[3];
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  if (!planner)
    return 1;
  double placing = userSeconds();
  timing::Layout layout(timing::readCluster(argv[6]), planner->mesh());
  options.layout = &layout; // bucket sizes depend on its costs
  mlir::FailureOr<SearchedOrder> searched =
      searchOrder(*planner, options.choices, layout, {std::strtoull(argv[7], nullptr, 10), 0});
  if (failed(searched))
    return 1;
  fmt::print("{{\"place\": {:.4f}, \"search\": {:.4f}, \"plans\": {}, \"fit\": {}, \"gain\": {:.4f}}}\n", placing,
             userSeconds() - placing, searched->plans, searched->tried.size(), 1 - searched->after / searched->before);
  return 0;
}
