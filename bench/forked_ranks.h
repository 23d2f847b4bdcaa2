// The ranks of a measurement on one host: processes forked from this one.
#pragma once

#include "runtime/comm/local/shared_memory.h"

#include <cstdio>
#include <exception>
#include <sys/wait.h>
#include <unistd.h>

namespace dtc {

/// Runs work(path of the rendezvous, rank) in a process for each rank; prints exceptions on the standard error. Returns
/// whether all succeeded.
template <typename Work> bool runForked(int ranks, const Work &work) {
  Rendezvous rendezvous(ranks);
  auto codeOf = [&](int rank) {
    try {
      work(rendezvous.path(), rank);
      return 0;
    } catch (const std::exception &error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      return 1;
    }
  };
  for (int rank = 0; rank < ranks; ++rank)
    if (fork() == 0)
      _exit(codeOf(rank));
  bool succeeded = true;
  for (int rank = 0, status; rank < ranks; ++rank)
    succeeded &= wait(&status) > 0 && status == 0;
  return succeeded;
}

} // namespace dtc
