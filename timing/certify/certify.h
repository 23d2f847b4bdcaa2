// The certificate against deadlock: no rank of a program ever waits for one that waits for it.
//
// What is followed. A rank walks its timetable, list by list, command by command. A start hands a command over and goes
// on; a wait stops the rank until the command with its token has taken place. A command takes place when it can on
// every rank that takes part (the members of a collective; sender and receiver of a message): each has started it, and
// on each
//   - all that was started before it on its channel has taken place: transports carry out a channel's commands in
//   order;
//   - of collectives, all collectives that were started before it have, whatever their channels: a device may have room
//     for one only, and NCCL asks for one order of all.
// The n-th that a rank starts meets the n-th of the others: of collectives by group, of messages by group and pair, as
// transports match them. Between two steps the ranks meet (the runtime exchanges who asks to stop), whatever is still
// under way. Launches take their time and end; copies wait for no other rank.
//
// No transport waits for more. Where it waits for less (memory of one host has a place for each channel), all that
// happens here can happen there too.
//
// Why one execution speaks for all. Each event (a rank passes a command; a command takes place) has a fixed set of
// events that must come before it, decided by the lists alone: there are no branches, no timeouts, and nobody takes
// what another could have had. So an event that can happen stays possible whatever else happens first, and all
// executions that go on as long as anything can happen end with the same set of events. If one passes all commands,
// then all do, however long each takes.
//
// Why one rank speaks for its class. Ranks are divided into classes (rank_classes.h) so that all ranks of a class play
// one role, and each meets the same classes in each of its groups and at the other end of each message. Merge the
// events of each class's ranks: what an event of one rank needs are events of classes that are the same for all its
// ranks. A circle among the ranks' events would be one among the merged ones, so where these have none, the ranks have
// none, however many there are.
//
// Why a few steps speak for any number. Between two steps what is under way is compared with what it was a step before:
// the same commands, equally close to being met, in the next places of those that move on. (All entries that use a
// token move on with it or none does, so steps differ in nothing but the numbers of places.) When it is the same, later
// steps repeat this one. A timetable whose steps leave more and more under way is refused. So is one whose last step
// leaves anything under way, however many steps there are: each number is tried until steps repeat. A step that begins
// nothing of a later step than the run has is the same in all longer runs, so these share their beginning.
//
// What is not checked: that launches end, that a rank is not killed, that the network delivers, that the host fills in
// its inputs. Communicators play no part: groups are one table, which all ranks go through in one order before the
// first step (runtime/comm), so none is made later, in an order that could differ between ranks.
#pragma once

#include "runtime/abi/manifest.pb.h"

namespace dtc::timing {

/// Follows all timetables of a program that validateManifest() accepts. Throws Error (BadInput) with one sentence where
/// a rank would wait for ever, or where ranks do not match what they start. The sentence names the rank and whom it
/// waits for, with ranks, lists, commands and values.
abi::Certificate certify(const abi::Manifest &manifest);

} // namespace dtc::timing
