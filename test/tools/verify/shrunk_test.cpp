// Lists of few layers that represent those of many, or do not.
#include "tools/verify/Shrunk.h"

#include "runtime/abi/groups.h"
#include "runtime/abi/timetables.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::verify {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The lists of a model of some layers: forward, and backward.
class Layers {
public:
  explicit Layers(int64_t count) : count(count) {
    for (const char *axis : {"tp", "dp"}) {
      abi::AxisRefs refs;
      abi::AxisRef &whole = *refs.Add();
      whole.set_axis(axis);
      whole.set_pre(1);
      abi::addGroup(manifest, refs);
    }
    manifest.add_kernels();
    manifest.add_kernels();
    for (const char *location : {".attn", ".mlp", "head"})
      manifest.add_locations(location);
    abi::Stage &stage = *manifest.add_stages();
    for (int64_t layer = 0; layer < count; ++layer) {
      stage.add_layers(static_cast<uint32_t>(layer));
      abi::Layer &named = *manifest.add_layers();
      named.set_list("h");
      named.set_number(layer);
    }
    abi::Role &role = *manifest.add_roles();
    for (const char *name : {"forward", "backward"}) {
      manifest.add_lists()->set_name(name);
      abi::timetableIn(role, abi::stepTimetable).add_period()->set_list(name);
    }
  }

  /// Calls build(layer) for the layers as the forward pass meets them, and then backwards.
  Layers &build(const std::function<void(Layers &, int64_t)> &forward,
                const std::function<void(Layers &, int64_t)> &backward = {}) {
    for (int64_t layer = 0; layer < count; ++layer)
      forward(*this, layer);
    list = 1;
    for (int64_t layer = count - 1; backward && layer >= 0; --layer)
      backward(*this, layer);
    return *this;
  }

  /// Outside the layers with a negative one.
  abi::Command &add(int64_t layer, uint32_t location) {
    abi::Command &command = *manifest.mutable_lists(list)->add_commands();
    command.set_location(location);
    if (layer >= 0)
      command.set_layer(static_cast<uint32_t>(layer));
    return command;
  }
  void start(int64_t layer, const std::string &value, uint32_t group = 0, uint32_t location = 0) {
    abi::Collective &started = *add(layer, location).mutable_start();
    started.set_value(value);
    started.set_group(group);
  }
  void launch(int64_t layer, uint32_t kernel) { add(layer, 1).mutable_launch()->set_kernel(kernel); }

  int64_t count;
  int list = 0;
  abi::Manifest manifest;
};

/// A layer gathers the result of the one before, and reduces its own. The head gathers that of the last layer.
void gatherAndAdd(Layers &layers, int64_t layer) {
  layers.start(layer, layer == 0 ? "embeddings" : "h." + std::to_string(layer - 1));
  layers.launch(layer, 0);
  layers.start(layer, ".attn", 0, 1);
  if (layer + 1 == layers.count)
    layers.start(-1, "h." + std::to_string(layer), 0, 2);
}

/// The next layer's parameters are gathered before this one's gradients are added up.
void gatherAhead(Layers &layers, int64_t layer) {
  if (layer + 1 == layers.count)
    layers.start(layer, ".w");
  if (layer > 0)
    layers.start(layer - 1, ".w");
  layers.start(layer, ".gradient", 1);
}

std::string compare(Layers &few, Layers &many) { return compareCollectives(few.manifest, many.manifest); }

TEST(Shrunk, FewLayersStandForMany) {
  for (int64_t count : {4, 9, 96}) {
    Layers full = Layers(count).build(gatherAndAdd);
    EXPECT_THAT(layersToKeep(full.manifest), ElementsAre(2)) << "the first, and all others";
    for (int64_t few : {2, 3, 4}) {
      Layers shrunk = Layers(few).build(gatherAndAdd);
      EXPECT_EQ(compare(shrunk, full), "") << few << " of " << count;
    }
    // What reaches beyond a layer takes one more to show the repetition.
    full = Layers(count).build(gatherAndAdd, gatherAhead);
    for (int64_t few : {3, 4}) {
      Layers shrunk = Layers(few).build(gatherAndAdd, gatherAhead);
      EXPECT_EQ(compare(shrunk, full), "") << few << " of " << count;
    }
    Layers two = Layers(2).build(gatherAndAdd, gatherAhead);
    EXPECT_NE(compare(two, full), "");
  }
}

TEST(Shrunk, WhatOnlyLaterLayersLackIsNoticed) {
  for (int64_t first : {2, 3, 95})
    for (bool isAll : {false, true}) {
      auto lacking = [&](Layers &layers, int64_t layer) {
        if (layer < first)
          return gatherAndAdd(layers, layer);
        layers.launch(layer, 0);
        if (!isAll)
          layers.start(layer, "h." + std::to_string(layer - 1));
      };
      Layers full = Layers(96).build(lacking, gatherAhead), shrunk = Layers(2).build(gatherAndAdd, gatherAhead);
      EXPECT_NE(compare(shrunk, full), "") << first;
      EXPECT_GT(layersToKeep(full.manifest).front(), 2) << first;
    }
}

