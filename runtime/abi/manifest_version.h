// The version of manifest.proto that the compiler writes and the runtime reads. It increases when a field's meaning
// changes or a new field is required; programs of another version are refused.
#pragma once

#include <cstdint>

namespace dtc {

/// 2: launches have the element types of their buffers; copies and fills have their element widths.
/// 3: timetables say what takes a micro-batch and what an evaluation runs; new output "update_applied".
/// 4: collectives name a group of a table, groups a channel; tokens are unique within a role.
/// 5: send, recv, copy; several roles.
/// 6: optimizer state has names instead of numbers; slot classes.
/// 7: a table of layers, to which parameters refer; commands have a layer, a direction and work.
/// 8: parameters may have copies, and a timetable makes them.
/// 9: roles have tensors, spaces and named timetables, and share lists that are relative to role, stage and place.
/// 10: pipelines: lists with the duty TRANSFER; the timetable's name.
/// 11: starts of several parts, broadcasts.
/// 12: inputs have a source, optimizers their settings; host memory and copies with tokens, rows with weights, counts
/// of rows and of grids; the compiler's choices.
/// 13: the model family's defaults for keys missing in config.json.
/// 14: a certificate against deadlock.
/// 15: ranks with several stages, whose summands of a gradient have slots; lists whose duty is an exchange.
/// 16: steps overlap by a rule instead of lists of their own, and entries move on from place to place.
/// 17: steps may have to be redone.
inline constexpr uint32_t ManifestVersion = 17;

} // namespace dtc
