#include "runtime/comm/link_text.h"

#include <netdb.h>
#include <sys/socket.h>

namespace dtc {

static std::string addressOf(int socket, decltype(&getsockname) end) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char text[NI_MAXHOST];
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  if (end(socket, generic, &size) != 0 ||
      getnameinfo(generic, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return text;
}

std::string linkText(int socket) { return addressOf(socket, getsockname) + " and " + addressOf(socket, getpeername); }

} // namespace dtc
