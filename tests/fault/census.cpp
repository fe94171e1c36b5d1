#include "fault/census.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "fault/part.hpp"

namespace gantry::fault {
namespace {

std::size_t entries(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

Census take_census(const std::string& directory) {
  Census census;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const bool is_event =
        std::filesystem::read_symlink(entry.path(), gone) == "anon_inode:[eventfd]";
    ++(is_event ? census.events : census.descriptors);
  }
  census.threads = entries("/proc/self/task");
  census.files = entries(directory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:") != std::string::npos) ++census.shared_mappings;
  return census;
}

std::string to_string(const Census& census) {
  return fmt::format("{} descriptors, {} events, {} shared mappings, {} threads, {} files",
                     census.descriptors, census.events, census.shared_mappings, census.threads,
                     census.files);
}

void check_census(const std::string& directory, const Census& before,
                  const std::function<void()>& meanwhile) {
  const Deadline soon = Deadline::after(std::chrono::seconds(2));
  Census now = take_census(directory);
  while (!now.is_left_by(before) && !soon.passed()) {
    meanwhile();
    ::sched_yield();
    now = take_census(directory);
  }
  if (!now.is_left_by(before))
    give_up(fmt::format("something stays behind: {} before, {} after", to_string(before),
                        to_string(now)));
}

std::size_t heap_in_use() noexcept {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace gantry::fault
