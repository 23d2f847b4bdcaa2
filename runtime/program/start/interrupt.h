// Ctrl-C and the like: the first asks to stop at the next good moment, the second stops at once.
#pragma once

namespace dtc {

/// From now on SIGINT, SIGTERM and SIGHUP are requests, and so is SIGPIPE: the reader of the output is gone (`| head
/// -1`), so there is no reason to continue. A signal that was ignored at the start stays so (nohup, trap '' PIPE).
void catchInterrupts();

/// The signal that asked to stop, or 0.
int interruptRequested();

} // namespace dtc
