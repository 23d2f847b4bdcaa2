#include "timing/timetables/csv.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace dtc::timetables {

static constexpr std::string_view pairSuffix = "OVERLAP_F_B";
static constexpr int32_t mostNumber = 1'000'000; // of a stage or a micro-batch

static std::string_view trim(std::string_view text) {
  constexpr const char *space = " \t\r";
  size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos)
    return "";
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

namespace {

/// Reads the cells of a file, and remembers where it is.
class Reader {
public:
  Reader(std::string_view text, const std::string &name) : text(text), name(name) {}

  Timetable read() {
    Timetable timetable{name, 0, {}, {}};
    while (!trim(text.substr(0, text.find('\n'))).empty()) {
      ++row;
      timetable.ranks.push_back(readRow(takeUntil(text, '\n')));
    }
    if (text.find_first_not_of(" \t\r\n") != std::string_view::npos)
      throw Error(ExitCode::BadInput, fmt::format("{}: row {} is empty, and there are rows behind it: each row is a "
                                                  "rank",
                                                  name, row + 1));
    if (timetable.ranks.empty())
      throw Error(ExitCode::BadInput, fmt::format("{}: there are no entries", name));
    place(timetable);
    return timetable;
  }

private:
  static std::string_view takeUntil(std::string_view &rest, char end) {
    size_t length = rest.find(end);
    std::string_view taken = rest.substr(0, length);
    rest.remove_prefix(length == std::string_view::npos ? rest.size() : length + 1);
    return taken;
  }

  std::vector<Entry> readRow(std::string_view line) {
    std::vector<Entry> entries;
    column = 0;
    do {
      ++column;
      std::string_view cell = trim(takeUntil(line, ','));
      if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
        cell = trim(cell.substr(1, cell.size() - 2));
      if (cell.empty())
        continue;
      if (cell.front() == '(')
        readPair(cell, entries);
      else
        entries.push_back(readEntry(cell, cell));
    } while (!line.empty());
    return entries;
  }

  void readPair(std::string_view cell, std::vector<Entry> &entries) {
    size_t close = cell.find(')'), middle = cell.find(';');
    if (close == std::string_view::npos || cell.substr(close + 1) != pairSuffix || middle > close ||
        cell.find(';', middle + 1) < close)
      fail(cell, "two co-scheduled entries are written (0F7;7B3)OVERLAP_F_B");
    entries.push_back(readEntry(trim(cell.substr(1, middle - 1)), cell));
    entries.back().withNext = true;
    entries.push_back(readEntry(trim(cell.substr(middle + 1, close - middle - 1)), cell));
  }

  Entry readEntry(std::string_view word, std::string_view cell) {
    size_t letters = word.find_first_not_of("0123456789");
    size_t behind = std::min(word.find_first_of("0123456789", std::min(letters, word.size())), word.size());
    if (letters == std::string_view::npos)
      letters = behind = word.size();
    std::string_view kind = word.substr(letters, behind - letters);
    constexpr std::string_view kinds = "FBIW";
    if (kind.starts_with("SEND_") || kind.starts_with("RECV_") || kind == "UNSHARD" || kind == "RESHARD" ||
        kind == "REDUCE_GRAD")
      fail(cell, "it is communication, which follows from the other entries: leave it out");
    if (kind.size() != 1 || kinds.find(kind) == std::string_view::npos)
      fail(cell, "an entry is a stage, one of F, B, I and W, and a micro-batch, as 0F3");
    return {static_cast<Kind>(kinds.find(kind)), false, readNumber(word.substr(0, letters), cell),
            readNumber(word.substr(behind), cell)};
  }

  int32_t readNumber(std::string_view digits, std::string_view cell) {
    int32_t number = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || number >= mostNumber)
      fail(cell, fmt::format("an entry is a stage, a letter and a micro-batch, as 0F3, with numbers below {}",
                             mostNumber));
    return number;
  }

  [[noreturn]] void fail(std::string_view cell, std::string_view why) const {
    constexpr size_t most = 60; // characters of a cell that are shown
    throw Error(ExitCode::BadInput, fmt::format("{}: row {}, column {}: '{}{}': {}", name, row, column,
                                                cell.substr(0, most), cell.size() > most ? "..." : "", why));
  }

  static void place(Timetable &timetable) {
    for (size_t rank = 0; rank < timetable.ranks.size(); ++rank)
      for (const Entry &entry : timetable.ranks[rank]) {
        auto stage = static_cast<size_t>(entry.stage);
        if (stage >= timetable.rankOf.size())
          timetable.rankOf.resize(stage + 1, -1);
        if (timetable.rankOf[stage] < 0)
          timetable.rankOf[stage] = static_cast<int32_t>(rank);
        timetable.microBatches = std::max(timetable.microBatches, entry.microBatch + 1);
      }
  }

  std::string_view text; ///< what is left
  const std::string &name;
  size_t row = 0, column = 0;
};

} // namespace

Timetable readCsv(std::string_view text, const std::string &name) { return Reader(text, name).read(); }

Timetable readCsvFile(const std::string &path) {
  return readCsv(MappedFile(path).text(), path);
}

std::string writeCsv(const Timetable &timetable) {
  std::string text;
  for (const std::vector<Entry> &list : timetable.ranks) {
    for (size_t at = 0; at < list.size(); ++at) {
      text += at > 0 ? "," : "";
      if (!list[at].withNext) {
        text += textOf(list[at]);
        continue;
      }
      text += fmt::format("({};{}){}", textOf(list[at]), textOf(list[at + 1]), pairSuffix);
      ++at;
    }
    text += "\n";
  }
  return text;
}

} // namespace dtc::timetables
