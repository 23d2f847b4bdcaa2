// Compares our declarations of NCCL's functions, types and numbers with NVIDIA's own. Nothing is run: a difference does
// not compile.
#include "runtime/comm/nccl/library.h"

#include <gtest/gtest.h>
#include <nccl.h>
#include <type_traits>

namespace dtc::nccl {
namespace {

/// As our declarations say it: enumerations as int, structures that are ours.
template <typename T> struct PlainOf {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <> struct PlainOf<ncclUniqueId> {
  using Type = UniqueId;
};
template <> struct PlainOf<ncclConfig_t> {
  using Type = Config;
};
template <typename T> struct PlainOf<const T> {
  using Type = const typename PlainOf<T>::Type;
};
template <typename T> struct PlainOf<T *> {
  using Type = typename PlainOf<T>::Type *;
};
template <typename Result, typename... Parameters> struct PlainOf<Result(Parameters...)> {
  using Type = typename PlainOf<Result>::Type(typename PlainOf<Parameters>::Type...);
};

#define DTC_NCCL_COMPARE(member, ...)                                                                                  \
  static_assert(std::is_same_v<PlainOf<decltype(::nccl##member)>::Type, Library::member##_fn>, #member);
DTC_NCCL_FUNCTIONS(DTC_NCCL_COMPARE)
DTC_NCCL_LATER_FUNCTIONS(DTC_NCCL_COMPARE)

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && sizeof(ncclResult_t) == sizeof(int));
static_assert(int(Success) == ncclSuccess && int(InProgress) == ncclInProgress);
static_assert(int(Uint8) == ncclUint8 && int(Int32) == ncclInt32 && int(Float16) == ncclFloat16 &&
              int(Float32) == ncclFloat32 && int(Bfloat16) == ncclBfloat16);
static_assert(int(Sum) == ncclSum && int(Max) == ncclMax);
static_assert(sizeof(Config) <= sizeof(ncclConfig_t) && offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(Config, network) == offsetof(ncclConfig_t, netName) &&
              offsetof(Config, splitShare) == offsetof(ncclConfig_t, splitShare));
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

TEST(NcclLibrary, IsDeclaredAsNvidiaDoes) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config().magic, theirs.magic);
  EXPECT_EQ(Config().network, theirs.netName);
  EXPECT_GE(NCCL_VERSION_CODE, Library::OldestVersion);
}

} // namespace
} // namespace dtc::nccl
