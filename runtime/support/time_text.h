// Times for people and tools: UTC in ISO 8601.
#pragma once

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <unistd.h>

namespace dtc {

/// "2026-03-01T12:00:05Z", or with thousandths of a second "2026-03-01T12:00:05.250Z".
inline std::string utcText(std::chrono::system_clock::time_point time, bool thousandths = false) {
  auto since = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  if (thousandths)
    length += std::snprintf(text + length, sizeof text - length, ".%03d", static_cast<int>(since.count() % 1000));
  return std::string(text, length) + "Z";
}

/// The time and a space, to begin a log line; empty if `stream` is a terminal.
inline std::string timeStamp(std::FILE *stream) {
  return isatty(fileno(stream)) ? "" : utcText(std::chrono::system_clock::now()) + " ";
}

} // namespace dtc
