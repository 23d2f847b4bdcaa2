#include "runtime/program/start/interrupt.h"

#include <csignal>
#include <initializer_list>
#include <unistd.h>

namespace dtc {

static volatile std::sig_atomic_t requested = 0;

static void onSignal(int signal) {
  // Writing on to a pipe without a reader is no second request.
  if (requested && signal != SIGPIPE)
    _exit(128 + signal);
  if (!requested)
    requested = signal;
}

void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction before;
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

int interruptRequested() { return requested; }

} // namespace dtc
