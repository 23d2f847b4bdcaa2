// Tables of library kernels: a kernel's scalars and operands, described once for the compiler, the kernels of every
// target, the code for GPUs and dtc verify. docs/library-kernel.md shows how to add a kernel.
//
// The scalars of a kernel are a plain struct, whose members of 8 bytes are in the order in which a launch has them:
// int64_t, and double where the scalar is the bit pattern of a real number. DTC_SCALARS lists them by name once more.
// `kernel` is the kernel's name, `operandsOf` has its operands, and `tableOf` all of this. Strides are in elements.
//
// Kernels for processors are compiled several times, for different instruction sets, but the linker keeps only one copy
// of an inline function. So every function here that such a kernel may call is always inlined.
#pragma once

#include "runtime/abi/kernel.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace dtc::abi::library {

/// How many scalars a struct, or part of one, holds.
template <class Scalars> inline constexpr size_t countOf = sizeof(Scalars) / sizeof(int64_t);

/// The scalars of a launch, which has countOf<Scalars> of them or more.
template <class Scalars> [[gnu::always_inline]] inline Scalars load(const int64_t *scalars) {
  static_assert(std::is_trivially_copyable_v<Scalars> && sizeof(Scalars) % sizeof(int64_t) == 0);
  Scalars result;
  __builtin_memcpy(static_cast<void *>(&result), scalars, sizeof result);
  return result;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

namespace detail {

template <class Scalars> constexpr Scalars makeNumbered() {
  std::array<int64_t, countOf<Scalars>> numbers = {};
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<int64_t>(i);
  return std::bit_cast<Scalars>(numbers);
}

/// An instance in which each field holds its own index.
template <class Scalars> inline constexpr Scalars numbered = makeNumbered<Scalars>();

constexpr size_t numberOf(int64_t field) { return static_cast<size_t>(field); }
constexpr size_t numberOf(double field) { return static_cast<size_t>(std::bit_cast<int64_t>(field)); }
template <size_t Count> constexpr size_t numberOf(const int64_t (&fields)[Count]) { return numberOf(fields[0]); }
template <class Part> constexpr size_t numberOf(const Part &part) {
  return numberOf(std::bit_cast<std::array<int64_t, countOf<Part>>>(part)[0]);
}

} // namespace detail

/// The index of a scalar in a launch; for a member that holds several scalars, such as strides, the index of its first.
template <class Field, class Scalars> constexpr size_t indexOf(Field Scalars::*field) {
  return detail::numberOf(detail::numbered<Scalars>.*field);
}

struct ScalarField {
  std::string_view name; ///< as in the struct: "window", "q.b", "sizes[0]"
  size_t index;
  bool isReal;
};

constexpr ScalarField makeField(std::string_view name, int64_t number) { return {name, size_t(number), false}; }
constexpr ScalarField makeField(std::string_view name, double number) { return {name, detail::numberOf(number), true}; }

namespace detail {

/// Fields of the struct whose members hold their own numbers. `names` is the list of these members: "rows, q.b".
template <class... Numbers> consteval auto listFields(std::string_view names, Numbers... numbers) {
  auto takeName = [&] {
    constexpr std::string_view between = ", ";
    size_t end = names.find(between);
    std::string_view name = names.substr(0, end);
    names = end == std::string_view::npos ? "" : names.substr(end + between.size());
    return name;
  };
  return std::array{makeField(takeName(), numbers)...};
}

template <class T, size_t First, size_t Rest>
consteval std::array<T, First + Rest> joined(const std::array<T, First> &first, const std::array<T, Rest> &rest) {
  std::array<T, First + Rest> all = {};
  for (size_t i = 0; i < First + Rest; ++i)
    all[i] = i < First ? first[i] : rest[i - First];
  return all;
}

} // namespace detail

/// In a struct of scalars: its members, those of a part one by one, such as q.b.
#define DTC_SCALARS(...)                                                                                               \
  consteval auto fields() const { return detail::listFields(#__VA_ARGS__, __VA_ARGS__); }

/// The same in a struct that begins as `Base` does: the members that it adds.
#define DTC_MORE_SCALARS(Base, ...)                                                                                    \
  consteval auto fields() const {                                                                                      \
    return detail::joined(Base::fields(), detail::listFields(#__VA_ARGS__, __VA_ARGS__));                              \
  }

/// Whether `fields` lists every scalar of the struct once, in order.
template <class Scalars> constexpr bool describes(std::span<const ScalarField> fields) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].index != i)
      return false;
  return fields.size() == countOf<Scalars>;
}

template <class Scalars> consteval auto makeFields() {
  constexpr auto fields = detail::numbered<Scalars>.fields();
  static_assert(describes<Scalars>(fields), "not all scalars of the struct, each once and in order");
  return fields;
}

/// The scalars that a struct lists.
template <class Scalars> inline constexpr auto fieldsOf = makeFields<Scalars>();

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The type of a buffer's elements.
struct ElementRule {
  enum Kind {
    Told,  ///< f32, bf16 or f16: a scalar has the number, a dtc_element. 16-bit data is widened when it is read,
           ///< computed with in f32, and rounded to nearest when it is written.
    Moved, ///< any: a scalar has the element's bytes, 1, 2 or 4. All Moved buffers of a kernel hold one type.
    F32,
    I32
  } kind;
  size_t scalar = 0; ///< for Told and Moved: the scalar's index
};

inline constexpr ElementRule f32 = {ElementRule::F32}, i32 = {ElementRule::I32};
template <class Scalars> constexpr ElementRule toldBy(int64_t Scalars::*field) {
  return {ElementRule::Told, indexOf(field)};
}
template <class Scalars> constexpr ElementRule movedBy(int64_t Scalars::*bytes) {
  return {ElementRule::Moved, indexOf(bytes)};
}

/// What a kernel does with a buffer. Updated: it reads and writes the buffer in place.
enum class Access { Read, Written, Updated };

/// A condition on a launch's scalars.
using Condition = bool (*)(const int64_t *scalars);

/// Whether a flag is set.
template <auto field> bool isSet(const int64_t *scalars) { return scalars[indexOf(field)] != 0; }

struct Operand {
  std::string_view name;
  /// Its sizes: names of scalars, numbers, or "grid", the size of the launch's grid.
  std::string_view shape;
  ElementRule element;
  Access access;
  Condition isThereIf = nullptr;   ///< null: always present
  Condition isUpdatedIf = nullptr; ///< for a Written buffer: Updated where this holds

  constexpr bool isIn(const int64_t *scalars) const { return !isThereIf || isThereIf(scalars); }
  constexpr bool isWritten() const { return access != Access::Read; }
  constexpr bool isRead(const int64_t *scalars) const {
    return access != Access::Written || (isUpdatedIf && isUpdatedIf(scalars));
  }
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

struct KernelTable {
  std::string_view name; ///< "gemm": the processor kernel is dtc_gemm, the NVIDIA GPU kernel dtc_cuda_gemm
  std::span<const ScalarField> scalars;
  std::span<const Operand> operands; ///< in the order of a launch's buffers
};

/// The operands of the kernel that has these scalars, in the order of a launch's buffers.
template <class Scalars> inline constexpr std::array<Operand, 0> operandsOf = {};

/// The table of the kernel that has these scalars.
template <class Scalars>
inline constexpr KernelTable tableOf = {Scalars::kernel, fieldsOf<Scalars>, operandsOf<Scalars>};

/// Strides of a tensor [outer, S, inner, E] with unit stride in E.
struct RowStrides {
  int64_t outer, s, inner;
};

} // namespace dtc::abi::library
