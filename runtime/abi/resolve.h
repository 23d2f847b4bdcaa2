// A role's command lists with everything that they say relative to role, stage and place made absolute. What runs,
// interprets or shows lists reads this form.
//
//   in the program                        resolved
//   address: space and bytes              bytes from the arena's begin, or the host's memory's (addresses.h)
//   token, and a space                    token of the place that works
//   layer of the stage                    index into Manifest.layers
//   random site of the stage              number
//   value ".attn.c_attn" in layer "h.3"   "h.3.attn.c_attn"
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::abi {

class Resolver {
public:
  /// Both outlive the resolver. Nothing of them need be valid: what does not exist is resolved to what no check
  /// accepts.
  Resolver(const Manifest &manifest, const Role &role);

  /// The list of an entry as it runs there; an empty one where there is none of that name.
  CommandList resolve(const TimetableEntry &entry) const;

  /// One of its commands, likewise, and the token of one.
  Command resolve(const Command &command, const TimetableEntry &entry) const;
  uint32_t tokenOf(const Command &command, const TimetableEntry &entry) const;

  /// Each list that the role's timetables run, in the manifest's order, as the first entry that names it runs it.
  std::vector<CommandList> all() const;

private:
  void makeAbsolute(Command &command, const TimetableEntry &entry) const;

  const Manifest &manifest;
  const Role &role;
  std::map<std::string_view, const CommandList *> lists;
  uint32_t tokens = 0; ///< all of one place are smaller
};

/// Of a resolved command: in the model, "h.3.attn.c_attn". Empty where the program does not say.
std::string locationOf(const Manifest &manifest, const Command &command);

} // namespace dtc::abi
