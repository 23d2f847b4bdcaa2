// Programs of which only the communication is written down: a line of text for each rank, which plays its own role.
//
//   send x 1      to rank 1; recv x 1: from it. On group 0, or another: send x 1 on 2
//   sum x         an all-reduce over all ranks; sum x on 2
//   gather x      an all-gather, likewise
//   copy x        a copy that is started
//   wait x        for what was started under that name
//
// separated by commas. Each name has a token of its own.
#pragma once

#include "runtime/support/error.h"
#include "test/runtime/program/manifests.h"
#include "timing/certify/certify.h"

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace dtc::test {

/// Of all ranks, on a channel; or of some only.
struct HandGroup {
  uint32_t channel = 0;
  std::vector<uint32_t> members = {};
};

class HandProgram {
public:
  explicit HandProgram(int ranks, const std::vector<HandGroup> &groups = {{}}) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name("x");
    axis.set_size(ranks);
    for (const HandGroup &each : groups) {
      abi::Group &group = *manifest.add_groups();
      group.set_channel(each.channel);
      group.mutable_members()->Add(each.members.begin(), each.members.end());
      abi::AxisRef &ref = *group.add_axes();
      ref.set_axis("x");
      ref.set_pre(1);
      ref.set_size(ranks);
    }
    manifest.add_stages();
  }

  /// One role for each line, which the next rank plays; each has one list, which its step runs.
  HandProgram(const std::vector<std::string> &lines, const std::vector<HandGroup> &groups = {{}})
      : HandProgram(static_cast<int>(lines.size()), groups) {
    for (uint32_t rank = 0; rank < lines.size(); ++rank) {
      std::string name = std::string(1, static_cast<char>('a' + rank));
      addRole("role " + name, {rank});
      list(name, lines[rank], rank);
      addEntry(*manifest.mutable_roles(static_cast<int>(rank)), abi::stepTimetable, name);
    }
  }

  abi::Role &addRole(const std::string &name, const std::vector<uint32_t> &ranks, uint32_t places = 1) {
    abi::Role &role = *manifest.add_roles();
    role.set_name(name);
    addSpace(role, abi::Space::REGISTERED, 0, 64, places);
    for (uint32_t rank : ranks) {
      abi::RankRange &range = *role.add_ranks();
      range.set_first(rank);
      range.set_count(1);
    }
    return role;
  }

  /// `rank`: from which others are counted, where it sends or receives.
  void list(const std::string &name, const std::string &text, int64_t rank = 0) {
    abi::CommandList &made = addList(manifest, name);
    std::istringstream commands(text);
    for (std::string command; std::getline(commands, command, ',');)
      add(made, command, rank);
  }

  abi::Manifest manifest;

private:
  void add(abi::CommandList &made, const std::string &text, int64_t rank) {
    std::istringstream words(text);
    std::string verb, value, on;
    words >> verb >> value;
    uint32_t token = tokens.emplace(value, tokens.size()).first->second, group = 0;
    abi::Command &command = *made.add_commands();
    int64_t peer = 0;
    bool moves = verb == "send" || verb == "recv";
    if (moves)
      words >> peer;
    if (words >> on)
      words >> group;
    if (moves) {
      abi::Transfer &transfer = *(verb == "send" ? command.mutable_send() : command.mutable_recv());
      transfer.set_group(group);
      transfer.set_shift(peer - rank);
      transfer.set_elements(16);
      transfer.set_token(token);
      transfer.set_value(value);
    } else if (verb == "wait") {
      command.mutable_wait()->set_token(token);
    } else if (verb == "copy") {
      command.mutable_copy()->set_token(token);
    } else {
      abi::Collective &collective = *command.mutable_start();
      collective.set_kind(verb == "sum" ? abi::Collective::ALL_REDUCE : abi::Collective::ALL_GATHER);
      collective.set_group(group);
      collective.set_outer(1);
      collective.set_chunk(16);
      collective.set_token(token);
      collective.set_value(value);
    }
  }

  std::map<std::string, uint32_t> tokens;
};

/// Empty where the program is certified.
inline std::string refusalOf(const abi::Manifest &manifest) {
  try {
    timing::certify(manifest);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

} // namespace dtc::test
