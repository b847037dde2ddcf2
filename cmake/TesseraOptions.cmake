option(TESSERA_TESTS "Build the tests" ON)
option(TESSERA_WERROR "Treat warnings as errors" ON)
option(TESSERA_FUZZ "Build the fuzz targets (clang only)" OFF)
option(TESSERA_BENCHMARKS "Build the benchmarks" ON)
option(TESSERA_PCH "Precompile the standard headers" ON)
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers for all targets, as in -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE ccache)
if(CCACHE)
  # With precompiled headers, and for all build folders together: by paths relative to the folder.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE ${CMAKE_SOURCE_DIR}/lib)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor $<$<BOOL:${TESSERA_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # GCC 12 warns of std::string + std::string (its bug 105651)
  # GCC's precompiled headers forget the pragmas by which std::string keeps it from such warnings (its bug 64117).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TESSERA_PCH}>>:-Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>)
# One kind of code in libraries and programs, so that all share the precompiled headers.
target_compile_options(tessera_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fPIC -pthread ${warnings}>
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra $<$<BOOL:${TESSERA_WERROR}>:--Werror=all-warnings>>)
# nvcc's front end does not take fmt's consteval constructors.
target_compile_definitions(tessera_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1;FMT_CONSTEVAL=>")
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# Loops over Highway are compiled for SSE4, AVX2 and AVX-512; which of them runs is decided at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(TESSERA_HIGHWAY_OPTIONS -msse4.2 -maes -mpclmul)
  set(TESSERA_HIGHWAY_DEFINITIONS "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX3_DL)")
endif()
