#pragma once  // bench/start/disk_limit.hpp: a disk that is read no quicker than so much a second.

#include <string>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// A control group whose processes read a folder's disk no quicker than that. Removed when it is
/// dropped, by when they have ended; a benchmark that is killed leaves it, empty.
class DiskLimit {
 public:
  /// Errors: `unsupported` with what is missing here.
  [[nodiscard]] static Result<DiskLimit> create(const std::string& folder, Bytes bytes_per_second);
  DiskLimit(DiskLimit&& other) noexcept : group_(std::exchange(other.group_, {})) {}
  DiskLimit& operator=(DiskLimit&&) = delete;
  ~DiskLimit();

  /// Takes the calling process in, and the threads that it makes.
  [[nodiscard]] Result<void> join() const;

 private:
  explicit DiskLimit(std::string group) noexcept : group_(std::move(group)) {}
  std::string group_;
};

}  // namespace gantry::bench
