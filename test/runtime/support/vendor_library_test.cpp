// Vendors' libraries, represented by any library of the system: what is found, and the messages about what is not.
#include "runtime/support/vendor_library.h"

#include "test/refusal.h"

#include <gmock/gmock.h>
#include <vector>

namespace dtc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

constexpr const char *Mathematics = "libm.so.6", *Nowhere = "libdtc_of_nowhere.so.1";

/// What `run` throws.
std::string errorOf(const auto &run) { return test::refusalOf(run, ExitCode::Runtime); }

TEST(VendorLibrary, HasItsFunctions) {
  VendorLibrary library(Mathematics);
  double (*root)(double) = nullptr;
  library.find(root, "sqrt");
  EXPECT_EQ(errorOf([&] { library.requireFound("it"); }), "no error");
  EXPECT_EQ(root(9), 3);
}

TEST(VendorLibrary, SaysWhyItCannotBeLoaded) {
  EXPECT_THAT(errorOf([] { VendorLibrary(Nowhere, "it cannot be loaded: ", "; install it"); }),
              AllOf(StartsWith(std::string("it cannot be loaded: ") + Nowhere), EndsWith("; install it")));
}

TEST(VendorLibrary, NamesTheFirstFunctionThatItLacks) {
  VendorLibrary library(Mathematics);
  void (*first)() = nullptr, (*second)() = nullptr;
  library.find(first, "dtc_first");
  library.find(second, "dtc_second");
  EXPECT_EQ(errorOf([&] { library.requireFound("it", "; install a newer one"); }),
            "it has no function 'dtc_first'; install a newer one");
}

TEST(VendorLibrary, MayLackWhatIsNotRequired) {
  VendorLibrary library(Mathematics);
  void (*later)() = +[] {};
  library.findIfThere(later, "dtc_later");
  EXPECT_EQ(later, nullptr);
  EXPECT_EQ(errorOf([&] { library.requireFound("it"); }), "no error");
}

TEST(VendorLibrary, IsTheFirstOfSomeThatLoads) {
  std::vector<std::string> tried;
  auto load = [&](const char *name) {
    tried.push_back(name);
    VendorLibrary library(name);
  };
  loadFirst(std::vector{Nowhere, Mathematics, "libc.so.6"}, "", "", load);
  EXPECT_THAT(tried, ElementsAre(Nowhere, Mathematics));
}

TEST(VendorLibrary, SaysWhyNoneOfSomeLoads) {
  auto load = [](const char *name) { throw Error(std::string(name) + " is broken"); };
  EXPECT_EQ(errorOf([&] {
              loadFirst(std::vector{"a", "b"}, "none works: ", "; install one", load);
            }),
            "none works: a is broken; b is broken; install one");
}

} // namespace
} // namespace dtc
