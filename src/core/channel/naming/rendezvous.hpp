#pragma once  // channel/naming/rendezvous.hpp: how a consumer finds its producer by name.

#include <sys/stat.h>

#include <string>

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"

namespace gantry {

// A channel NAME is the socket NAME.sock in the directory; it is alive while somebody listens on
// it. The socket appears by rename, listening already (base/os/socket_file.hpp), so "nobody
// listens" always means "stale". The directory is changed (claiming, sweeping) under flock() of the
// directory itself, so there is no lock file that could be left behind; an owner removes its own
// file while it still listens, without the lock.

inline constexpr const char* kSocketSuffix = ".sock";
/// "queue-PID-WORD": a queue of work whose name no other process takes again. The next one in its
/// folder sweeps those of dead processes.
inline constexpr std::string_view kQueuePrefix = "queue-";

/// As channel_directory_path(). Errors: `invalid_argument` when $GANTRY_DIR is relative.
[[nodiscard]] Result<std::string> chosen_channel_directory(std::string_view given);
/// The folder to look into, which others may pass through: makes nothing, `not_found` when it does
/// not exist. Root may look into anybody's.
[[nodiscard]] Result<std::string> existing_channel_directory(std::string_view given);
/// Checks what lstat(2) said of `path`.
[[nodiscard]] Result<void> check_is_directory(const std::string& path, const struct stat& facts);

/// A name that is ours: the listening socket and its file. Move-only; gives the name up in the end.
class Claim {
 public:
  /// `owner`: what takes the name, in errors.
  /// Errors: `already_exists` when a live producer has the name; `timed_out` when another process
  /// stays inside the directory's lock; `interrupted` when `interrupt` becomes readable.
  [[nodiscard]] static Result<Claim> take(const std::string& directory, const std::string& name,
                                          int interrupt = -1, const FileAccess& access = {},
                                          std::string_view owner = "producer");

  Claim() noexcept = default;
  Claim(Claim&&) noexcept = default;
  Claim& operator=(Claim&&) noexcept = default;
  ~Claim() { give_up(); }

  [[nodiscard]] int listener() const noexcept { return listener_.get(); }
  void give_up() noexcept;  ///< Removes the file if it is still ours, and stops listening.

 private:
  Fd listener_;
  std::string directory_;
  std::string file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  ForkGuard fork_guard_;  // a fork's copy must not remove its parent's name
};

/// Says that an end waits for `whom` of `name`, and which names there are that somebody chose.
[[nodiscard]] std::string awaited_text(const std::string& directory, const std::string& name,
                                       std::string_view whom);
/// Connects to the producer of `name` and waits until it appears; `whom`: its name in errors;
/// `notices`: EndOptions::notices.
/// Errors: `timed_out`, `interrupted` (when `interrupt` becomes readable), `permission_denied`.
[[nodiscard]] Result<Fd> find_producer(const std::string& directory, const std::string& name,
                                       int interrupt, Deadline deadline,
                                       std::string_view whom = "producer", bool notices = false);

/// Removes the socket of `name` if nobody listens on it. Any process may call it at any time. Waits
/// for the directory's lock until `deadline`, then leaves the file to others.
void sweep_if_stale(const std::string& directory, const std::string& name,
                    Deadline deadline = Deadline::after(std::chrono::seconds(1))) noexcept;

/// The same for all names in `directory`.
void sweep_all_stale(const std::string& directory,
                     Deadline deadline = Deadline::after(std::chrono::seconds(1))) noexcept;

}  // namespace gantry
