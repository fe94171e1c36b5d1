# How every target of this project is compiled, and how a test is declared.

find_program(GANTRY_CCACHE ccache)
if(GANTRY_CCACHE)
  # Paths are seen from the source tree, so that a clone elsewhere finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${GANTRY_CCACHE})
endif()
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold GANTRY_MOLD)  # a cross compiler may not find it
if(GANTRY_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                    -Wold-style-cast -Woverloaded-virtual -Wnull-dereference)
if(GANTRY_WERROR)
  add_compile_options(-Werror)
endif()
if(GANTRY_SANITIZE)
  add_compile_options(-fsanitize=${GANTRY_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  # Its check of a virtual table opens a pipe: without descriptors left it takes every object for
  # broken.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${GANTRY_SANITIZE})
  # The sanitizers' own bookkeeping trips these in library headers.
  add_compile_options(-Wno-null-dereference $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(GANTRY_SANITIZE MATCHES thread)
    add_compile_options(-Wno-tsan)  # fences: each has a twin the sanitizer sees, docs/mechanisms
  endif()
endif()

# gantry_test(NAME files... [LIBRARIES ...] [LABELS ...] [LOCK name]): one Google Test program per
# module. Of tests with the same lock one runs at a time.
function(gantry_test name)
  if(NOT GANTRY_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "LOCK" "LIBRARIES;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)  # an empty value would swallow the next word
  endif()
  set(lock)
  if(arg_LOCK)
    set(lock RESOURCE_LOCK ${arg_LOCK})
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE gantry gantry_private GTest::gmock GTest::gtest_main
                                        ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300 ${lock}
                                  ENVIRONMENT "GANTRY_CALIBRATE=off")  # tests that mean it say so
endfunction()
