# Debian packages, by `cpack` in a build folder: libgantry0 (the libraries for C++ and C), libgantry-dev,
# gantry-tools (the programs, their manual and completions), gantry-bench and python3-gantry. What is installed where is said beside each target.
if(NOT BUILD_SHARED_LIBS OR CMAKE_CROSSCOMPILING)
  return()
endif()
set(GANTRY_MAINTAINER "Gantry maintainers <maintainers@gantry.invalid>" CACHE STRING
    "The maintainer of the Debian packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR Gantry)
set(CPACK_PACKAGE_CONTACT ${GANTRY_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS  # whatever the umask
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL library development program bench)
if(TARGET gantry_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

# gantry_package(COMPONENT NAME SECTION "Depends" "what it is")
macro(gantry_package component name section depends description)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${description}")
  list(APPEND GANTRY_PACKAGES ${component}=${name})
endmacro()
set(about "Gantry moves big buffers between processes, devices and hosts, without a
daemon, while the programs keep computing.")
set(same "libgantry0 (= ${PROJECT_VERSION})")
set(GANTRY_PACKAGES)
gantry_package(library libgantry0 libs ""
  "${about}\n.\nThis package has the shared libraries for C++ and for C.")
gantry_package(development libgantry-dev libdevel "${same}, libexpected-dev"
  "${about}\n.\nThis package has the headers, and the files for CMake and pkg-config.")
gantry_package(program gantry-tools utils "${same}"
  "${about}\n.\nThis package has the program gantry: pipelines of commands, channels.")
gantry_package(bench gantry-bench utils "${same}, gantry-tools (= ${PROJECT_VERSION})"
  "${about}\n.\nThis package has the benchmarks that gantry bench runs.")
gantry_package(python python3-gantry python "${same}, python3 (>= 3.11), python3-numpy"
  "${about}\n.\nThis package has the Python package gantry: arrays, tensors and bytes.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "ocl-icd-libopencl1")  # opened where they are

file(CONFIGURE OUTPUT packaging/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/packaging/triggers)

# Bytecode is made when the package is installed, and goes with it.
file(CONFIGURE OUTPUT packaging/postinst CONTENT "#!/bin/sh\nset -e\n\
if [ \"$1\" = configure ] && command -v py3compile >/dev/null; then py3compile -p python3-gantry; fi\n")
file(CONFIGURE OUTPUT packaging/prerm CONTENT "#!/bin/sh\nset -e\n\
if command -v py3clean >/dev/null; then py3clean -p python3-gantry; fi\n")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/packaging/postinst ${PROJECT_BINARY_DIR}/packaging/prerm)

# What only a package has: its copyright and changelog, a packed manual, no search paths.
configure_file(cmake/debian/finish.cmake.in packaging/finish.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/packaging/finish.cmake)
include(CPack)
