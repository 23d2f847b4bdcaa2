// Wakes a thread that polls.
#pragma once

#include "runtime/meeting/descriptor.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <sys/eventfd.h>

namespace dtc::job {

class Wake {
public:
  Wake() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event)
      throw Error("the process has no file descriptor left");
  }

  int file() const { return event.get(); } ///< poll it for reading
  void ring() const {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(event.get(), &one, sizeof(one));
  }
  void clear() const {
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(event.get(), &count, sizeof(count));
  }

private:
  Descriptor event;
};

} // namespace dtc::job
