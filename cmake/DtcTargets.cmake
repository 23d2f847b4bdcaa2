# How this project declares its libraries.

# One precompiled header for everything that includes MLIR.
if(DTC_PCH)
  file(WRITE "${CMAKE_BINARY_DIR}/pch/empty.cpp" "")
  add_library(dtc_mlir_pch OBJECT "${CMAKE_BINARY_DIR}/pch/empty.cpp")
  target_precompile_headers(dtc_mlir_pch PRIVATE "${CMAKE_SOURCE_DIR}/cmake/mlir_pch.h")
endif()

# dtc_mlir_library(NAME SOURCES... [LIBS libs...] [DEPENDS tablegen targets...])
function(dtc_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LIBS;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  dtc_uses_mlir(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} MLIR LLVM)
endfunction()

function(dtc_uses_mlir name)
  if(DTC_PCH)
    target_precompile_headers(${name} REUSE_FROM dtc_mlir_pch)
  endif()
endfunction()

# dtc_mlir_executable(NAME SOURCES... LIBS libs...)
function(dtc_mlir_executable name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  dtc_uses_mlir(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} MLIR LLVM)
endfunction()

# dtc_test(NAME SOURCES... LIBS libs...): a GoogleTest executable, one ctest entry a test case.
function(dtc_test name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE DTC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DTC_BINARY_DIR="${CMAKE_BINARY_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
endfunction()
