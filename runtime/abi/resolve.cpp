#include "runtime/abi/resolve.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/timetables.h"

#include <algorithm>

namespace dtc::abi {

/// Calls visit(token message) for a command that starts something or waits for it.
template <typename Visit> static void visitToken(Command &command, Visit visit) {
  if (command.has_wait())
    visit(*command.mutable_wait());
  else if (command.has_start())
    visit(*command.mutable_start());
  else if (command.has_send())
    visit(*command.mutable_send());
  else if (command.has_recv())
    visit(*command.mutable_recv());
  else if (startsCopy(command))
    visit(*command.mutable_copy());
}

/// Calls visit(address) for each address of a command and replaces the address with the result.
template <typename Visit> static void visitAddresses(Command &command, Visit visit) {
  if (command.has_launch()) {
    Launch &launch = *command.mutable_launch();
    for (uint64_t &buffer : *launch.mutable_buffers())
      buffer = visit(buffer);
    if (launch.has_grid_count())
      launch.set_grid_count(visit(launch.grid_count()));
  }
  auto pair = [&](auto &moved) {
    moved.set_input(visit(moved.input()));
    moved.set_output(visit(moved.output()));
  };
  if (command.has_start()) {
    Collective &call = *command.mutable_start();
    pair(call);
    if (hasLogs(call)) {
      call.set_log_input(visit(call.log_input()));
      call.set_log_output(visit(call.log_output()));
    }
    if (call.has_counts())
      call.set_counts(visit(call.counts()));
    if (call.has_received())
      call.set_received(visit(call.received()));
  }
  if (command.has_copy())
    pair(*command.mutable_copy());
  if (command.has_send())
    command.mutable_send()->set_buffer(visit(command.send().buffer()));
  if (command.has_recv())
    command.mutable_recv()->set_buffer(visit(command.recv().buffer()));
}

/// ".attn.c_attn" in layer "h.3" is "h.3.attn.c_attn", "." the layer itself; other text means itself.
static std::string withinLayer(const Manifest &manifest, const Command &command, const std::string &text) {
  if (!text.starts_with('.') || !command.has_layer())
    return text;
  return layerName(manifest, command.layer()) + (text.size() == 1 ? "" : text);
}

std::string locationOf(const Manifest &manifest, const Command &command) {
  if (command.location() >= uint32_t(manifest.locations_size()))
    return "";
  return withinLayer(manifest, command, manifest.locations(static_cast<int>(command.location())));
}

Resolver::Lists::Lists(const Manifest &manifest) {
  for (const CommandList &list : manifest.lists()) {
    byName.emplace(list.name(), &list);
    for (const Command &command : list.commands())
      tokens = std::max(tokens, 1 + abi::tokenOf(command));
  }
}

Resolver::Resolver(const Manifest &manifest, const Role &role)
    : Resolver(manifest, role, std::make_shared<const Lists>(manifest)) {}

std::vector<Resolver> Resolver::ofRoles(const Manifest &manifest) {
  auto lists = std::make_shared<const Lists>(manifest);
  std::vector<Resolver> resolvers;
  for (const Role &role : manifest.roles())
    resolvers.push_back(Resolver(manifest, role, lists));
  return resolvers;
}

uint32_t Resolver::tokenOf(const Command &command, const TimetableEntry &entry) const {
  return abi::tokenOf(command) + lists->tokens * placeOf(entry, tokenSpaceOf(command));
}

void Resolver::makeAbsolute(Command &command, const TimetableEntry &entry) const {
  visitAddresses(command,
                 [&](uint64_t address) { return arenaOffset(role, address, placeOf(entry, spaceOf(address))); });
  visitToken(command, [&](auto &message) { message.set_token(tokenOf(command, entry)); });
  const Stage &stage = stageOf(manifest, entry);
  if (command.has_layer())
    command.set_layer(command.layer() < uint32_t(stage.layers_size()) ? stage.layers(static_cast<int>(command.layer()))
                                                                      : uint32_t(manifest.layers_size()));
  if (command.has_launch())
    for (Scalar &scalar : *command.mutable_launch()->mutable_scalars())
      if (scalar.has_site() && scalar.site() < uint32_t(stage.sites_size()))
        scalar.set_value(stage.sites(static_cast<int>(scalar.site())));
  if (command.has_start())
    command.mutable_start()->set_value(withinLayer(manifest, command, command.start().value()));
  if (command.has_send())
    command.mutable_send()->set_value(withinLayer(manifest, command, command.send().value()));
  if (command.has_recv())
    command.mutable_recv()->set_value(withinLayer(manifest, command, command.recv().value()));
}

CommandList Resolver::resolve(const TimetableEntry &entry) const {
  auto list = lists->byName.find(entry.list());
  if (list == lists->byName.end())
    return {};
  CommandList resolved = *list->second;
  for (Command &command : *resolved.mutable_commands())
    makeAbsolute(command, entry);
  return resolved;
}

Command Resolver::resolve(const Command &command, const TimetableEntry &entry) const {
  Command resolved = command;
  makeAbsolute(resolved, entry);
  return resolved;
}

std::vector<CommandList> Resolver::all() const {
  std::map<std::string_view, const TimetableEntry *> first;
  for (const Timetable &timetable : role.timetables())
    forEachEntry(timetable, [&](const TimetableEntry &entry) { first.emplace(entry.list(), &entry); });
  std::vector<CommandList> resolved;
  for (const CommandList &list : manifest.lists())
    if (auto entry = first.find(list.name()); entry != first.end())
      resolved.push_back(resolve(*entry->second));
  return resolved;
}

} // namespace dtc::abi
