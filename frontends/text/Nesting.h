// What is checked in a module's text before MLIR's parser sees it.
#pragma once

#include <string>
#include <string_view>

namespace dtc::text {

/// Why a text must not be parsed, or an empty string. The parser, and the code that walks the attributes it makes,
/// recurse once per level, so thousands of levels would end the process. What counts is brackets outside strings and
/// comments, and what the aliases (#name, !name) stand for, which nest without brackets. Affine maps, whose sums nest
/// without brackets too, are refused: no model has any.
std::string findExcess(std::string_view text);

} // namespace dtc::text
