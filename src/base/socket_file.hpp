#pragma once  // base/socket_file.hpp: a listening socket whose file appears complete, by rename(2).

#include <sys/stat.h>

#include "base/fd.hpp"
#include "base/socket.hpp"

namespace gantry {

// The folder may belong to another user, who can swap any entry at any time, while we may be root.
//   I1  The socket is bound, given its mode and its group in a folder of ours (mode 0700) that was
//       opened without following links: nobody else reaches what is inside. It gets its name by a
//       rename out of there.
//   I2  Nothing is changed or removed by a path that another user can redirect.

/// A socket that listens and has no name yet. Move-only; without publish() nothing of it stays.
class SocketFile {
 public:
  /// `file` is the name that publish() will give it. What a process left that died before
  /// publish() is removed. One at a time for each name: its caller holds the directory's lock.
  [[nodiscard]] static Result<SocketFile> make(const std::string& directory,
                                               const std::string& file, const FileAccess& access);
  SocketFile(SocketFile&&) noexcept = default;
  SocketFile& operator=(SocketFile&&) noexcept = delete;
  ~SocketFile() { clear(); }

  /// Gives it its name, in the place of whatever has it. Returns what stat(2) says of it.
  [[nodiscard]] Result<struct stat> publish();
  [[nodiscard]] Fd take_listener() noexcept { return std::move(listener_); }

  /// Removes what a process left that died between make() and publish().
  static void sweep(const std::string& directory, const std::string& file);

 private:
  SocketFile() noexcept = default;
  [[nodiscard]] Result<void> open_private();
  [[nodiscard]] Result<void> listen(const FileAccess& access);
  void clear() noexcept;

  std::string path_;  // of the file; for errors
  std::string file_;
  std::string hidden_;  // the private folder's name
  Fd directory_;
  Fd private_;
  Fd listener_;
};

}  // namespace gantry
