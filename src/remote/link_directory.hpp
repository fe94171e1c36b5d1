#pragma once  // remote/link_directory.hpp: a folder for this process's ends of remote channels.

#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

/// A folder below the channel directory, mode 0700, which goes with this. A lock that ends with the
/// process tells those of killed processes, which the next one sweeps.
class LinkDirectory {
 public:
  [[nodiscard]] static Result<LinkDirectory> make(const std::string& parent);
  LinkDirectory() noexcept = default;
  LinkDirectory(LinkDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  LinkDirectory& operator=(LinkDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~LinkDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// A fork's copy: the folder stays.
  void forget() noexcept { path_.clear(); }

 private:
  LinkDirectory(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Fd lock_;
};

}  // namespace gantry
