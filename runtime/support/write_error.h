// The message for an output that cannot be written: what, why, and what to do.
#pragma once

#include "runtime/support/error.h"
#include "runtime/support/escape.h"
#include "runtime/support/limits.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace dtc {

inline std::string writeRemedy(const std::string &path, int number) {
  switch (number) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
    return "free some space or choose another place";
  case ENOENT: {
    size_t slash = path.find_last_of('/');
    return slash == std::string::npos ? "choose another name"
                                      : "make the folder '" + escaped(path.substr(0, slash)) + "' first";
  }
  case ENOTDIR:
    return "part of the path is not a folder; choose another place";
  case EISDIR:
    return "name a file in it, or another one";
  case ENXIO:
    return "nobody reads this pipe; start its reader first";
  case EMFILE:
  case ENFILE:
    return limitRemedy(number).substr(2);
  default:
    return "choose a place where you may write";
  }
}

/// Error (Runtime); `number` is errno.
inline Error cannotWrite(const std::string &path, int number) {
  return Error("cannot write '" + escaped(path) + "': " + std::strerror(number) + "; " + writeRemedy(path, number));
}

/// Outputs may be links to files elsewhere. But another user's link is refused, because that user could choose which of
/// this user's files is overwritten. Root's links belong to the system. Throws Error (Runtime).
inline void requireOwnLink(const std::string &path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != geteuid() && status.st_uid != 0)
    throw Error("cannot write '" + escaped(path) + "': it is a link that user " + std::to_string(status.st_uid) +
                " has made; remove it, or choose a folder in which others may not write");
}

/// An output that is also an input would be lost before it is read. Throws Error (BadInput).
inline void requireNoInput(const std::string &path, const std::vector<std::string> &inputs) {
  std::error_code ignored;
  for (const std::string &input : inputs)
    if (std::filesystem::equivalent(path, input, ignored))
      throw Error(ExitCode::BadInput,
                  "'" + escaped(path) + "' is also read, as '" + escaped(input) + "'; choose another name");
}

/// Runs `attempt`; its Error begins with the option that the path comes from, as in "--out runs/1".
template <typename Attempt> void asOption(const std::string &option, Attempt attempt) {
  try {
    attempt();
  } catch (const Error &error) {
    throw Error(error.exitCode(), escaped(option) + ": " + error.what());
  }
}

} // namespace dtc
