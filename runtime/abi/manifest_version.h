// Which form of manifest.proto the compiler writes and the runtime reads. It counts up when the meaning of a field
// changes or a new one must be there; programs of another version are refused.
#pragma once

#include <cstdint>

namespace dtc {

/// 2: launches say the element types of their buffers, copies and fills how wide their elements are.
/// 3: the timetables say what takes a micro-batch and what an evaluation runs; "update_applied" is there.
/// 4: collectives name a group of a table, groups a channel; tokens are a role's own.
/// 5: send, recv, copy; several roles.
/// 6: what an optimizer keeps has a name instead of a number; slot classes.
/// 7: a table of layers, to which parameters refer; commands say layer, direction and work.
/// 8: parameters may have copies, and a timetable makes them.
/// 9: roles have tensors, spaces, named timetables and share lists, which say all relative to role, stage and place.
/// 10: pipelines: lists whose duty is a transfer, the name of the timetable.
/// 11: starts of several parts, broadcasts.
/// 12: inputs say their source, optimizers their settings; memory of the host and copies that are started, rows with
/// weights, counts of rows and of grids; the choices that were made.
/// 13: what the model's family assumes where a config.json is silent.
/// 14: a certificate against deadlock.
inline constexpr uint32_t ManifestVersion = 14;

} // namespace dtc
