// Calls of library kernels by the names of their tables (runtime/abi/library).
#pragma once

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Library.h"
#include "runtime/abi/library/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"

#include <array>
#include <bit>
#include <type_traits>
#include <utility>

namespace mlir::dt {

/// A call's scalars, of which those that depend on the rank are 0.
template <class Scalars> Scalars knownScalars(const LibraryCall &call) {
  SmallVector<int64_t> numbers;
  for (const dtc::abi::library::ScalarField &field : dtc::abi::library::tableOf<Scalars>.scalars) {
    const LaunchScalar &scalar = call.scalars[field.index];
    bool isKnown = scalar.kind == LaunchScalar::Kind::Integer || scalar.kind == LaunchScalar::Kind::Real;
    numbers.push_back(!isKnown ? 0 : field.isReal ? std::bit_cast<int64_t>(scalar.real) : scalar.integer);
  }
  return dtc::abi::library::load<Scalars>(numbers.data());
}

/// Fills in a call of the kernel that has these scalars. What the table says of its operands becomes the call's.
template <class Scalars> class LibraryCallBuilder {
public:
  LibraryCallBuilder() : isFilled(table.scalars.size()) {
    call.kernel = StringRef(table.name);
    call.scalars.resize(table.scalars.size());
  }

  void set(int64_t Scalars::*field, LaunchScalar value) { put(dtc::abi::library::indexOf(field), std::move(value)); }
  void set(int64_t Scalars::*field, int64_t value) { set(field, LaunchScalar::of(value)); }
  void set(double Scalars::*field, double value) { put(dtc::abi::library::indexOf(field), LaunchScalar::of(value)); }
  /// The type of an operand's elements, as a scalar for kernels that compute.
  void setElement(int64_t Scalars::*field, Type type) { set(field, static_cast<int64_t>(elementTypeOf(type).type)); }

  /// All of a part of several integers, such as strides, or of several reals.
  template <class Part, class Owner> void setAll(Part Owner::*part, ArrayRef<int64_t> values) { putAll(part, values); }
  template <class Part, class Owner> void setAll(Part Owner::*part, ArrayRef<double> values) { putAll(part, values); }

  /// What is known of the scalars, all of which must have been set.
  Scalars known() const { return knownScalars<Scalars>(call); }

  /// The call, each of whose scalars must have been set. `buffers` are all operands that a call with these scalars has.
  LibraryCall finish(SmallVector<unsigned> buffers, int64_t grain) {
    return finish(std::move(buffers), known().grid(), grain);
  }
  /// Of kernels whose scalars do not say the grid.
  LibraryCall finish(SmallVector<unsigned> buffers, int64_t grid, int64_t grain) {
    for (const dtc::abi::library::ScalarField &field : table.scalars)
      if (!isFilled[field.index])
        llvm::report_fatal_error(Twine(StringRef(table.name)) + ": " + StringRef(field.name) + " is not set");
    auto numbers = std::bit_cast<std::array<int64_t, dtc::abi::library::countOf<Scalars>>>(known());
    size_t operands = 0;
    for (const dtc::abi::library::Operand &operand : table.operands) {
      using dtc::abi::library::ElementRule;
      call.toldElement |= operand.element.kind == ElementRule::Told;
      call.movesOnly |= operand.element.kind == ElementRule::Moved;
      if (!operand.isIn(numbers.data()))
        continue;
      ++operands;
      call.numInputs += !operand.isWritten();
    }
    if (buffers.size() != operands)
      llvm::report_fatal_error(Twine(StringRef(table.name)) + ": " + Twine(buffers.size()) + " buffers, it takes " +
                               Twine(operands));
    call.buffers = std::move(buffers);
    call.grid = grid, call.grain = grain;
    return std::move(call);
  }

private:
  static constexpr const dtc::abi::library::KernelTable &table = dtc::abi::library::tableOf<Scalars>;

  void put(size_t index, LaunchScalar value) {
    isFilled[index] = true;
    call.scalars[index] = std::move(value);
  }

  template <class Part, class Owner, class Number> void putAll(Part Owner::*part, ArrayRef<Number> values) {
    static_assert(std::is_base_of_v<Owner, Scalars> && sizeof(Part) > sizeof(int64_t));
    if (values.size() != dtc::abi::library::countOf<Part>)
      llvm::report_fatal_error(Twine(StringRef(table.name)) + ": a part of its scalars needs another number of values");
    for (auto [i, value] : llvm::enumerate(values))
      put(dtc::abi::library::indexOf(part) + i, LaunchScalar::of(value));
  }

  LibraryCall call;
  SmallVector<bool> isFilled;
};

} // namespace mlir::dt
