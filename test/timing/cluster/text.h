// A cluster file to change: the error in a test is one replacement away from a valid file.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace dtc::timing {

/// Two nodes of four GPUs.
inline const std::string Gpus = R"(
name: "small"
devices {
  name: "G1"
  peaks { type: "bf16" flops: 300e12 }
  peaks { type: "f32" flops: 20e12 }
  memory_bytes: 80000000000
  memory_bandwidth: 2e12
  launch_seconds: 3e-6
  efficiencies { kernel_class: "product" type: "bf16" points { flops: 1e9 bytes: 1e6 share: 0.5 } points { share: 0.9 } }
}
nodes { count: 2 device: "G1" devices: 4 }
levels { name: "NVLink" units: 4 latency: 2e-6 bandwidth: 300e9 }
levels { name: "InfiniBand" units: 2 latency: 5e-6 bandwidth: 25e9 }
axis_order: "tp"
)";

/// Two nodes of eight cores each.
inline const std::string Processors = R"(
name: "hosts"
devices { name: "P1" threads: 1 peaks { type: "f32" flops: 100e9 } memory_bandwidth: 10e9 }
devices { name: "P1" threads: 2 peaks { type: "f32" flops: 200e9 } memory_bandwidth: 20e9 }
devices { name: "P1" threads: 8 peaks { type: "f32" flops: 800e9 } memory_bandwidth: 50e9 }
nodes { count: 2 device: "P1" cores: 8 memory_bytes: 16000000000 }
levels { name: "shared memory" latency: 1e-6 bandwidth: 10e9 transport: SHARED_MEMORY }
levels { name: "Ethernet" latency: 30e-6 bandwidth: 1e9 shared_by: 1000 transport: TCP }
)";

inline std::string replaced(std::string text, const std::string &what, const std::string &with) {
  size_t at = text.find(what);
  if (at == std::string::npos) {
    ADD_FAILURE() << "'" << what << "' is not in the file";
    return text;
  }
  return text.replace(at, what.size(), with);
}

} // namespace dtc::timing
