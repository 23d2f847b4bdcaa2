#include "tools/verify/Marks.h"

#include "runtime/abi/marks.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "tools/verify/Statements.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::verify {

/// "forward of h.3, 128 operations of class 4 on 64 bytes read and 32 written".
static std::string marksText(const abi::Command &command, const abi::Manifest &manifest) {
  std::string_view direction = abi::nameOf(command.direction());
  std::string text(direction.empty() ? "of no part" : direction);
  if (command.has_layer())
    text += " of " + abi::layerName(manifest, command.layer());
  if (command.is_again())
    text += ", made again";
  const abi::Work &work = command.work();
  return text + fmt::format(", {} operations of class {} on {} bytes read and {} written", work.flops(),
                            abi::Work::Class_Name(work.kind()), work.bytes_read(), work.bytes_written());
}

/// "FORWARD_PASS".
static std::string dutyText(const abi::CommandList &list) {
  return abi::CommandList::Duty_IsValid(list.duty()) ? abi::CommandList::Duty_Name(list.duty()) : "of an unknown duty";
}

static std::string findDifference(const abi::CommandList &list, const abi::CommandList &expected,
                                  const abi::Manifest &program, const abi::Manifest &other) {
  if (list.duty() != expected.duty())
    return fmt::format("list '{}' is said to be {}; the model's: {}", list.name(), dutyText(list), dutyText(expected));
  if (list.commands_size() != expected.commands_size())
    return "";
  for (int at = 0; at < list.commands_size(); ++at) {
    std::string stated = marksText(list.commands(at), program), right = marksText(expected.commands(at), other);
    if (stated != right)
      return fmt::format("command {} of list '{}' is said to be {}; the model's: {}", at, list.name(), stated, right);
  }
  return "";
}

/// Which ranks play a role, and when it does what.
static std::string findRoleDifference(const abi::Manifest &program, const abi::Manifest &expected) {
  if (program.roles_size() != expected.roles_size())
    return fmt::format("it has {} roles; the model's: {}", program.roles_size(), expected.roles_size());
  for (int64_t rank = 0; rank < Mesh(program.mesh()).ranks(); ++rank)
    if (int own = abi::roleIndexOf(program, rank), right = abi::roleIndexOf(expected, rank); own != right)
      return fmt::format("rank {} plays role {}; the model's: {}", rank, own, right);
  for (int role = 0; role < program.roles_size(); ++role)
    if (std::string difference = findTimetableDifference(program.roles(role), expected.roles(role));
        !difference.empty())
      return fmt::format("role '{}': {}", program.roles(role).name(), difference);
  return "";
}

std::string findMarkDifference(const abi::Manifest &program, const abi::Manifest &expected) {
  if (std::string difference = findRoleDifference(program, expected); !difference.empty())
    return difference;
  for (int role = 0; role < program.roles_size(); ++role) {
    std::vector<abi::CommandList> others = abi::Resolver(expected, expected.roles(role)).all();
    for (const abi::CommandList &list : abi::Resolver(program, program.roles(role)).all())
      for (const abi::CommandList &other : others)
        if (list.name() == other.name())
          if (std::string difference = findDifference(list, other, program, expected); !difference.empty())
            return difference;
  }
  return "";
}

} // namespace dtc::verify
