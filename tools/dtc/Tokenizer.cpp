#include "tools/dtc/Tokenizer.h"

#include "runtime/abi/error.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace dtc {

namespace {
constexpr uint32_t ErrorMark = 0xffffffff;
/// A batch has about so much, enough to keep all cores busy with one.
constexpr size_t BatchBytes = 2 << 20, BatchDocuments = 1 << 14;

/// The process has ended while it was fed. Whoever reads its answers says so.
struct Ended {};
} // namespace

Tokenizer::Tokenizer(std::vector<std::string> command) : name(command.front()) {
  start(command);
  readHeader();
}

Tokenizer::~Tokenizer() {
  if (input >= 0)
    close(input);
  stop();
  awaitExit();
  if (output)
    std::fclose(output);
}

void Tokenizer::start(std::vector<std::string> &command) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  input = in[1];
  output = fdopen(out[0], "rb");
  std::vector<char *> words;
  for (std::string &word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  int problem = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  if (problem != 0) {
    child = -1;
    throw Error(fmt::format("cannot run {}, which tokenizes: {}; install it, or put it into PATH", name,
                            std::strerror(problem)));
  }
}

void Tokenizer::stop() const {
  if (child > 0)
    kill(child, SIGKILL);
}

int Tokenizer::awaitExit() {
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child = -1;
  return status;
}

void Tokenizer::failEnded() {
  int status = awaitExit();
  std::string how = WIFSIGNALED(status) ? fmt::format("by signal {}", WTERMSIG(status))
                                        : fmt::format("with exit code {}", WEXITSTATUS(status));
  throw Error(
      fmt::format("{}, which tokenizes, has ended {} before its work was done; what it says is above", name, how));
}

void Tokenizer::readHeader() {
  char *line = nullptr;
  size_t size = 0;
  ssize_t count = getline(&line, &size, output);
  std::string text(line ? line : "", count > 0 ? static_cast<size_t>(count) : 0);
  std::free(line);
  auto header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    failEnded();
  if (auto error = header.find("error"); error != header.end())
    throw Error(ExitCode::BadInput, error->get<std::string>());
  vocabularySize = header.at("vocabulary");
  masked = header.at("masked");
  if (!header.at("end").is_null())
    endToken = header.at("end").get<uint32_t>();
}

void Tokenizer::run(const Produce &produce, const Receive &receive,
                    const std::function<std::string(const Document &)> &placeOf) {
  std::thread feeder([&] { feed(produce); });
  try {
    while (readAnswer(receive, placeOf)) {
    }
  } catch (...) {
    stop(); // ends the feeder
    feeder.join();
    throw;
  }
  feeder.join();
  if (failure)
    std::rethrow_exception(failure);
  if (!underWay.empty())
    failEnded();
}

void Tokenizer::feed(const Produce &produce) {
  sigset_t pipeClosed; // is seen by errno
  sigemptyset(&pipeClosed);
  sigaddset(&pipeClosed, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipeClosed, nullptr);
  Batch batch;
  try {
    produce([&](Document document) {
      batch.bytes += document.text;
      batch.lengths.push_back(static_cast<uint32_t>(document.text.size()));
      document.text.clear();
      document.text.shrink_to_fit();
      batch.places.push_back(std::move(document));
      if (batch.bytes.size() >= BatchBytes || batch.lengths.size() >= BatchDocuments)
        send(batch);
    });
    if (!batch.lengths.empty())
      send(batch);
  } catch (const Ended &) {
  } catch (...) {
    failure = std::current_exception();
  }
  close(std::exchange(input, -1));
}

void Tokenizer::send(Batch &batch) {
  auto count = static_cast<uint32_t>(batch.lengths.size());
  {
    std::lock_guard lock(mutex);
    underWay.push_back(std::move(batch.places));
  }
  write(&count, sizeof(count));
  write(batch.lengths.data(), std::span(batch.lengths).size_bytes());
  write(batch.bytes.data(), batch.bytes.size());
  batch = {};
}

void Tokenizer::write(const void *data, size_t size) {
  for (const char *at = static_cast<const char *>(data); size != 0;) {
    ssize_t count = ::write(input, at, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw Ended();
    at += count;
    size -= static_cast<size_t>(count);
  }
}

bool Tokenizer::read(void *data, size_t size) { return std::fread(data, 1, size, output) == size; }

/// Takes the answer to one batch; false where there is none any more.
bool Tokenizer::readAnswer(const Receive &receive, const std::function<std::string(const Document &)> &placeOf) {
  uint32_t count = 0;
  if (!read(&count, sizeof(count)))
    return false;
  std::vector<Document> places;
  {
    std::lock_guard lock(mutex);
    places = std::move(underWay.front());
    underWay.pop_front();
  }
  if (count == ErrorMark) {
    uint32_t where[2] = {}; // document, bytes
    read(where, sizeof(where));
    std::string message(where[1], '\0');
    read(message.data(), message.size());
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", placeOf(places.at(where[0])), message));
  }
  std::vector<uint32_t> lengths(count);
  if (!read(lengths.data(), std::span(lengths).size_bytes()))
    failEnded();
  std::vector<uint32_t> tokens(std::accumulate(lengths.begin(), lengths.end(), size_t(0)));
  std::vector<uint8_t> counts(masked ? tokens.size() : 0);
  if (!read(tokens.data(), std::span(tokens).size_bytes()) || !read(counts.data(), counts.size()))
    failEnded();
  size_t begin = 0;
  for (size_t document = 0; document < count; begin += lengths[document++])
    receive(places.at(document), std::span(tokens).subspan(begin, lengths[document]),
            masked ? std::span(counts).subspan(begin, lengths[document]) : std::span<uint8_t>());
  return true;
}

} // namespace dtc
