// dtc-compile: the verbs of dtc that compile. dtc starts it with its own command line.
#include "passes/place/Presets.h"
#include "runtime/config/training_config.h"
#include "timing/plans/dimensions.h"
#include "tools/dtc/CommandLine.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/Verbs.h"

using namespace dtc;

/// Values of options whose checks do not list them.
static KnownValues knownValues() {
  KnownValues values;
  for (llvm::StringRef preset : getPresetNames())
    values["--strategy"].push_back(preset.str());
  values["--strategy"].emplace_back(AlsoFiles);
  for (const char *target : targetNames)
    values["--target"].emplace_back(target);
  for (const std::string &key : settingKeys(/*open=*/false))
    values["--set"].push_back(key + "=");
  for (const char *option : {"--fix", "--forbid"})
    for (const plans::Dimension &dimension : plans::dimensions())
      values[option].push_back(std::string(dimension.name) + "=");
  return values;
}

int main(int argc, char **argv) {
  auto addVerbs = [](CLI::App &app, int &exitCode) {
    addAccumulation(app);
    addCompile(app);
    addPlan(app);
    addRebalance(app);
    addRemedies(app);
    addVariants(app);
    addVerify(app, exitCode);
  };
  return runCommandLine(argc, argv, dtcVersion(), addVerbs, knownValues());
}
