// Models and clusters that are small enough to evaluate every plan of them.
#pragma once

#include "timing/cluster/cluster.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/plan/Evaluator.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace dtc::test {

struct ModelSizes {
  bool isLlama = false, isTied = true;
  int64_t layers = 2, heads = 2, keyHeads = 2, hidden = 8, mlp = 32, vocabulary = 16, positions = 8;
};

/// A folder with the model's config.json, which goes with this object.
class ModelFolder {
public:
  explicit ModelFolder(const ModelSizes &sizes) : folder("dtc_plan") {
    std::ofstream(folder.at("config.json")) << (sizes.isLlama ? llama(sizes) : gpt2(sizes));
  }
  std::string path() const { return folder.at(""); }

private:
  static std::string gpt2(const ModelSizes &sizes) {
    return fmt::format(R"({{"model_type": "gpt2", "n_embd": {}, "n_head": {}, "n_layer": {}, "n_inner": {},
"vocab_size": {}, "n_positions": {}, "tie_word_embeddings": {}, "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0}})",
                       sizes.hidden, sizes.heads, sizes.layers, sizes.mlp, sizes.vocabulary, sizes.positions,
                       sizes.isTied);
  }
  static std::string llama(const ModelSizes &sizes) {
    return fmt::format(R"({{"model_type": "llama", "hidden_size": {}, "num_attention_heads": {},
"num_key_value_heads": {}, "num_hidden_layers": {}, "intermediate_size": {}, "vocab_size": {},
"max_position_embeddings": {}, "tie_word_embeddings": {}, "rms_norm_eps": 1e-5, "hidden_act": "silu"}})",
                       sizes.hidden, sizes.heads, sizes.keyHeads, sizes.layers, sizes.mlp, sizes.vocabulary,
                       sizes.positions, sizes.isTied);
  }

  TemporaryFolder folder;
};

inline CompileRequest requestFor(const ModelFolder &model, int64_t batch) {
  CompileRequest request;
  request.model = model.path();
  request.assignments = {fmt::format("global_batch={}", batch)};
  return request;
}

/// Nodes of `onNode` devices each, of two kinds: the second half's take `slowness` times as long. Bytes of a device; 0: as
/// good as without a limit.
inline timing::Cluster clusterOf(int64_t nodes, int64_t onNode, double linkBandwidth = 1e9, double slowness = 1,
                                 uint64_t memory = 0) {
  auto device = [&](const char *name, double slower) {
    return fmt::format(R"(devices {{ name: "{}" peaks {{ type: "f32" flops: {} }} peaks {{ type: "bf16" flops: {} }}
  memory_bandwidth: {} launch_seconds: 2e-7 step_seconds: 1e-6 memory_bytes: {}
  efficiencies {{ kernel_class: "product" points {{ flops: 1e4 bytes: 1e3 share: 0.2 }}
                 points {{ flops: 1e6 bytes: 1e5 share: 0.6 }} }} }}
)",
                       name, 1e11 / slower, 2e11 / slower, 1e10 / slower, uint64_t(1) << 50);
  };
  std::string text = "name: \"random\" uncertainty: 0.07\n" + device("a", 1);
  if (slowness == 1) {
    text += fmt::format("nodes {{ device: \"a\" devices: {} count: {} }}\n", onNode, nodes);
  } else {
    text += device("b", slowness);
    text += fmt::format("nodes {{ device: \"a\" devices: {} count: {} }}\n", onNode, nodes - nodes / 2);
    text += fmt::format("nodes {{ device: \"b\" devices: {} count: {} }}\n", onNode, nodes / 2);
  }
  if (onNode > 1)
    text += "levels { name: \"inner\" latency: 1e-6 bandwidth: 2e10 }\n";
  if (nodes > 1)
    text += fmt::format("levels {{ name: \"outer\" latency: 5e-6 bandwidth: {} processor_share: 0.1 }}\n",
                        linkBandwidth);
  timing::Cluster cluster = timing::parseCluster(text, "test");
  if (memory > 0)
    for (timing::Device &device : *cluster.mutable_devices())
      device.set_memory_bytes(memory); // less than a file may say
  return cluster;
}

inline plans::Problem problemOf(const Evaluator &evaluator, const timing::Cluster &cluster, int64_t devices) {
  plans::Problem problem;
  problem.model = evaluator.facts();
  problem.cluster = cluster;
  problem.devices = devices;
  return problem;
}

} // namespace dtc::test
