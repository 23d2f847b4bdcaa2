// Base class for classes whose objects own a unique resource.
#pragma once

namespace dtc {

class NotCopied {
public:
  NotCopied() = default;
  NotCopied(const NotCopied &) = delete;
  NotCopied &operator=(const NotCopied &) = delete;
};

} // namespace dtc
