// The page of `dtc report`: one file that needs no other and no network.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dtc {

/// HTML that shows `data` (reportData). What the data says is never read as HTML or as a script.
std::string reportPage(const nlohmann::ordered_json &data);

} // namespace dtc
