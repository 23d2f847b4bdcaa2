#include "runtime/kernels/cuda/choices.h"

#include "runtime/support/error.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace dtc::cuda {

using namespace std::chrono_literals;

ChoiceFile::ChoiceFile(std::string given)
    : path(std::move(given)), file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file < 0)
    fail(std::string("cannot be opened: ") + std::strerror(errno));
  readMore();
}

ChoiceFile::~ChoiceFile() { close(file); }

void ChoiceFile::fail(const std::string &what) const {
  throw Error(ExitCode::BadInput, fmt::format("the file of --tune, '{}', {}", path, what));
}

/// A choice; nullopt if the line is malformed.
static std::optional<ProductChoice> parseChoice(std::string_view text) {
  ProductChoice choice;
  std::string_view form = text.substr(0, text.find(' '));
  choice.isPlain = form == "plain";
  if (!choice.isPlain && form != "fused")
    return std::nullopt;
  text.remove_prefix(form.size());
  for (uint64_t &word : choice.algorithm.data) {
    if (text.empty() || text.front() != ' ')
      return std::nullopt;
    text.remove_prefix(1);
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    if (problem != std::errc())
      return std::nullopt;
    text.remove_prefix(size_t(end - text.data()));
  }
  return text.empty() ? std::optional(choice) : std::nullopt;
}

void ChoiceFile::addLine(const std::string &line) {
  ++lines;
  size_t tab = line.find('\t');
  std::optional<ProductChoice> choice;
  if (tab != std::string::npos)
    choice = parseChoice(std::string_view(line).substr(tab + 1));
  if (!choice)
    fail(fmt::format("has something else in line {}; give --tune another file, or delete it to choose anew", lines));
  known.try_emplace(line.substr(0, tab), *choice); // the first entry wins
}

/// Reads what others have added, from where the last read ended. Writes always append.
void ChoiceFile::readMore() {
  std::array<char, 4096> block;
  ssize_t bytes = 0;
  while ((bytes = read(file, block.data(), block.size())) != 0) {
    if (bytes < 0 && errno == EINTR)
      continue;
    if (bytes < 0)
      fail(std::string("cannot be read: ") + std::strerror(errno));
    rest.append(block.data(), size_t(bytes));
  }
  for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
    addLine(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
}

/// In one write, so that lines of different writers never mix.
void ChoiceFile::append(const std::string &key, const ProductChoice &choice) {
  std::string line = fmt::format("{}\t{}", key, choice.isPlain ? "plain" : "fused");
  for (uint64_t word : choice.algorithm.data)
    line += fmt::format(" {:x}", word);
  line += '\n';
  if (write(file, line.data(), line.size()) != ssize_t(line.size()))
    fail(std::string("cannot be written: ") + std::strerror(errno));
  lseek(file, 0, SEEK_END); // the next read continues here
}

std::optional<ProductChoice> ChoiceFile::find(const std::string &key) {
  auto found = known.find(key);
  if (found == known.end()) {
    readMore();
    found = known.find(key);
  }
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

ProductChoice ChoiceFile::findOrMake(const std::string &key, const std::function<ProductChoice()> &make) {
  for (;; std::this_thread::sleep_for(1ms)) {
    if (std::optional<ProductChoice> choice = find(key))
      return *choice;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
      break;
    if (errno != EWOULDBLOCK && errno != EINTR)
      fail(std::string("cannot be locked: ") + std::strerror(errno));
  }
  struct Lock {
    int file;
    ~Lock() { flock(file, LOCK_UN); }
  } lock{file};
  if (std::optional<ProductChoice> choice = find(key)) // made before we got the lock
    return *choice;
  ProductChoice choice = make();
  append(key, choice);
  known.emplace(key, choice);
  return choice;
}

} // namespace dtc::cuda
