// The learning rate over time.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc {

/// The rate of step `step`, counted from 0. It rises linearly through the warm-up, reaching the full rate at its last
/// step: lr (step + 1) / warmup. Then with x = (step - warmup) / (steps - warmup) in [0, 1):
///   constant  lr
///   linear    min + (lr - min) (1 - x)
///   cosine    min + (lr - min) (1 + cos(pi x)) / 2   (Loshchilov and Hutter 2017, without restarts)
double learningRate(const abi::Training &training, int64_t step);

} // namespace dtc
