// A vendor's library that a program loads when it starts. Neither the library nor its headers are needed to build dtc,
// and a program says what is missing where it is started without.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace dtc {

/// Loaded for as long as the process lives: such libraries have state and threads of their own, and do not like to go.
class VendorLibrary {
public:
  /// Throws Error (Runtime) where the library cannot be loaded, with the loader's words between `before` and `after`.
  explicit VendorLibrary(const char *name, const std::string &before = "", const std::string &after = "");

  /// The library's function of that name; null where it has none, which requireFound then says.
  template <typename Function> void find(Function *&function, const char *symbol) {
    findIfThere(function, symbol);
    if (!function && !missing)
      missing = symbol;
  }

  /// The same of a function that the library may lack.
  template <typename Function> void findIfThere(Function *&function, const char *symbol) const {
    function = reinterpret_cast<Function *>(addressOf(symbol));
  }

  /// Throws Error (Runtime) where `find` did not find all, and names the first: "OWNER has no function 'SYMBOL'", then
  /// `after`. Not part of `find`, because a library that is too old should be called that instead.
  void requireFound(const std::string &owner, const std::string &after = "") const;

private:
  void *addressOf(const char *symbol) const;

  void *handle;
  const char *missing = nullptr; ///< the first symbol that was not found
};

/// Calls `load` with one name after the other until it throws no Error. Throws Error (Runtime) where it throws for all,
/// with what it said of each between `before` and `after`.
void loadFirst(std::span<const char *const> names, const std::string &before, const std::string &after,
               const std::function<void(const char *name)> &load);

} // namespace dtc
