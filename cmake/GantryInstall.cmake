# What `cmake --install` puts where, and how other projects find it: find_package(gantry) gives
# gantry::gantry, which is all components, and each of them: gantry::core, gantry::net ...; with
# COMPONENTS c also gantry::c. pkg-config gives gantry.pc, gantry-core.pc and gantry-c.pc. All stay right
# when the installed tree is moved.
include(CMakePackageConfigHelpers)

set(gantry_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gantry)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(in_library LIBRARY COMPONENT library NAMELINK_COMPONENT development)
get_property(gantry_components GLOBAL PROPERTY gantry_components)
foreach(component ${gantry_components} c)  # `make demo` does not build all of them
  install(TARGETS gantry_${component} EXPORT gantry-${component}-targets ${in_library} OPTIONAL)
  install(EXPORT gantry-${component}-targets NAMESPACE gantry:: DESTINATION ${gantry_cmake_dir})
endforeach()
install(DIRECTORY include/gantry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)

configure_package_config_file(cmake/gantry-config.cmake.in gantry-config.cmake
                              INSTALL_DESTINATION ${gantry_cmake_dir})
# Before 1.0 a minor version may change what a program sees: docs/versions.md
write_basic_package_version_file(gantry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gantry-config.cmake
              ${PROJECT_BINARY_DIR}/gantry-config-version.cmake
        DESTINATION ${gantry_cmake_dir})

# A shared library brings what it uses along, and pkg-config must not ask for the headers of that (it
# does so even for Requires.private); with a static one the user's program links it too.
set(gantry_pc_kind PUBLIC)
if(BUILD_SHARED_LIBS)
  set(gantry_pc_kind PRIVATE)
endif()
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE gantry_pc_dl)
set(gantry_pc_libs_${gantry_pc_kind} "-pthread ${gantry_pc_dl}")
set(gantry_pc_requires)
set(gantry_pc_core_requires)
if(NOT BUILD_SHARED_LIBS)
  string(APPEND gantry_pc_libs_PUBLIC " -lstdc++ -lm")  # a linker for C does not add them by itself
  set(gantry_pc_requires "fmt, hwloc, libisal")
  set(gantry_pc_core_requires "${gantry_pc_requires}")
  if(GANTRY_HAVE_LIBURING)
    string(APPEND gantry_pc_requires ", liburing")
  endif()
  if(GANTRY_HAVE_LZ4)
    string(APPEND gantry_pc_requires ", liblz4")
  endif()
  if(GANTRY_HAVE_ZSTD)
    string(APPEND gantry_pc_requires ", libzstd")
  endif()
  if(GANTRY_HAVE_SODIUM)
    string(APPEND gantry_pc_requires ", libsodium")
  endif()
  if(GANTRY_HAVE_OPENSSL)
    string(APPEND gantry_pc_requires ", libssl, libcrypto")
  endif()
endif()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE gantry_pc_prefix)
set(gantry_c_pc_requires_${gantry_pc_kind} gantry)
set(gantry_pc_all)
foreach(component ${gantry_components})
  string(PREPEND gantry_pc_all "-lgantry-${component} ")
endforeach()
# What registers itself, and nothing calls by name: runtime/components.hpp.
get_property(registrations GLOBAL PROPERTY gantry_registrations)
list(JOIN registrations " " registrations)
string(PREPEND gantry_pc_all "${registrations} -Wl,--push-state,--no-as-needed ")
string(APPEND gantry_pc_all "-Wl,--pop-state")
foreach(name gantry gantry-core gantry-c)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
