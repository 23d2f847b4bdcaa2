// A role's command lists, with everything that is relative to role, stage and place made absolute. Code that runs,
// interprets or shows lists reads this form.
//
//   in the program                        resolved
//   address: space and bytes              bytes from the start of the arena or of the host's memory (addresses.h)
//   token, and a space                    token of the place in use
//   layer of the stage                    index into Manifest.layers
//   random site of the stage              number
//   value ".attn.c_attn" in layer "h.3"   "h.3.attn.c_attn"
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::abi {

class Resolver {
public:
  /// Both outlive the resolver. Neither need be valid: whatever does not exist is resolved to something that every
  /// check rejects.
  Resolver(const Manifest &manifest, const Role &role);
  /// One for each role.
  static std::vector<Resolver> ofRoles(const Manifest &manifest);

  /// The list of an entry as it runs there; empty if there is none of that name.
  CommandList resolve(const TimetableEntry &entry) const;

  /// Likewise for one command, and for the token of one.
  Command resolve(const Command &command, const TimetableEntry &entry) const;
  uint32_t tokenOf(const Command &command, const TimetableEntry &entry) const;

  /// Each list that the role's timetables run, in the manifest's order, resolved for the first entry that names it.
  std::vector<CommandList> all() const;

private:
  /// The program's lists, by name.
  struct Lists {
    explicit Lists(const Manifest &manifest);
    std::map<std::string_view, const CommandList *> byName;
    uint32_t tokens = 0; ///< all tokens of one place are smaller
  };
  Resolver(const Manifest &manifest, const Role &role, std::shared_ptr<const Lists> lists)
      : manifest(manifest), role(role), lists(std::move(lists)) {}

  void makeAbsolute(Command &command, const TimetableEntry &entry) const;

  const Manifest &manifest;
  const Role &role;
  std::shared_ptr<const Lists> lists;
};

/// The location of a resolved command in the model: "h.3.attn.c_attn". Empty if the program does not say.
std::string locationOf(const Manifest &manifest, const Command &command);

} // namespace dtc::abi
