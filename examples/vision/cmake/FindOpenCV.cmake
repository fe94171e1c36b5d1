# OpenCV by its own package file where there is one, else by its headers and libraries: Debian puts
# the package file into libopencv-dev, which pulls in far more than the few modules needed here.
# Gives the targets opencv_MODULE for the components asked for.
find_package(OpenCV CONFIG QUIET COMPONENTS ${OpenCV_FIND_COMPONENTS})
if(OpenCV_FOUND)
  return()
endif()

find_path(OpenCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4)
set(opencv_libraries "")
foreach(module ${OpenCV_FIND_COMPONENTS})
  find_library(OpenCV_${module}_LIBRARY opencv_${module})
  list(APPEND opencv_libraries OpenCV_${module}_LIBRARY)
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCV REQUIRED_VARS OpenCV_INCLUDE_DIR ${opencv_libraries}
                                  REASON_FAILURE_MESSAGE "on Debian: libopencv-MODULE-dev")
if(NOT OpenCV_FOUND)
  return()
endif()
foreach(module ${OpenCV_FIND_COMPONENTS})
  if(NOT TARGET opencv_${module})
    add_library(opencv_${module} UNKNOWN IMPORTED)
    set_target_properties(opencv_${module} PROPERTIES
      IMPORTED_LOCATION ${OpenCV_${module}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${OpenCV_INCLUDE_DIR})
    if(NOT module STREQUAL core)
      target_link_libraries(opencv_${module} INTERFACE opencv_core)
    endif()
  endif()
endforeach()
