#pragma once  // fault/image_traces.hpp: what processes that were killed could leave behind.

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gantry/types.hpp>
#include <string>

namespace gantry::fault {

/// Of the whole machine.
inline Bytes shared_memory() {
  std::ifstream facts("/proc/meminfo");
  for (std::string word; facts >> word;)
    if (word == "Shmem:") {
      Bytes kib = 0;
      facts >> kib;
      return kib << 10;
    }
  return 0;
}

inline std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Named objects among all programs' shared memory that are ours.
inline std::size_t named_objects() {
  const auto is_ours = [](const std::filesystem::directory_entry& one) {
    return one.path().filename().string().find("gantry") != std::string::npos;
  };
  return static_cast<std::size_t>(std::count_if(std::filesystem::directory_iterator("/dev/shm"),
                                                std::filesystem::directory_iterator(), is_ours));
}

inline bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_ino == other.st_ino && one.st_size == other.st_size &&
         one.st_mtim.tv_sec == other.st_mtim.tv_sec && one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

}  // namespace gantry::fault