// Even where the lists agree from beginning to end.
TEST(Shrunk, LayersThatStartNothingAreNoticed) {
  auto some = [](Layers &layers, int64_t layer) {
    layers.launch(layer, 0);
    if (layer < 2)
      layers.start(layer, ".attn");
  };
  Layers full = Layers(9).build(some), shrunk = Layers(2).build(some);
  EXPECT_EQ(compare(shrunk, full), "stage 0: the shrunk program has 1 classes of layers, the full one 2");
  EXPECT_EQ(compare(full, full), "");
}

TEST(Shrunk, ALayerInTheMiddleIsNoticed) {
  auto check = [](const std::function<void(Layers &)> &instead) {
    auto odd = [&](Layers &layers, int64_t layer) {
      if (layers.count == 9 && layer == 5)
        instead(layers);
      else
        gatherAndAdd(layers, layer);
    };
    Layers full = Layers(9).build(odd), shrunk = Layers(3).build(odd);
    EXPECT_THAT(layersToKeep(full.manifest), ElementsAre(4));
    return compare(shrunk, full);
  };
  EXPECT_THAT(check([](Layers &layers) { // of another group
                layers.start(5, "h.4", 1);
                layers.launch(5, 0);
                layers.start(5, ".attn", 0, 1);
              }),
              HasSubstr("list 'forward', collective"));
  EXPECT_THAT(check([](Layers &layers) { // of another layer's output
                layers.start(5, "h.3");
                layers.launch(5, 0);
                layers.start(5, ".attn", 0, 1);
              }),
              HasSubstr("h.3"));
  EXPECT_THAT(check([](Layers &layers) { // in another order
                layers.launch(5, 0);
                layers.start(5, ".attn", 0, 1);
                layers.start(5, "h.4");
              }),
              HasSubstr("list 'forward', collective"));
  EXPECT_THAT(check([](Layers &layers) { // by another kernel
                layers.start(5, "h.4");
                layers.launch(5, 1);
                layers.start(5, ".attn", 0, 1);
              }),
              HasSubstr("classes of layers"));
}

TEST(Shrunk, TheHeadsCollectivesAreTheLastLayers) {
  Layers full = Layers(9).build(gatherAndAdd), shrunk = Layers(2).build(gatherAndAdd);
  full.manifest.mutable_lists(0)->mutable_commands()->rbegin()->mutable_start()->set_value("h.4");
  EXPECT_THAT(compare(shrunk, full), HasSubstr("the shrunk program has all-reduce of h.1 over tp at head, the full one "
                                               "all-reduce of h.4 over tp at head"));
}

/// Backwards, a layer reduces a large gradient at once; the small ones of `each` layers in a row are one start.
Layers inBuckets(int64_t count, int64_t each, const std::string &odd = "") {
  auto reduce = [=](Layers &layers, int64_t layer) {
    layers.start(layer, ".large", 1);
    int64_t done = layers.count - layer; // with this one
    if (done % each != 0 && layer > 0)
      return;
    int64_t first = (done - 1) / each * each; // of the bucket, counted from the end
    for (int64_t at = first; at < done; ++at)
      for (const std::string &value : {std::string(".norm"), at == 0 && !odd.empty() ? odd : std::string(".bias")})
        layers.start(layers.count - 1 - at, value, 1);
    auto &commands = *layers.manifest.mutable_lists(1)->mutable_commands();
    for (int64_t part = 0; part < 2 * (done - first) - 1; ++part)
      commands[commands.size() - 2 - static_cast<int>(part)].mutable_start()->set_more(true);
  };
  return Layers(count).build([](Layers &, int64_t) {}, reduce);
}

// How many layers share a bucket depends on how many there are; the kinds in a bucket are the same, and in one order.
TEST(Shrunk, BucketsOfFewLayersStandForThoseOfMany) {
  for (int64_t each : {1, 2, 3, 8})
    for (int64_t few : {2, 3}) {
      Layers full = inBuckets(9, each), shrunk = inBuckets(few, each);
      EXPECT_EQ(compare(shrunk, full), "") << few << " layers, " << each << " to a bucket";
      EXPECT_THAT(layersToKeep(full.manifest), ElementsAre(2));
    }
  Layers full = inBuckets(9, 3, ".other"), shrunk = inBuckets(2, 3);
  EXPECT_NE(compare(shrunk, full), "") << "the last layer's";
  full = inBuckets(9, 3);
  full.manifest.mutable_lists(1)->mutable_commands()->SwapElements(5, 6); // two parts
  EXPECT_THAT(compare(shrunk, full), HasSubstr("list 'backward', collective"));
}

TEST(Shrunk, LayersOfTwoListsAllStay) {
  Layers full = Layers(9).build(gatherAndAdd);
  full.manifest.mutable_layers(4)->set_list("decoder");
  EXPECT_THAT(layersToKeep(full.manifest), ElementsAre(9));
}

} // namespace
} // namespace dtc::verify
