// Whether a function of NVIDIA's that dtc declares is called as the one in NVIDIA's header.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dtc::test {

/// One parameter or result as it is passed: all pointers are equal, and enumerations are numbers of their width.
template <typename T> constexpr int kindOf() {
  if constexpr (std::is_void_v<T>)
    return 1;
  else if constexpr (std::is_pointer_v<T>)
    return 0;
  else if constexpr (std::is_floating_point_v<T>)
    return -int(sizeof(T));
  else
    return sizeof(T);
}

template <typename Ours, typename Theirs> struct Alike;
template <typename R, typename... P, typename S, typename... Q> struct Alike<R(P...), S(Q...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P) == sizeof...(Q))
      return kindOf<R>() == kindOf<S>() && ((kindOf<P>() == kindOf<Q>()) && ...);
    else
      return false;
  }();
};

/// Enumerations of both as numbers.
constexpr bool same(auto ours, auto theirs) { return static_cast<int64_t>(ours) == static_cast<int64_t>(theirs); }

/// For the list of a Library's functions.
#define DTC_ALIKE(member, symbol, ...)                                                                                 \
  static_assert(dtc::test::Alike<Library::member##_fn, decltype(::symbol)>::value, #symbol);

} // namespace dtc::test
