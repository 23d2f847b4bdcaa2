#include "runtime/comm/nccl/library.h"

#include "runtime/support/error.h"
#include "runtime/support/vendor_library.h"

#include <cstdlib>
#include <fmt/format.h>
#include <net/if.h>
#include <string_view>

namespace dtc::nccl {

static constexpr const char *LibraryName = "libnccl.so.2";

static std::string remedy() {
  return "; install NCCL 2.18 or later, or start the program with --share-gpu, whose ranks exchange through memory of "
         "the host";
}

static constexpr const char *OrderSetting = "NCCL_LAUNCH_ORDER_IMPLICIT";

/// Sets NCCL options that differ from its defaults. A user's own settings win.
static void setDefaults(bool hasPipeline) {
  setenv(OrderSetting, hasPipeline ? "0" : "1", 0); // several communicators are in flight at the same time
  if (hasPipeline && std::string_view(std::getenv(OrderSetting)) != "0")
    throw Error(
        fmt::format("{} is '{}' in the environment, and a pipeline of stages would hang: a receive waits for what "
                    "is given to NCCL after it; unset it, or set it to 0",
                    OrderSetting, std::getenv(OrderSetting)));
  setenv("NCCL_RUNTIME_CONNECT", "0", 0); // allocates memory for connections before the program allocates its own
  // The value may also be an address, which NCCL does not accept.
  if (const char *interface = std::getenv("DTC_INTERFACE"); interface && if_nametoindex(interface) != 0)
    setenv("NCCL_SOCKET_IFNAME", ("=" + std::string(interface)).c_str(), 0); // "=": an exact match, not a prefix
}

Library::Library(bool hasPipeline) : hasPipeline(hasPipeline) {
  setDefaults(hasPipeline);
  VendorLibrary library(LibraryName,
                        "ranks on several GPUs exchange through NCCL, and it cannot be loaded: ", remedy());
#define DTC_NCCL_FIND(member, ...) library.find(member, "nccl" #member);
  DTC_NCCL_FUNCTIONS(DTC_NCCL_FIND)
#undef DTC_NCCL_FIND
#define DTC_NCCL_FIND_LATER(member, ...) library.findIfThere(member, "nccl" #member);
  DTC_NCCL_LATER_FUNCTIONS(DTC_NCCL_FIND_LATER)
#undef DTC_NCCL_FIND_LATER
  if (GetVersion && GetVersion(&version) == Success && version < OldestVersion)
    throw Error(fmt::format("NCCL is too old: it is version {}.{}{}", version / (version < 10000 ? 1000 : 10000),
                            version / 100 % (version < 10000 ? 10 : 100), remedy()));
  library.requireFound(LibraryName, remedy());
}

std::string Library::describe(int result, Comm comm) const {
  std::string words = GetErrorString(result);
  const char *last = GetLastError(comm);
  return last && *last ? words + ": " + last : words;
}

} // namespace dtc::nccl
