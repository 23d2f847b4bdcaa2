// A plan before it has been tried: everything that the search decides, and nothing else.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::plans {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  auto operator<=>(const MeshAxis &) const = default;
};

struct Candidate {
  /// Axes with more than one rank, outermost first: ranks that differ in the last axis alone are closest together,
  /// unless the cluster file says otherwise (axis_order).
  std::vector<MeshAxis> mesh;
  bool splitsSequence = false;    ///< along tp, between the blocks: megatron-sp
  std::string state = "ddp";      ///< how state is split over dp and cp: "ddp", "zero1", "zero2", "zero3", "hsdp:4"
  int64_t microBatches = 1;       ///< of a step: the setting accumulation
  std::string timetable = "1f1b"; ///< of a pipeline; without one it does not matter and stays so
  std::string recompute = "cheap"; ///< one of runtime/abi/recompute.h

  int64_t sizeOf(std::string_view axis) const; ///< 1 where the mesh lacks it
  int64_t devices() const;
  /// "pp=2,dp=4,tp=8"; "dp=1" for one device.
  std::string meshText() const;
  /// As --strategy takes it: "megatron-sp+cp+zero1", "megatron", "ddp".
  std::string strategyText() const;
  /// "pp=2,dp=4,tp=8, megatron-sp+zero1, zbv, 16 micro-batches, recompute full". Left out are the timetable and a
  /// single micro-batch where there is no pipeline, and the recomputation that is the default. Texts of candidates
  /// differ.
  std::string text() const;

  auto operator<=>(const Candidate &) const = default;
};

} // namespace dtc::plans
