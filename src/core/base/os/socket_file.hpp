#pragma once  // base/os/socket_file.hpp: a listening socket whose file appears complete, by
              // rename(2).

#include <sys/stat.h>

#include "core/base/os/fd.hpp"
#include "core/base/os/socket.hpp"

namespace gantry {

// The folder may belong to another user, who can swap any entry at any time, while we may be root.
//   I1  The socket is bound and given its mode and group in a folder of ours (mode 0700) that was
//       opened without following links, so nobody else reaches what is inside. A rename out of
//       there gives it its name.
//   I2  Nothing is changed or removed by a path that another user can redirect.

/// A listening socket without a name yet. Move-only; without publish() nothing of it stays.
class SocketFile {
 public:
  /// `file`: the name that publish() will give it. Removes what a process left that died before
  /// publish(). Call it one at a time for each name: the caller holds the directory's lock.
  [[nodiscard]] static Result<SocketFile> make(const std::string& directory,
                                               const std::string& file, const FileAccess& access);
  SocketFile(SocketFile&&) noexcept = default;
  SocketFile& operator=(SocketFile&&) noexcept = delete;
  ~SocketFile() { clear(); }

  /// Gives the socket its name and replaces whatever has it. Returns the file's stat(2).
  [[nodiscard]] Result<struct stat> publish();
  [[nodiscard]] Fd take_listener() noexcept { return std::move(listener_); }

  /// Removes what a process left that died between make() and publish().
  static void sweep(const std::string& directory, const std::string& file);

 private:
  SocketFile() noexcept = default;
  [[nodiscard]] Result<void> open_private();
  [[nodiscard]] Result<void> listen(const FileAccess& access);
  void clear() noexcept;

  std::string path_;  // of the file; used in errors
  std::string file_;
  std::string hidden_;  // name of the private folder
  Fd directory_;
  Fd private_;
  Fd listener_;
};

}  // namespace gantry
