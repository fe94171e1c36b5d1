#pragma once  // remote/tls.hpp: connections that nobody on the way can read or change.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"

namespace gantry {

/// Errors: `unsupported` in a build without OpenSSL.
[[nodiscard]] Result<void> check_tls();

/// Threads that nobody joins and that may still be waited for, such as those that carry a user's
/// connections: they pass on what was said last when the user has closed its ends already.
class DetachedThreads {
 public:
  void begin() noexcept {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  /// Then await_end() may wait.
  [[nodiscard]] bool is_any() noexcept {
    const std::lock_guard lock(mutex_);
    return count_ > 0;
  }
  /// Call it when all of their ends here are closed, before the process ends. Waits for a second or
  /// two at most.
  void await_end() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kMost, [this] { return count_ == 0; });
  }

 private:
  static constexpr std::chrono::milliseconds kMost{2'500};

  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned count_ = 0;
};

/// TLS 1.3 (RFC 8446) under a key made of the bridge's token (an external pre-shared key, with a
/// Diffie-Hellman exchange): each end knows that the other has the token, and neither needs a
/// certificate. Move-only.
class TlsSession {
 public:
  /// Shake hands over a connection. Errors: `permission_denied` for another token,
  /// `peer_misbehaved` when the other end does not speak TLS, `peer_gone`, `timed_out`,
  /// `interrupted`, `unsupported`.
  [[nodiscard]] static Result<TlsSession> as_caller(int socket, std::string_view token,
                                                    int interrupt, Deadline deadline);
  [[nodiscard]] static Result<TlsSession> as_bridge(int socket, std::string_view token,
                                                    Deadline deadline);
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  /// Returns a socket of this process; a thread of its own passes on what goes in and out, until
  /// either end closes. What was sent before an end closed is passed on, unless the other end takes
  /// nothing for a second: `carriers` waits for that. A byte that was changed on the way ends the
  /// connection.
  [[nodiscard]] Result<Fd> carry(Fd socket, const std::shared_ptr<DetachedThreads>& carriers) &&;

 private:
  struct Impl;
  explicit TlsSession(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
