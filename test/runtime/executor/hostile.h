// A small valid program, and the validator's message after a change to it.
#pragma once

#include "runtime/executor/validate.h"

#include "runtime/support/error.h"
#include "test/runtime/program/manifests.h"
#include "test/runtime/program/toy_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

namespace dtc::test {

using abi::Manifest;

inline Manifest program(int64_t accumulation = 1) {
  ToyOptions options;
  options.dp = 2;
  options.tp = 2;
  options.accumulation = accumulation;
  return toyManifest(options);
}

inline std::string refusalOf(const Manifest &manifest) {
  try {
    parseManifest(manifest.SerializeAsString(), "gpt.train");
    return "accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("gpt.train: "));
    return error.what();
  }
}

inline abi::Tensor &tensor(Manifest &manifest, const std::string &name) {
  for (abi::Tensor &each : *manifest.mutable_roles(0)->mutable_tensors())
    if (each.name() == name)
      return each;
  throw std::logic_error(name);
}

inline abi::CommandList &list(Manifest &manifest, const std::string &name) { return listIn(manifest, name); }

inline abi::TimetableEntry &step(Manifest &manifest, int entry) { return *entriesOf(manifest).Mutable(entry); }
inline auto &evaluation(Manifest &manifest) { return entriesOf(manifest, abi::evaluationTimetable); }
inline auto &refresh(Manifest &manifest) { return entriesOf(manifest, abi::refreshTimetable); }

/// Another tensor of the role, like this one.
inline abi::Tensor &addTensor(Manifest &manifest, abi::Tensor like) {
  return *manifest.mutable_roles(0)->add_tensors() = std::move(like);
}

/// Makes the arena and its first space larger by this much; returns their old ends.
inline uint64_t grow(Manifest &manifest, uint64_t bytes) {
  abi::Role &role = *manifest.mutable_roles(0);
  uint64_t end = role.arena_bytes();
  role.set_arena_bytes(end + bytes);
  role.mutable_spaces(0)->set_stride(end + bytes);
  return end;
}

inline abi::Launch &launch(Manifest &manifest) {
  return *list(manifest, "begin").mutable_commands(0)->mutable_launch();
}

inline abi::Collective &collective(Manifest &manifest) {
  return *list(manifest, "join").mutable_commands(0)->mutable_start();
}

/// An entry works in this place of the second space.
inline void setPlace(abi::TimetableEntry &entry, uint32_t place) {
  entry.add_places(0);
  entry.add_places(place);
}

inline abi::RankRange &addRanks(abi::Role &role, uint32_t first, uint32_t count) {
  abi::RankRange &range = *role.add_ranks();
  range.set_first(first);
  range.set_count(count);
  return range;
}

/// A valid copy, at the end of a list.
inline abi::Copy &copy(Manifest &manifest) {
  abi::Copy &copy = *list(manifest, "turn").add_commands()->mutable_copy();
  copy.set_output(64);
  copy.set_elements(2);
  return copy;
}

struct Hostile {
  const char *name;
  void (*change)(Manifest &);
  const char *refusal;
};

inline void PrintTo(const Hostile &hostile, std::ostream *out) { *out << hostile.name; }

/// Each kind of thing has a table of its own, in a file of its name.
class ValidateTest : public testing::TestWithParam<Hostile> {};

} // namespace dtc::test
