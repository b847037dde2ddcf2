# Standard headers, compiled once for the rooms and the trainer and, with GoogleTest, once for the tests: a quarter of the
# build's time. Files include what they use all the same: clang-tidy's build is one without.

# Tests are built once and run once; where -O1 inlines half of a replaced operator new and delete, GCC warns of the other.
set(TESSERA_TEST_OPTIONS $<$<CONFIG:Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)

# A target that uses them is compiled with the same options, but for definitions of its own.
function(tessera_use_headers target headers)
  if(TESSERA_PCH)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

if(TESSERA_PCH)
  set(TESSERA_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cpp CONTENT "")
  add_library(standard_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cpp)
  target_link_libraries(standard_headers PRIVATE tessera_options fmt::fmt)
  target_precompile_headers(standard_headers PRIVATE ${TESSERA_HEADERS})
  if(TESSERA_TESTS)
    add_library(test_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cpp)
    target_link_libraries(test_headers PRIVATE tessera_options fmt::fmt GTest::gmock)
    target_compile_options(test_headers PRIVATE ${TESSERA_TEST_OPTIONS})
    target_precompile_headers(test_headers PRIVATE ${TESSERA_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()
