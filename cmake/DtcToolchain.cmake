# Where MLIR, LLVM and the other libraries come from, and the flags every target shares.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# lld's libraries, for linking within the compiler.
set(DTC_LLD_LIBRARIES "")
foreach(name lldELF lldCommon)
  find_library(DTC_${name} ${name} HINTS "${LLVM_LIBRARY_DIRS}" "${LLVM_LIBRARY_DIR}" REQUIRED)
  list(APPEND DTC_LLD_LIBRARIES "${DTC_${name}}")
endforeach()
foreach(name zstd z) # that lldELF itself needs
  find_library(DTC_${name} ${name} REQUIRED)
  list(APPEND DTC_LLD_LIBRARIES "${DTC_${name}}")
endforeach()

find_package(Protobuf REQUIRED)
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)

include_directories("${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})

add_compile_options(-Wall -Wextra -Wno-unused-parameter -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wno-nested-anon-types -Wno-gnu-anonymous-struct)
  add_link_options(-fuse-ld=lld -B/usr/lib/llvm-22/bin)
endif()
if(DTC_SANITIZE)
  add_compile_options(-fsanitize=${DTC_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DTC_SANITIZE})
endif()
