// The files that a run leaves in its folder, --out, besides its event files: shared by writers and readers.
#pragma once

namespace dtc {

/// Of a run's folder, by name.
struct RunFiles {
  static constexpr const char *Settings = "settings.toml", ///< as 'dtc compile --config' takes them
      *Manifest = "manifest.pb", ///< the program's dtc.abi.Manifest, without the model's small files
          *Metrics = "metrics.jsonl", *Trace = "trace.json", *Checkpoints = "checkpoints",
                              *Lock = "lock"; ///< locked by the process that writes
};

} // namespace dtc
