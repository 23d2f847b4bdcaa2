// Ctrl-C and the like: the first asks to stop at the next good moment, the second stops at once.
#pragma once

namespace dtc {

/// From now on SIGINT and SIGTERM are requests.
void catchInterrupts();

/// The signal that asked to stop, or 0.
int interruptRequested();

} // namespace dtc
