// The optimizers and their settings: one table for the runtime and the compiler. A new optimizer takes a row here and
// its formula in passes/differentiate/BuildUpdate.cpp.
//
// A program's Training.optimizer_settings holds every setting of its own optimizer. It may also hold another
// optimizer's setting that a user has changed; that has no effect but is shown.
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
  double initial;       ///< the default
  Interval interval;    ///< of valid values; the same for all optimizers with this key
};

struct Optimizer {
  std::string_view name;
  std::span<const OptimizerSetting> settings;

  /// Null if it has no such setting.
  const OptimizerSetting *find(std::string_view key) const {
    auto found = std::ranges::find(settings, key, &OptimizerSetting::key);
    return found == settings.end() ? nullptr : &*found;
  }
};

namespace optimizer_table {
inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr Interval share{"[0, 1)", 0, 1}, wholeShare{"[0, 1]", 0, 1}, positive{"(0, inf)", 0, infinite},
    notNegative{"[0, inf)", 0, infinite};

inline constexpr OptimizerSetting adamw[] = {{"beta1", 0.9, share},
                                             {"beta2", 0.95, share},
                                             {"epsilon", 1e-8, positive},
                                             {"weight_decay", 0.1, notNegative},
                                             {"nesterov", 0, wholeShare}};
inline constexpr OptimizerSetting sgd[] = {{"weight_decay", 0.1, notNegative}, {"momentum", 0.9, share}};

inline constexpr Optimizer rows[] = {{"adamw", adamw}, {"sgd", sgd}};

/// A setting is checked against its interval before it is known to which optimizer it belongs.
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

/// Null if there is none of that name.
inline const Optimizer *findOptimizer(std::string_view name) {
  auto found = std::ranges::find(optimizers(), name, &Optimizer::name);
  return found == optimizers().end() ? nullptr : &*found;
}

/// The settings of all optimizers, each key once, from the first optimizer that has it.
inline std::vector<const OptimizerSetting *> optimizerSettings() {
  std::vector<const OptimizerSetting *> all;
  for (const Optimizer &optimizer : optimizers())
    for (const OptimizerSetting &setting : optimizer.settings)
      if (std::ranges::find(all, setting.key, &OptimizerSetting::key) == all.end())
        all.push_back(&setting);
  return all;
}

/// Null if no optimizer has it.
inline const OptimizerSetting *findOptimizerSetting(std::string_view key) {
  for (const Optimizer &optimizer : optimizers())
    if (const OptimizerSetting *setting = optimizer.find(key))
      return setting;
  return nullptr;
}

/// The value in `training` of a setting that some optimizer has, or its default.
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

/// Sets the chosen optimizer's missing settings to their defaults and puts them all in the table's order. Settings of
/// other optimizers stay if they differ from their defaults, so that they are printed as well.
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
