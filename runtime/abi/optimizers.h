// The optimizers and what each lets a user set: one table, which the runtime and the compiler ask. A new optimizer is a
// row here, and its formula in passes/differentiate/BuildUpdate.cpp.
//
// A program's Training.optimizer_settings holds every setting of its own optimizer. One of another may be there, because a
// user has changed it; it counts for nothing but is shown.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/support/interval.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::abi {

struct OptimizerSetting {
  std::string_view key; ///< in train.toml's section [optimizer], after --set, and in checkpoints
  double initial;       ///< where nobody sets it
  Interval interval;    ///< the same for all optimizers that have the key
};

struct Optimizer {
  std::string_view name;
  std::span<const OptimizerSetting> settings;

  /// Null where it has no such setting.
  const OptimizerSetting *find(std::string_view key) const {
    auto found = std::ranges::find(settings, key, &OptimizerSetting::key);
    return found == settings.end() ? nullptr : &*found;
  }
};

namespace optimizer_table {
inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr Interval share{"[0, 1)", 0, 1}, positive{"(0, inf)", 0, infinite}, notNegative{"[0, inf)", 0, infinite};

inline constexpr OptimizerSetting adamw[] = {
    {"beta1", 0.9, share}, {"beta2", 0.95, share}, {"epsilon", 1e-8, positive}, {"weight_decay", 0.1, notNegative}};
inline constexpr OptimizerSetting sgd[] = {{"weight_decay", 0.1, notNegative}, {"momentum", 0.9, share}};

inline constexpr Optimizer rows[] = {{"adamw", adamw}, {"sgd", sgd}};

/// A setting is held against its interval before it is known whose it is.
consteval bool haveKeysOneInterval() {
  for (const Optimizer &a : rows)
    for (const Optimizer &b : rows)
      for (const OptimizerSetting &setting : a.settings)
        for (const OptimizerSetting &other : b.settings)
          if (setting.key == other.key && setting.interval != other.interval)
            return false;
  return true;
}
static_assert(haveKeysOneInterval());
} // namespace optimizer_table

inline constexpr std::span<const Optimizer> optimizers() { return optimizer_table::rows; }

/// Null where there is none of that name.
inline const Optimizer *findOptimizer(std::string_view name) {
  auto found = std::ranges::find(optimizers(), name, &Optimizer::name);
  return found == optimizers().end() ? nullptr : &*found;
}

/// Those of all optimizers, each key once, as the first optimizer that has it says.
inline std::vector<const OptimizerSetting *> optimizerSettings() {
  std::vector<const OptimizerSetting *> all;
  for (const Optimizer &optimizer : optimizers())
    for (const OptimizerSetting &setting : optimizer.settings)
      if (std::ranges::find(all, setting.key, &OptimizerSetting::key) == all.end())
        all.push_back(&setting);
  return all;
}

/// Null where no optimizer has it.
inline const OptimizerSetting *findOptimizerSetting(std::string_view key) {
  for (const Optimizer &optimizer : optimizers())
    if (const OptimizerSetting *setting = optimizer.find(key))
      return setting;
  return nullptr;
}

/// What `training` says of a setting that some optimizer has, or its default.
inline double settingOf(const Training &training, std::string_view key) {
  for (const Setting &setting : training.optimizer_settings())
    if (setting.key() == key)
      return setting.value();
  const Optimizer *own = findOptimizer(training.optimizer());
  const OptimizerSetting *setting = own ? own->find(key) : nullptr;
  return (setting ? setting : findOptimizerSetting(key))->initial;
}

inline void setSetting(Training &training, std::string_view key, double value) {
  auto &all = *training.mutable_optimizer_settings();
  auto found = std::ranges::find(all, key, [](const Setting &setting) { return std::string_view(setting.key()); });
  Setting &setting = found == all.end() ? *all.Add() : *found;
  setting.set_key(std::string(key));
  setting.set_value(value);
}

/// Gives the chosen optimizer's settings that have no value their defaults, and all the order of the table. Of the others'
/// settings those stay that differ from their defaults: whoever prints the settings shows both alike.
inline void completeSettings(Training &training) {
  Training before = training;
  training.clear_optimizer_settings();
  const Optimizer *own = findOptimizer(before.optimizer());
  for (const OptimizerSetting *setting : optimizerSettings())
    if (double value = settingOf(before, setting->key);
        (own && own->find(setting->key)) || value != setting->initial)
      setSetting(training, setting->key, value);
}

} // namespace dtc::abi
