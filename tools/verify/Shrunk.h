// What a program of small sizes and few layers proves about the full one.
//
// Layers that do the same are a class: neighbours in a stage whose commands have the same kernels and buffers and start
// the same collectives. A shrunk program has each class of the full one, in order, and its lists start the same
// collectives in the same order: the full program's lists are the shrunk ones, with the starts of a layer repeated once
// for each layer that was left out.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::verify {

/// For each stage of a program: how many layers show all that its layers do. That is one of each class, and two where
/// there are two layers, so that what a layer passes to the next is included. All of them where layers are not of one
/// list.
std::vector<int64_t> layersToKeep(const abi::Manifest &full);

/// Empty when both programs run the same collectives (kinds, axes, values and locations) in every list in order, those
/// of layers as described above; otherwise the first difference. Sizes may differ.
std::string compareCollectives(const abi::Manifest &shrunk, const abi::Manifest &full);

} // namespace dtc::verify
