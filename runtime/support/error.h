// The one exception type of the runtime and the tools, and the exit codes a user meets.
#pragma once

#include <stdexcept>
#include <string>

namespace dtc {

/// Exit codes of `dtc` and of every compiled program. A process ended by signal n exits with 128 + n.
enum class ExitCode : int {
  Ok = 0,
  Runtime = 1,    ///< the machine or the program failed: out of memory, disk full, missing CPU feature
  Usage = 2,      ///< the command line is wrong
  BadInput = 3,   ///< a file, a mesh or a setting is wrong
  PeerLost = 4,   ///< another rank died or gave up
  NonFinite = 5,  ///< the loss or a gradient became NaN or infinite
  NoProgress = 6, ///< `dtc run` gave up starting a job again that makes no progress
  Corrupted = 7,  ///< memory or arithmetic of a rank went wrong: values that must be bitwise equal are not
  Internal = 8,   ///< an internal error: a bug in dtc, not in its input
  OverLimit = 9,  ///< a prediction exceeds the limit given with --fail-over
};

/// Whether restarting a job that ended like this is worthwhile: a machine failed, not the input.
constexpr bool isMendedByRestart(ExitCode code) {
  return code == ExitCode::PeerLost || code == ExitCode::Runtime || code == ExitCode::Corrupted;
}

/// What went wrong, where, with which value, and what to do about it; and the code to exit with.
class Error : public std::runtime_error {
public:
  Error(ExitCode code, const std::string &message) : std::runtime_error(message), code(code) {}
  explicit Error(const std::string &message) : Error(ExitCode::Runtime, message) {}

  ExitCode exitCode() const { return code; }

private:
  ExitCode code;
};

/// Another rank died, left or reported a failure. `rank` is the first one that did, no matter which rank noticed.
class PeerLostError : public Error {
public:
  PeerLostError(int rank, const std::string &message) : Error(ExitCode::PeerLost, message), lostRank(rank) {}

  int rank() const { return lostRank; }

private:
  int lostRank;
};

} // namespace dtc
