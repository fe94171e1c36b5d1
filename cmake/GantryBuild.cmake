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

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wnull-dereference)
if(GANTRY_UNITS)
  # A file of a unit is none that others include.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(GANTRY_WERROR)
  add_compile_options(-Werror)
endif()
# Test and program code is plain: it is optimised a little in each preset, and with
# GANTRY_PLAIN_TESTS it has no sanitizer. Its objects are then the same in each preset, and the
# compiler's cache serves all but the first: docs/results/build.md. The others are judged.
set(plain $<BOOL:$<TARGET_PROPERTY:GANTRY_PLAIN>>)
set(judged $<NOT:${plain}>)
if(NOT GANTRY_PLAIN_TESTS)
  set(judged 1)
endif()
add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:${plain}>>:${GANTRY_OPTIMISE}>")
if(GANTRY_SANITIZE)
  # Its check of a virtual table opens a pipe: without descriptors left it takes every object for
  # broken.
  set(unchecked vptr)
  if(GANTRY_SANITIZE MATCHES address)
    # AddressSanitizer finds what these checks find where memory is touched, and the two take a fifth
    # of the compiler's time: docs/results/build.md.
    string(APPEND unchecked ",null,object-size")
  endif()
  set(options -fsanitize=${GANTRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
              -fno-sanitize=${unchecked}
              # The sanitizers' own bookkeeping trips these in library headers.
              -Wno-null-dereference $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(GANTRY_SANITIZE MATCHES thread)
    list(APPEND options -Wno-tsan)  # fences: each has a twin the sanitizer sees, docs/mechanisms
  endif()
  add_compile_options("$<${judged}:${options}>")
  add_link_options(-fsanitize=${GANTRY_SANITIZE})
  # The sanitizers' tables have a million pointers, which a program that lies anywhere adjusts each
  # time it starts: half of that time, and there are ten thousand starts in a run of the tests.
  if(GANTRY_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

# Of the library's kernels; of the rest -O2 takes a tenth less of the compiler's time.
set(GANTRY_KERNEL -O3)
if(GANTRY_SANITIZE)
  set(GANTRY_KERNEL)
endif()

# gantry_plain(TARGET [OPTION]): its objects are those of each preset. -Og, where OPTION does not say
# otherwise, takes the compiler a quarter less than -O1: docs/results/build.md.
function(gantry_plain target)
  set_target_properties(${target} PROPERTIES GANTRY_PLAIN ON)
  set(optimised ${ARGN})
  if(NOT optimised)
    set(optimised -Og)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${optimised}>)
endfunction()

# Units of plain targets lie where each preset finds the same ones; a unit's name has its content.
set(GANTRY_PLAIN_UNITS_FOLDER ${PROJECT_BINARY_DIR}/units)
if(PROJECT_BINARY_DIR MATCHES "^${PROJECT_SOURCE_DIR}/build/[^/]+$")
  set(GANTRY_PLAIN_UNITS_FOLDER ${PROJECT_SOURCE_DIR}/build/units)
endif()

# gantry_compile_in_units(TARGET): files of one folder are compiled together, up to 16 at a time,
# which takes a quarter of the time: docs/results/build.md. So files of one target and folder share
# their anonymous namespace. What has compile settings of its own stays alone.
function(gantry_compile_in_units target)
  get_target_property(sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES GANTRY_SOURCES "${sources}")
  if(NOT GANTRY_UNITS)
    return()
  endif()
  set(folders)
  set(rest)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source)
    get_source_file_property(settings ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(settings OR definitions OR alone OR NOT source MATCHES "^${PROJECT_SOURCE_DIR}/(.+)/[^/]+\\.cpp$")
      list(APPEND rest ${source})
    else()
      string(REPLACE / _ folder ${CMAKE_MATCH_1})
      list(APPEND folders ${folder})
      list(APPEND files_${folder} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    list(LENGTH files_${folder} count)
    if(count EQUAL 1)
      list(APPEND rest ${files_${folder}})
      continue()
    endif()
    math(EXPR units "(${count} + 15) / 16")
    math(EXPR size "(${count} + ${units} - 1) / ${units}")
    set(text)
    set(done 0)
    foreach(file ${files_${folder}})
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(APPEND text "#include \"${file}\"\n")
      math(EXPR done "${done} + 1")
      math(EXPR left "${done} % ${size}")
      if(left EQUAL 0 OR done EQUAL count)
        get_target_property(is_plain ${target} GANTRY_PLAIN)
        if(is_plain)
          string(SHA256 content "${text}")
          string(SUBSTRING ${content} 0 8 content)
          set(unit ${GANTRY_PLAIN_UNITS_FOLDER}/${target}/${folder}_${content}.cpp)
        else()
          set(unit ${PROJECT_BINARY_DIR}/units/${target}/${folder}_${done}.cpp)
        endif()
        file(CONFIGURE OUTPUT ${unit} CONTENT "${text}")
        list(APPEND rest ${unit})
        set(text)
      endif()
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${rest}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

# How the library's objects are compiled: calls within the library go straight to their functions,
# not by way of the dynamic linker. Protected: what GANTRY_API does not mark is seen by the other
# components of this build, and has no promise.
function(gantry_part_of_library target)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition -fno-plt)
  set_property(GLOBAL APPEND PROPERTY gantry_objects $<TARGET_OBJECTS:${target}>)
  set_property(GLOBAL APPEND PROPERTY gantry_objects_${GANTRY_COMPONENT} $<TARGET_OBJECTS:${target}>)
endfunction()

# gantry_backend(NAME files...): a part of a component that sees only what is linked to it.
function(gantry_backend name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE gantry_private)
  gantry_part_of_library(${name})
  gantry_compile_in_units(${name})
endfunction()

# gantry_library(libraries...): what the component that is being listed links, found by a room.
function(gantry_library)
  target_link_libraries(${GANTRY_LIBRARY} PRIVATE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY gantry_libraries ${ARGN})
endfunction()

# gantry_component(NAME [REGISTERS] [SEES components...] [LIBRARIES ...]): a library libgantry-NAME,
# gantry::NAME for users. The folder NAME adds its files to ${GANTRY_PARTS}. REGISTERS:
# it adds to the core what nothing calls by name (runtime/components.hpp); programs that link it say
# so to the linker.
function(gantry_component name)
  cmake_parse_arguments(arg "REGISTERS" "" "SEES;LIBRARIES" ${ARGN})
  set(GANTRY_COMPONENT ${name})
  set(GANTRY_PARTS gantry_${name}_parts)
  set(GANTRY_LIBRARY gantry_${name})
  add_library(${GANTRY_PARTS} OBJECT)
  target_link_libraries(${GANTRY_PARTS} PRIVATE gantry_private Threads::Threads ${arg_LIBRARIES})
  target_compile_definitions(${GANTRY_PARTS} PRIVATE GANTRY_VERSION="${PROJECT_VERSION}")
  if(GANTRY_STEPS)
    target_compile_definitions(${GANTRY_PARTS} PRIVATE GANTRY_STEPS)
  endif()
  gantry_part_of_library(${GANTRY_PARTS})

  add_library(${GANTRY_LIBRARY})
  add_library(gantry::${name} ALIAS ${GANTRY_LIBRARY})
  set(exported ${PROJECT_SOURCE_DIR}/src/exported_symbols)
  set_target_properties(${GANTRY_LIBRARY} PROPERTIES
                        OUTPUT_NAME gantry-${name} EXPORT_NAME ${name} VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINKER_LANGUAGE CXX LINK_DEPENDS ${exported})
  target_compile_features(${GANTRY_LIBRARY} PUBLIC cxx_std_20)
  target_include_directories(${GANTRY_LIBRARY}
                             PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM arg_SEES PREPEND gantry_)
  target_link_libraries(${GANTRY_LIBRARY} PUBLIC tl::expected ${arg_SEES}
                                          PRIVATE Threads::Threads fmt::fmt ${CMAKE_DL_LIBS})
  gantry_library(${arg_LIBRARIES})
  # Templates of the standard library are not ours to export, whatever their headers say.
  target_link_options(${GANTRY_LIBRARY} PRIVATE -Wl,--version-script=${exported})
  if(NOT GANTRY_SANITIZE)  # what a component needs of one that it does not see
    target_link_options(${GANTRY_LIBRARY} PRIVATE -Wl,--no-undefined)
  endif()
  if(arg_REGISTERS)
    # Nothing else may name the library: many compilers drop such a one by themselves.
    target_link_options(${GANTRY_LIBRARY} INTERFACE -Wl,--no-as-needed
                                                    -Wl,--undefined=gantry_component_${name})
    # The core calls what was added until the process ends: dlclose() must not take it away.
    target_link_options(${GANTRY_LIBRARY} PRIVATE -Wl,-z,nodelete)
    set_property(GLOBAL APPEND PROPERTY gantry_registrations
                 -Wl,--undefined=gantry_component_${name})
  endif()
  add_subdirectory(${name})
  gantry_compile_in_units(${GANTRY_PARTS})
  get_property(objects GLOBAL PROPERTY gantry_objects_${name})
  target_sources(${GANTRY_LIBRARY} PRIVATE ${objects})
  set_property(GLOBAL APPEND PROPERTY gantry_components ${name})
endfunction()

# What programs consist of that tests start.
set(GANTRY_PRODUCTS ${PROJECT_BINARY_DIR}/bin ${PROJECT_BINARY_DIR}/lib ${PROJECT_BINARY_DIR}/libexec)
# For add_test(COMMAND ...): ${GANTRY_KEPT} paths... -- command... does not run again while command,
# paths and programs are as they were when it passed: tools/run-kept.
set(GANTRY_KEPT ${PROJECT_SOURCE_DIR}/tools/run-kept ${GANTRY_PRODUCTS})

# The tests labelled concurrency: all that the preset tsan builds.
add_custom_target(gantry_concurrency_tests)

# gantry_test(NAME files... [PUBLIC] [LIBRARIES ...] [LABELS ...] [LOCK name] [PROCESSORS n]
# [SMOKE filter] [DATA paths...] [COMPUTES]): one Google Test program per module; with PUBLIC it sees
# the library as users do. Tests with the same lock run one at a time; each takes one processor of
# those that ctest was given, or n. Under sanitizers only the tests that SMOKE names run, if it is
# given. DATA: what it reads of a folder that is compiled in; "always": what it depends on cannot be
# named. COMPUTES: the test's own code takes most of its time, so -O1 compiles it.
function(gantry_test name)
  if(NOT GANTRY_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "PUBLIC;COMPUTES" "LOCK;PROCESSORS;SMOKE" "LIBRARIES;LABELS;DATA" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)  # an empty value would swallow the next word
  endif()
  set(needs)
  if(arg_LOCK)
    set(needs RESOURCE_LOCK ${arg_LOCK})
  endif()
  if(arg_PROCESSORS)
    list(APPEND needs PROCESSORS ${arg_PROCESSORS})
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  set(library gantry_internal)
  if(arg_PUBLIC)
    set(library gantry fmt::fmt)
  endif()
  target_link_libraries(${name} PRIVATE ${library} GTest::gmock GTest::gtest_main ${arg_LIBRARIES}
                        gantry_forked_failures)
  if(arg_COMPUTES)
    gantry_plain(${name} -O1)
  else()
    gantry_plain(${name})
  endif()
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Wno-null-dereference>)  # of -O1
  if(GANTRY_PLAIN_TESTS)
    # Before the test's objects: templates that both have are taken from the library, which is
    # instrumented.
    add_dependencies(${name} gantry_internal)
    target_link_options(${name} PRIVATE
      "SHELL:-Wl,--whole-archive $<TARGET_FILE:gantry_internal> -Wl,--no-whole-archive")
  endif()
  gantry_compile_in_units(${name})
  if("concurrency" IN_LIST arg_LABELS)
    add_dependencies(gantry_concurrency_tests ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(environment "GANTRY_CALIBRATE=off")  # tests that mean it say so
  if(arg_SMOKE AND GANTRY_SANITIZE)
    add_test(NAME ${name}.smoke COMMAND ${name} --gtest_filter=${arg_SMOKE})
    set_tests_properties(${name}.smoke PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200 ${needs}
                                                  ENVIRONMENT "${environment}")
    return()
  endif()
  # A process for a suite: one takes 31 ms to start and to end, and 0.1 to 0.3 CPU seconds with
  # sanitizers.
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  list(JOIN needs " " needs)
  # ThreadSanitizer sees the suites that start a thread; the preset test holds the list to the truth.
  set(note_threads)
  set(threaded)
  if("concurrency" IN_LIST arg_LABELS AND TARGET gantry_note_threads)
    set(note_threads $<TARGET_FILE:gantry_note_threads>)
    add_dependencies(${name} gantry_note_threads)
  elseif(GANTRY_SANITIZE MATCHES thread)
    set(threaded ${PROJECT_SOURCE_DIR}/tests/threaded-suites)
  endif()
  file(GENERATE OUTPUT ${suites} CONTENT "set(PROGRAM [=[${PROJECT_BINARY_DIR}/tests/${name}]=])
set(NAME ${name})
set(SELF [=[${suites}]=])
set(LIST [=[${CMAKE_CURRENT_BINARY_DIR}/${name}_suites_found.cmake]=])
set(PROPERTIES [=[LABELS \"${arg_LABELS}\" TIMEOUT 3600 ${needs} ENVIRONMENT \"${environment}\"]=])
set(TOOLS [=[${PROJECT_SOURCE_DIR}/tools]=])
set(DATA [=[${arg_DATA}]=])
set(DEFINITIONS [=[$<TARGET_PROPERTY:${name},COMPILE_DEFINITIONS>]=])
set(PRODUCTS [=[${GANTRY_PRODUCTS}]=])
set(NOTE_THREADS [=[${note_threads}]=])
set(THREADED [=[${threaded}]=])
include([=[${PROJECT_SOURCE_DIR}/cmake/GantrySuites.cmake]=])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
endfunction()
