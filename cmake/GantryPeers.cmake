# What gantry-bench-ipc, -link and -overlap compare with: one program for each library that is
# installed; gantry-bench-engine opens libraries. Those that are not are left out; `gantry bench ipc --peers` says so then.
option(GANTRY_PEERS "Build the programs of --peers whose libraries are installed" ON)

add_library(gantry_bench_peer STATIC peers/peer.cpp)
target_link_libraries(gantry_bench_peer PUBLIC gantry_bench_support Threads::Threads)

# gantry_peer(NAME CONDITION WORDS... INCLUDES ... LIBRARIES ...)
function(gantry_peer name)
  cmake_parse_arguments(arg "" "" "INCLUDES;LIBRARIES;NEEDS" ${ARGN})
  foreach(need ${arg_NEEDS})
    if(NOT ${need})
      message(STATUS "bench: no peer ${name}: ${need} was not found")
      return()
    endif()
  endforeach()
  add_executable(gantry-peer-${name} peers/${name}.cpp)
  target_include_directories(gantry-peer-${name} SYSTEM PRIVATE ${arg_INCLUDES})
  target_link_libraries(gantry-peer-${name} PRIVATE gantry_bench_peer ${arg_LIBRARIES})
  set_target_properties(gantry-peer-${name} PROPERTIES
    INSTALL_RPATH $ORIGIN/../../${CMAKE_INSTALL_LIBDIR})
  install(TARGETS gantry-peer-${name} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/gantry
          COMPONENT peers OPTIONAL)
  foreach(bench gantry-bench-ipc gantry-bench-link gantry-bench-overlap)
    add_dependencies(${bench} gantry-peer-${name})
  endforeach()
endfunction()

# gantry_peer_library(NAME NEEDS ... LIBRARIES ...): opened where it is wanted.
function(gantry_peer_library name)
  cmake_parse_arguments(arg "" "" "INCLUDES;LIBRARIES;NEEDS" ${ARGN})
  foreach(need ${arg_NEEDS})
    if(NOT ${need})
      message(STATUS "bench: no peer ${name}: ${need} was not found")
      return()
    endif()
  endforeach()
  add_library(gantry-peer-${name} MODULE peers/${name}.cpp)
  target_include_directories(gantry-peer-${name} SYSTEM PRIVATE ${arg_INCLUDES})
  target_link_libraries(gantry-peer-${name} PRIVATE ${arg_LIBRARIES})
  set_target_properties(gantry-peer-${name} PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})  # beside the programs
  install(TARGETS gantry-peer-${name} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/gantry
          COMPONENT peers OPTIONAL)
  add_dependencies(gantry-bench-engine gantry-peer-${name})
endfunction()

if(NOT GANTRY_PEERS)
  return()
endif()

pkg_check_modules(PEER_MPI ompi-c)
find_program(PEER_MPIRUN mpirun)
gantry_peer(openmpi NEEDS PEER_MPI_FOUND PEER_MPIRUN
  INCLUDES ${PEER_MPI_INCLUDE_DIRS} LIBRARIES ${PEER_MPI_LINK_LIBRARIES})
if(TARGET gantry-peer-openmpi)
  target_compile_definitions(gantry-peer-openmpi PRIVATE OMPI_SKIP_MPICXX)  # its C interface only
endif()

# Ranks in hosts of their own: see peers/mpi_rank.cpp.
find_path(PEER_PMIX_INCLUDE pmix.h PATH_SUFFIXES pmix2/include
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
find_library(PEER_PMIX NAMES pmix libpmix.so.2)
set(sources_of_openmpi_collectives overlap/collective_data.cpp)
set(sources_of_openmpi_overlap overlap/values.cpp)
foreach(peer openmpi_collectives openmpi_overlap)
  gantry_peer(${peer} NEEDS PEER_MPI_FOUND PEER_MPIRUN PEER_PMIX_INCLUDE PEER_PMIX
    INCLUDES ${PEER_MPI_INCLUDE_DIRS} ${PEER_PMIX_INCLUDE}
    LIBRARIES ${PEER_MPI_LINK_LIBRARIES} ${PEER_PMIX})
  if(TARGET gantry-peer-${peer})
    target_sources(gantry-peer-${peer} PRIVATE peers/mpi_rank.cpp ${sources_of_${peer}})
    target_compile_definitions(gantry-peer-${peer} PRIVATE OMPI_SKIP_MPICXX)
  endif()
endforeach()

pkg_check_modules(PEER_UCX ucx)
gantry_peer(ucx NEEDS PEER_UCX_FOUND
  INCLUDES ${PEER_UCX_INCLUDE_DIRS} LIBRARIES ${PEER_UCX_LINK_LIBRARIES})

pkg_check_modules(PEER_ZMQ libzmq)
gantry_peer(zeromq NEEDS PEER_ZMQ_FOUND
  INCLUDES ${PEER_ZMQ_INCLUDE_DIRS} LIBRARIES ${PEER_ZMQ_LINK_LIBRARIES})

pkg_check_modules(PEER_FABRIC libfabric)
gantry_peer(libfabric NEEDS PEER_FABRIC_FOUND
  INCLUDES ${PEER_FABRIC_INCLUDE_DIRS} LIBRARIES ${PEER_FABRIC_LINK_LIBRARIES})

pkg_check_modules(PEER_HIREDIS hiredis)
find_program(PEER_REDIS_SERVER redis-server)
gantry_peer(redis NEEDS PEER_HIREDIS_FOUND PEER_REDIS_SERVER
  INCLUDES ${PEER_HIREDIS_INCLUDE_DIRS} LIBRARIES ${PEER_HIREDIS_LINK_LIBRARIES})

find_package(nng CONFIG QUIET)
gantry_peer(nng NEEDS nng_FOUND LIBRARIES nng::nng)

find_package(iceoryx_posh CONFIG QUIET)
find_program(PEER_ROUDI iox-roudi)
gantry_peer(iceoryx NEEDS iceoryx_posh_FOUND PEER_ROUDI LIBRARIES iceoryx_posh::iceoryx_posh)
if(TARGET gantry-peer-iceoryx)
  target_compile_options(gantry-peer-iceoryx PRIVATE -Wno-null-dereference)  # in its headers
endif()

gantry_peer(tachyon LIBRARIES ${CMAKE_DL_LIBS})  # no package: opened where it runs

find_path(PEER_BOOST_INCLUDE boost/interprocess/ipc/message_queue.hpp)
gantry_peer(boost NEEDS PEER_BOOST_INCLUDE INCLUDES ${PEER_BOOST_INCLUDE} LIBRARIES rt)

find_path(PEER_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(PEER_DNNL dnnl)
gantry_peer_library(onednn NEEDS PEER_DNNL_INCLUDE PEER_DNNL
  INCLUDES ${PEER_DNNL_INCLUDE} LIBRARIES ${PEER_DNNL})

find_path(PEER_OPENCV_INCLUDE opencv2/imgproc.hpp PATH_SUFFIXES opencv4)
find_library(PEER_OPENCV_CORE opencv_core)
find_library(PEER_OPENCV_IMGPROC opencv_imgproc)
gantry_peer_library(opencv NEEDS PEER_OPENCV_INCLUDE PEER_OPENCV_CORE PEER_OPENCV_IMGPROC
  INCLUDES ${PEER_OPENCV_INCLUDE} LIBRARIES ${PEER_OPENCV_CORE} ${PEER_OPENCV_IMGPROC})
