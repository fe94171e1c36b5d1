#pragma once  // bench/peers/mpirun.hpp: a subject whose ends are ranks of one MPI job.

#include "external.hpp"

namespace gantry::bench {

/// Where one reader's rank runs: on another host than the requester's.
struct MpiHosts {
  std::string asking;  ///< Addresses.
  std::string answering;
  std::vector<std::string> asking_words{};  ///< What starts a program there, before its own.
  std::vector<std::string> answering_words{};
};

struct MpiLaunch {
  std::vector<std::string> settings{};  ///< Pairs for --mca.
  std::vector<std::string> wrapper{};   ///< Words before the requester's own.
  std::optional<MpiHosts> hosts{};      ///< None: all ranks here.
};

/// The major version of the mpirun in $PATH; 0: none that says so.
[[nodiscard]] unsigned mpirun_major();
/// MpiLaunch::settings of ranks that share memory; `single_copy`: "none", "cma".
[[nodiscard]] std::vector<std::string> shared_memory_settings(const std::string& single_copy);

/// Ranks that mpirun starts, rank 0 the requester.
[[nodiscard]] Result<std::unique_ptr<Subject>> make_mpi(const Case& what, const MpiLaunch& launch);

}  // namespace gantry::bench
