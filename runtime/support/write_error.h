// What is said of an output that cannot be written, wherever that is found: what, why, and what to do.
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

/// Links are written through, as an output may lie elsewhere; but not those of another user, who would choose what of
/// this user's is overwritten. Root's are the system's own. Throws Error (Runtime).
inline void requireOwnLink(const std::string &path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != geteuid() && status.st_uid != 0)
    throw Error("cannot write '" + escaped(path) + "': it is a link that user " + std::to_string(status.st_uid) +
                " has made; remove it, or choose a folder in which others may not write");
}

/// An output that is also read would be gone before that. Throws Error (BadInput).
inline void requireNoInput(const std::string &path, const std::vector<std::string> &inputs) {
  std::error_code ignored;
  for (const std::string &input : inputs)
    if (std::filesystem::equivalent(path, input, ignored))
      throw Error(ExitCode::BadInput,
                  "'" + escaped(path) + "' is also read, as '" + escaped(input) + "'; choose another name");
}

/// Runs `attempt`; its Error begins with the option that the path is from, as in "--out runs/1".
template <typename Attempt> void asOption(const std::string &option, Attempt attempt) {
  try {
    attempt();
  } catch (const Error &error) {
    throw Error(error.exitCode(), escaped(option) + ": " + error.what());
  }
}

} // namespace dtc
