# ctest includes this before it begins, for each test program: a test of ctest for each suite in it.
# Those with many tests begin first, so that none of them is alone at the end.
#   PROGRAM its path; NAME of its tests; LIST where what was found is kept; PROPERTIES of each; SELF
#   the file that sets these; TOOLS the folder of the launchers; NOTE_THREADS the third argument of
#   run-suite; THREADED the file with the suites that run, or empty for all; DEFINITIONS what the
#   program was compiled with; DATA files and folders that it reads; PRODUCTS what programs that it
#   starts consist of

# A test that fails, with the labels that its suites would have.
macro(gantry_no_suites why)
  separate_arguments(words UNIX_COMMAND "${PROPERTIES}")
  add_test(${NAME}_${why} ${NAME}_${why})
  set_tests_properties(${NAME}_${why} PROPERTIES ${words})
endmacro()

if(NOT EXISTS ${PROGRAM})
  gantry_no_suites(NOT_BUILT)
  return()
endif()
if(NOT EXISTS ${LIST} OR ${PROGRAM} IS_NEWER_THAN ${LIST} OR ${SELF} IS_NEWER_THAN ${LIST} OR
   ${CMAKE_CURRENT_LIST_FILE} IS_NEWER_THAN ${LIST} OR (NOT "${THREADED}" STREQUAL "" AND "${THREADED}" IS_NEWER_THAN ${LIST}))
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE found RESULT_VARIABLE failed)
  if(failed)
    gantry_no_suites(DOES_NOT_START)
    return()
  endif()
  string(REGEX REPLACE "  #[^\n]*" "" found "${found}")  # values of parameters
  string(REGEX MATCHALL "[^ \n]+\\.\n(  [^\n]+\n)+" suites "${found}")
  # What verdicts depend on. Paths that the program was compiled with are programs that it starts; of
  # a folder DATA says what it reads there, or the tests run each time.
  set(depends ${DATA})
  if(NOT "${NOTE_THREADS}" STREQUAL "")
    list(APPEND depends ${TOOLS}/../tests/threaded-suites)  # run-suite compares with it
  endif()
  string(REGEX MATCHALL "\"/[^\"]*\"" paths "${DEFINITIONS}")
  foreach(path ${paths})
    string(REPLACE "\"" "" path ${path})
    if(NOT IS_DIRECTORY ${path})
      list(APPEND depends ${path} ${PRODUCTS})
    elseif("${DATA}" STREQUAL "")
      list(APPEND depends always)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES depends)
  list(TRANSFORM depends REPLACE "(.+)" "[=[\\1]=]")
  list(JOIN depends " " depends)
  set(tests)
  set(listed)
  if(NOT "${THREADED}" STREQUAL "")
    file(STRINGS ${THREADED} listed)
  endif()
  foreach(suite ${suites})
    string(REGEX MATCHALL "\n  " cases "${suite}")
    list(LENGTH cases count)
    string(REGEX REPLACE "\\.\n.*" "" suite "${suite}")
    list(FIND listed "${NAME}.${suite}" place)  # a script of ctest has no IN_LIST
    if(NOT "${THREADED}" STREQUAL "" AND place EQUAL -1)
      continue()
    endif()
    string(APPEND tests
           "add_test([=[${NAME}.${suite}]=] [=[${TOOLS}/run-kept]=] ${depends} --\n"
           "  [=[${TOOLS}/run-suite]=] [=[${PROGRAM}]=] [=[${suite}]=] ${NOTE_THREADS})\n"
           "set_tests_properties([=[${NAME}.${suite}]=] PROPERTIES COST ${count}\n"
           "  SKIP_RETURN_CODE 77 ${PROPERTIES})\n")
  endforeach()
  file(WRITE ${LIST} "${tests}")
endif()
include(${LIST})
