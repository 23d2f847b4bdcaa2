// The job's token, and what is derived from it. Whoever knows the token belongs to the job; nobody sends it.
//
// Keyed hashes are BLAKE2b (RFC 7693) as libsodium computes it.
#pragma once

#include "runtime/job/environment.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace dtc::job {

constexpr size_t KeyBytes = 32;
using Key = std::array<unsigned char, KeyBytes>;

/// Fresh and not to be guessed: for nonces and new tokens.
Key randomKey();

/// The keyed hash of `text`, of which `purpose` keeps different uses apart.
Key keyedHash(const Key &key, std::string_view purpose, std::string_view text);

/// Whether they are equal, in a time that does not tell where they differ.
bool areEqual(std::string_view a, std::string_view b);

inline std::string_view textOf(const Key &key) { return {reinterpret_cast<const char *>(key.data()), key.size()}; }

/// A new token, as text for the environment of ranks that this process starts.
std::string newToken();

/// The token as a key.
Key tokenKey(std::string_view token);

/// The token: of DTC_TOKEN, or of the file that DTC_TOKEN_FILE names, which must be this user's and closed to
/// all others. Throws Error (BadInput) when there is none, when it is shorter than 16 characters, and for a file that
/// others may read.
std::string readToken(const Environment &environment);

} // namespace dtc::job
