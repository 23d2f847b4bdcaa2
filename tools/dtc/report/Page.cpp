#include "tools/dtc/report/Page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>

namespace dtc {

// The files that make up the page: the build embeds them into the executable.
extern const std::string_view reportStyle, chartsScript, reportScript, timelineScript, planScript, chartLibrary;

/// The nonce of our scripts: the browser runs no others, and fetches nothing.
static constexpr const char *Nonce = "dtc-report";

/// JSON that cannot end the element around it: "<" occurs in JSON only within strings, where it may be escaped.
static std::string harmless(const nlohmann::ordered_json &data) {
  std::string text = data.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace), safe;
  safe.reserve(text.size());
  for (char c : text)
    c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

/// Of a verb; `script` fills it.
static std::string pageOf(const char *title, const nlohmann::ordered_json &data, const std::string &script) {
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'nonce-{0}'">
<title>{6}</title>
<style>
{1}</style>
</head>
<body>
<main id="page"><noscript>This page draws with JavaScript, which is off.</noscript></main>
<script type="application/json" id="data">{2}</script>
<script nonce="{0}">
{3}
</script>
<script nonce="{0}">
{4}
{5}</script>
</body>
</html>
)",
                     Nonce, reportStyle, harmless(data), chartLibrary, chartsScript, script, title);
}

std::string reportPage(const nlohmann::ordered_json &data) {
  return pageOf("dtc report", data, std::string(reportScript).append(timelineScript));
}

std::string planPage(const nlohmann::ordered_json &data) { return pageOf("dtc plan", data, std::string(planScript)); }

} // namespace dtc
