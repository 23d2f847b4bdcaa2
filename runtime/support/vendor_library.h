// A vendor's library that a program loads when it starts. Building dtc needs neither the library nor its headers, and a
// program started without the library says what is missing.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace dtc {

/// Loaded once and never unloaded: such libraries have their own state and threads, and do not support unloading well.
class VendorLibrary {
public:
  /// Throws Error (Runtime) if the library cannot be loaded, with the loader's message between `before` and `after`.
  explicit VendorLibrary(const char *name, const std::string &before = "", const std::string &after = "");

  /// The library's function of that name; null if it has none, which requireFound then reports.
  template <typename Function> void find(Function *&function, const char *symbol) {
    findIfThere(function, symbol);
    if (!function && !missing)
      missing = symbol;
  }

  /// Likewise for a function that the library may lack.
  template <typename Function> void findIfThere(Function *&function, const char *symbol) const {
    function = reinterpret_cast<Function *>(addressOf(symbol));
  }

  /// Throws Error (Runtime) if `find` did not find all, and names the first: "OWNER has no function 'SYMBOL'", then
  /// `after`. Not part of `find`, because a library that is too old should be called that instead.
  void requireFound(const std::string &owner, const std::string &after = "") const;

private:
  void *addressOf(const char *symbol) const;

  void *handle;
  const char *missing = nullptr; ///< the first symbol that was not found
};

/// Calls `load` with one name after the other until it throws no Error. If it throws for all, throws Error (Runtime)
/// with each message between `before` and `after`.
void loadFirst(std::span<const char *const> names, const std::string &before, const std::string &after,
               const std::function<void(const char *name)> &load);

} // namespace dtc
