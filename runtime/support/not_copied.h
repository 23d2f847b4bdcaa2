// What a class derives from whose objects own something that there is once.
#pragma once

namespace dtc {

class NotCopied {
public:
  NotCopied() = default;
  NotCopied(const NotCopied &) = delete;
  NotCopied &operator=(const NotCopied &) = delete;
};

} // namespace dtc
