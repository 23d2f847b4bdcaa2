#include "runtime/program/interrupt.h"

#include <csignal>
#include <unistd.h>

namespace dtc {

static volatile std::sig_atomic_t requested = 0;

static void onSignal(int signal) {
  if (requested)
    _exit(128 + signal);
  requested = signal;
}

void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interruptRequested() { return requested; }

} // namespace dtc
