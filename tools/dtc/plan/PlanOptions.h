// The options of `dtc plan`.
#pragma once

#include "timing/plans/dimensions.h"
#include "tools/dtc/AdviceOptions.h"
#include "tools/dtc/plan/PlanAnswer.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

inline constexpr const char *allDevicesWord = "all", *leastDevicesWord = "least";

struct PlanVerbOptions {
  std::string model, cluster, configFile, output, report, data;
  std::string devices = allDevicesWord; ///< or "least", or numbers: "64", "64,128"
  std::string target;                   ///< empty: as the cluster's devices are
  std::string allowed;                  ///< "asynchronous", or nothing
  std::vector<std::string> assignments, fixed, forbidden;
  uint64_t memoryLimit = 0; ///< bytes; 0: none
  double margin = 0.1;
  PlanTarget goal;
  int64_t effort = 500;
  uint64_t refine = 16; ///< plans for the order of each row; 0: rows are not refined
  bool front = false, json = false;
  AdviceOptions advice;

  // What completeOptions makes of these.
  std::vector<plans::Constraint> constraints;
  std::vector<std::string> given; ///< assignments without those that a plan decides

  bool allowsAsynchronous() const { return !allowed.empty(); }
};

void addPlanOptions(CLI::App &verb, PlanVerbOptions &options);

/// Reads the constraints, of which settings that a plan decides are some, and the target. Throws Error (Usage).
void completeOptions(PlanVerbOptions &options, const timing::Cluster &cluster);

/// Ascending, each once. Requires a text that the option's check has accepted.
std::vector<int64_t> parseDevices(const std::string &text);

/// Throws Error (BadInput) where a cluster of GPUs has fewer. Ranks on processors may outnumber the cores.
void requireDevices(const timing::Cluster &cluster, int64_t devices);

} // namespace dtc
