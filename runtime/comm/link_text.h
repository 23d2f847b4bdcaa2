// How messages name a connection.
#pragma once

#include <string>

namespace dtc {

/// The addresses of both ends, this one's first: "10.0.0.1 and 10.0.0.2".
std::string linkText(int socket);

} // namespace dtc
