#include "runtime/program/start/cpu_features.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace dtc {

static std::string withoutPunctuation(std::string_view name) {
  std::string plain;
  for (char c : name)
    if (c != '_' && c != '-' && c != '.')
      plain += c;
  return plain;
}

std::set<std::string, std::less<>> machineCpuFeatures() {
  std::set<std::string, std::less<>> features;
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("flags", 0) != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      features.insert(withoutPunctuation(word));
    break; // all processors of a machine have the same
  }
  return features;
}

bool hasCpuFeature(const std::set<std::string, std::less<>> &machine, std::string_view feature) {
  // Where LLVM's name and Linux's differ by more than punctuation.
  static constexpr std::pair<std::string_view, std::string_view> LinuxNames[] = {
      {"64bit", "lm"},         {"bmi", "bmi1"},     {"crc32", "sse42"}, {"lzcnt", "abm"},
      {"pclmul", "pclmulqdq"}, {"rdrnd", "rdrand"}, {"sahf", "lahflm"}, {"prfchw", "3dnowprefetch"},
      {"sha", "shani"},        {"sse3", "pni"},     {"x87", "fpu"},
  };
  std::string name = withoutPunctuation(feature);
  for (auto [llvmName, linuxName] : LinuxNames)
    if (name == llvmName)
      name = linuxName;
  return machine.count(name) != 0;
}

void requireCpuFeatures(const abi::Manifest &manifest) {
  auto machine = machineCpuFeatures();
  for (const std::string &feature : manifest.target_features())
    if (!hasCpuFeature(machine, feature))
      throw Error("this machine's CPU lacks '" + feature + "', which the program was compiled for (target " +
                  manifest.target() +
                  "); compile it with a lower --target, such as cpu:x86-64-v3, or run it elsewhere");
}

} // namespace dtc
