include(GoogleTest OPTIONAL)

# tessera_room(NAME SOURCES a.cpp ... ROOMS core ... LIBRARIES yaml-cpp ... [NO_HEADERS])
# A room is a static library tessera_NAME. ROOMS are the rooms it may include; LIBRARIES stay private to it. NO_HEADERS: it
# has compiler options of its own, and so cannot share the precompiled headers.
function(tessera_room name)
  cmake_parse_arguments(ARG "NO_HEADERS" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_ROOMS PREPEND tessera_)
  target_link_libraries(tessera_${name} PUBLIC tessera_options ${ARG_ROOMS} PRIVATE ${ARG_LIBRARIES})
  if(NOT ARG_NO_HEADERS)
    tessera_use_headers(tessera_${name} standard_headers)
  endif()
endfunction()

# Options of a program that is a test.
function(tessera_test_options target)
  target_link_libraries(${target} PRIVATE tessera_options fmt::fmt GTest::gtest GTest::gmock)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE ${TESSERA_TEST_OPTIONS})
  tessera_use_headers(${target} test_headers)
endfunction()

# tessera_test(NAME SOURCES a_test.cpp ... ROOMS mesh ... LIBRARIES ... [MPI_SIZES 1 2 4] [LABELS slow] [TIMEOUT 60])
# One line adds a test; with MPI_SIZES it is run under mpirun once for each size.
function(tessera_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;ROOMS;LIBRARIES;MPI_SIZES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_ROOMS PREPEND tessera_)
  target_link_libraries(${name} PRIVATE ${ARG_ROOMS} ${ARG_LIBRARIES}
    $<$<NOT:$<BOOL:${ARG_MPI_SIZES}>>:GTest::gtest_main>)
  tessera_test_options(${name})
  if(ARG_MPI_SIZES)
    foreach(size ${ARG_MPI_SIZES})
      add_test(NAME ${name}_np${size}
        COMMAND mpirun --allow-run-as-root --oversubscribe -np ${size} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}_np${size} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS};mpi"
        PROCESSORS 2 ENVIRONMENT "OMP_NUM_THREADS=1")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  endif()
endfunction()
