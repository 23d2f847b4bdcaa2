// The job's token, and what is derived from it. Knowing the token means belonging to the job; the token itself is never
// sent.
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

/// A new random key that cannot be guessed: for nonces and new tokens.
Key randomKey();

/// The keyed hash of `text`; `purpose` separates different uses.
Key keyedHash(const Key &key, std::string_view purpose, std::string_view text);

/// Whether they are equal, compared in constant time.
bool areEqual(std::string_view a, std::string_view b);

inline std::string_view textOf(const Key &key) { return {reinterpret_cast<const char *>(key.data()), key.size()}; }

/// A new token, as text for the environment of ranks that this process starts.
std::string newToken();

/// The token as a key.
Key tokenKey(std::string_view token);

/// The token from DTC_TOKEN, or from the file that DTC_TOKEN_FILE names, which must belong to this user and be
/// inaccessible to others. Throws Error (BadInput) when there is none, when it is shorter than 16 characters, and for a
/// file that others may read.
std::string readToken(const Environment &environment);

} // namespace dtc::job
