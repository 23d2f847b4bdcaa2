#include "runtime/job/secret.h"

#include "runtime/support/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/meeting/descriptor.h"

namespace dtc::job {

static constexpr size_t ShortestToken = 16, LongestToken = 4096;

static void start() {
  static const bool ready = sodium_init() >= 0;
  if (!ready)
    throw Error("the system gives no random numbers");
}

Key randomKey() {
  start();
  Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

Key keyedHash(const Key &key, std::string_view purpose, std::string_view text) {
  crypto_generichash_state state;
  Key result;
  auto add = [&](std::string_view part) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(part.data()), part.size());
  };
  crypto_generichash_init(&state, key.data(), key.size(), result.size());
  add(purpose);
  add(std::string_view("\0", 1)); // so that no purpose is a prefix of another purpose with its text
  add(text);
  crypto_generichash_final(&state, result.data(), result.size());
  return result;
}

bool areEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string newToken() {
  Key key = randomKey();
  std::string text;
  for (unsigned char byte : key)
    text += fmt::format("{:02x}", byte);
  return text;
}

Key tokenKey(std::string_view token) {
  start();
  return keyedHash(Key{}, "token", token);
}

static std::string readTokenFile(const std::string &path) {
  auto refuse = [&](const std::string &why) -> Error {
    return Error(ExitCode::BadInput, fmt::format("the file '{}', which DTC_TOKEN_FILE names, {}", path, why));
  };
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0)
    throw refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
    throw refuse(
        fmt::format("must be yours alone (its mode is {:04o}); run: chmod 600 '{}'", status.st_mode & 07777, path));
  std::string text(LongestToken + 1, '\0');
  ssize_t count = read(file.get(), text.data(), text.size());
  if (count < 0)
    throw refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  text.resize(static_cast<size_t>(count));
  while (!text.empty() && std::strchr(" \t\r\n", text.back()))
    text.pop_back();
  return text;
}

std::string readToken(const Environment &environment) {
  std::string text, from = "DTC_TOKEN";
  if (std::optional<std::string> path = environment("DTC_TOKEN_FILE")) {
    text = readTokenFile(*path);
    from = "the file that DTC_TOKEN_FILE names";
  } else if (std::optional<std::string> token = environment("DTC_TOKEN")) {
    text = *token;
  } else {
    throw Error(ExitCode::BadInput,
                "ranks on several hosts prove by a token that they belong together, and there is none; write one "
                "(openssl rand -hex 32) into a file of mode 600 on every host and name it in DTC_TOKEN_FILE, or put it "
                "into DTC_TOKEN");
  }
  if (text.size() < ShortestToken || text.size() > LongestToken)
    throw Error(ExitCode::BadInput, fmt::format("{} has a token of {} characters; at least {} are needed, {} at most",
                                                from, text.size(), ShortestToken, LongestToken));
  return text;
}

} // namespace dtc::job
