// Peak rates of GPUs, from NVIDIA's data sheets: without sparsity, f32 without TF32.
#include "runtime/device/cuda/gpu.h"

#include <cctype>

namespace dtc::cuda {

namespace {
struct Model {
  std::string_view name;
  double sixteenBits, f32;
};
} // namespace

static constexpr Model models[] = {
    {"GB200", 2500e12, 80e12}, {"B200", 2250e12, 75e12},      {"H200 NVL", 835.5e12, 60e12},
    {"H200", 989.5e12, 67e12}, {"H100 NVL", 835.5e12, 60e12}, {"H100 PCIe", 756e12, 51e12},
    {"H100", 989.5e12, 67e12}, {"A100", 312e12, 19.5e12},
};

/// Whether the driver's name of a GPU means that model: "NVIDIA RTX A1000" is not an A100.
static bool isOf(std::string_view gpu, std::string_view model) {
  size_t begin = gpu.find(model), end = begin + model.size();
  return begin != std::string_view::npos && (end == gpu.size() || !std::isalnum(static_cast<unsigned char>(gpu[end])));
}

/// The first match in the list wins.
double peakFlopsOf(std::string_view model, bool sixteenBits) {
  for (const Model &known : models)
    if (isOf(model, known.name))
      return sixteenBits ? known.sixteenBits : known.f32;
  return 0;
}

} // namespace dtc::cuda
