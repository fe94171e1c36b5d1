# ctest includes this before it begins, for each test program: a test of ctest for each suite in it.
# Those with many tests begin first, so that none of them is alone at the end.
#   PROGRAM its path; NAME of its tests; LIST where what was found is kept; PROPERTIES of each; SELF
#   the file that sets these
if(NOT EXISTS ${PROGRAM})
  add_test(${NAME}_NOT_BUILT ${NAME}_NOT_BUILT)
  return()
endif()
if(NOT EXISTS ${LIST} OR ${PROGRAM} IS_NEWER_THAN ${LIST} OR ${SELF} IS_NEWER_THAN ${LIST} OR
   ${CMAKE_CURRENT_LIST_FILE} IS_NEWER_THAN ${LIST})
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE found
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "  #[^\n]*" "" found "${found}")  # values of parameters
  string(REGEX MATCHALL "[^ \n]+\\.\n(  [^\n]+\n)+" suites "${found}")
  # To the end of what it says: behind it stand those that failed.
  set(all_skipped "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+$")
  set(tests)
  foreach(suite ${suites})
    string(REGEX MATCHALL "\n  " cases "${suite}")
    list(LENGTH cases count)
    string(REGEX REPLACE "\\.\n.*" "" suite "${suite}")
    string(APPEND tests
           "add_test([=[${NAME}.${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n"
           "set_tests_properties([=[${NAME}.${suite}]=] PROPERTIES COST ${count}\n"
           "  SKIP_REGULAR_EXPRESSION [=[${all_skipped}]=] ${PROPERTIES})\n")
  endforeach()
  file(WRITE ${LIST} "${tests}")
endif()
include(${LIST})
