// What the verbs that look into a compiled program share.
#pragma once

#include "runtime/abi/container.h"
#include "runtime/abi/manifest.pb.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dtc {

/// The manifest of a program file. Throws Error (BadInput) for any other file.
abi::Manifest readManifest(const std::string &path);

/// The size of an axis in a mesh as a user writes it, "dp=2,tp=2"; 1 where it does not name the axis. The compiler
/// reports what is wrong with the text.
int64_t axisSize(const std::string &mesh, const std::string &axis);

/// "dp=2, tp=2".
std::string meshText(const abi::Mesh &mesh);

/// "tp", "dp x tp", or a part of an axis, "tp:(1)2"; "no axis" for none.
std::string axesText(const google::protobuf::RepeatedPtrField<abi::AxisRef> &axes, const abi::Mesh &mesh);
/// The axes, and " {0, 3}" where only these members along them meet.
std::string groupText(const abi::Group &group, const abi::Mesh &mesh);

/// Each dimension with the axes that split it: "embed, mlp/tp"; then " partial over dp". `dimNames` may be empty: then
/// sizes stand for names.
std::string shardingText(const abi::Tensor &tensor, const google::protobuf::RepeatedPtrField<std::string> &dimNames,
                         const abi::Mesh &mesh);

/// "1.5 GB", "12 bytes": powers of 1000.
std::string bytesText(double bytes);

/// All that the certificate states: "4 ranks in 2 classes that meet in 3 groups; evaluation: 1 step, 20 commands; step:
/// ... (1f0a)".
std::string certificateText(const abi::Certificate &certificate);

/// "1 rank", "2 ranks".
std::string ranksText(int64_t ranks);

/// "[2, 3]".
std::string shapeText(const google::protobuf::RepeatedField<int64_t> &shape);

/// "all_reduce", ...: the name of the operation in the dialect; "all_to_all (by counts)".
std::string kindText(const abi::Collective &collective);

/// Where in the model a command is: "h.0.attn", "the whole step".
std::string locationText(const abi::Manifest &manifest, const abi::Command &command);

/// Elements of all parameters.
int64_t totalParameters(const abi::Manifest &manifest);

/// How often a list runs in a training step; 0: outside it, as in evaluation.
int64_t timesInStep(const abi::Role &role, const abi::CommandList &list);

/// The scratch memory of kernels outside the arena: the most that any kernel needs, as they run one after the other.
uint64_t scratchBytes(const abi::Manifest &manifest);

/// The version of the --json output (docs/json.md): increased when a field changes its meaning or is removed.
inline constexpr int jsonSchema = 1;

/// Writes the answer of a verb's --json: an object that begins with "schema" and "dtc", the version that wrote it.
void printJson(const nlohmann::ordered_json &fields);

} // namespace dtc
