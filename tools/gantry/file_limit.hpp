#pragma once  // tools/gantry/file_limit.hpp: room for the descriptors of all links.

#include <sys/resource.h>

namespace gantry::run {

/// Raises the soft limit of open files to the hard one while it lives: the runner holds what all
/// its stages hold together.
class RaisedFileLimit {
 public:
  RaisedFileLimit() noexcept {
    if (::getrlimit(RLIMIT_NOFILE, &original_) != 0) return;
    rlimit raised = original_;
    raised.rlim_cur = raised.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &raised);
  }
  ~RaisedFileLimit() { restore(); }
  RaisedFileLimit(const RaisedFileLimit&) = delete;
  RaisedFileLimit& operator=(const RaisedFileLimit&) = delete;

  /// Also for forked children, which get what a shell would give them. Async-signal-safe.
  void restore() const noexcept { ::setrlimit(RLIMIT_NOFILE, &original_); }

 private:
  rlimit original_{RLIM_INFINITY, RLIM_INFINITY};
};

}  // namespace gantry::run
