// The functions that a class takes from a vendor's library, of a list DTC_..._FUNCTIONS(X) that has a row
// X(MEMBER, SYMBOL, TYPE) for each. The type is the function's: result and parameters.
#pragma once

/// In the class: the type MEMBER_fn and a pointer MEMBER, null until it is found.
#define DTC_VENDOR_FUNCTION(member, symbol, ...)                                                                       \
  using member##_fn = __VA_ARGS__;                                                                                     \
  member##_fn *member = nullptr;

/// Where the class loads `library`, a VendorLibrary: finds the function.
#define DTC_VENDOR_FIND(member, symbol, ...) library.find(member, #symbol);
