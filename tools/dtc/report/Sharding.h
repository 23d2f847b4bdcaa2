// Which rank holds which part of each parameter.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <nlohmann/json_fwd.hpp>

namespace dtc {

/// "sharding" of docs/report.md: equal layers once.
nlohmann::ordered_json shardingJson(const abi::Manifest &manifest);

/// Ranks in ascending order as a person writes them: "0-3", "0, 2", "0-6 by 2".
std::string ranksText(const std::vector<int> &ranks);

} // namespace dtc
