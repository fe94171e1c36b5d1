#include "core/base/os/close_elsewhere.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/os/block_signals.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/socket.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostClosers = 16;
constexpr off_t kSmallMemory = off_t{64} << 20;

// The kernel frees that much in milliseconds.
bool is_small_memory(int descriptor) noexcept {
  struct stat facts{};
  return ::fcntl(descriptor, F_GET_SEALS) >= 0 && ::fstat(descriptor, &facts) == 0 &&
         facts.st_size <= kSmallMemory;
}

// With SO_LINGER off a TCP socket closes at once. Its sender may have switched it on again by then.
void close_here(Fd& fd) noexcept {
  const linger none{};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  fd.reset();
}

/// Threads that end when nothing is left to close. Never destroyed, since some may outlast main().
class Closers {
 public:
  // A fork may have copied it half-changed, and its threads are the parent's.
  static Closers& of_this_process() {
    Closers* known = all().load();
    if (known != nullptr && known->fork_guard_.is_this()) return *known;
    auto* const own = new Closers;
    if (all().compare_exchange_strong(known, own)) return *own;
    delete own;
    return *known;
  }

  // False: descriptors wait for a thread that cannot be started.
  static bool try_again() noexcept {
    Closers* const known = all().load();
    if (known == nullptr || !known->fork_guard_.is_this()) return true;
    if (!known->lacks_thread_.load(std::memory_order_relaxed)) return true;  // mutex_ orders
    const std::lock_guard lock(known->mutex_);
    known->start_if_needed();
    return !known->lacks_thread_.load(std::memory_order_relaxed);
  }

  void close(std::span<Fd> fds) noexcept {
    Pending* closed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      for (Fd& fd : fds) {
        if (!fd) continue;
        auto* const owned = new (std::nothrow) Pending{Fd(fd.release()), nullptr};
        if (owned == nullptr) break;  // without heap its owner closes it, and waits
        (newest_ == nullptr ? oldest_ : newest_->next) = owned;
        newest_ = owned;
      }
      closed = std::exchange(closed_, nullptr);
      start_if_needed();
    }
    while (closed != nullptr) delete std::exchange(closed, closed->next);
  }

 private:
  struct Pending {
    Fd fd;
    Pending* next;
  };

  static std::atomic<Closers*>& all() noexcept {
    static constinit std::atomic<Closers*> all{nullptr};
    return all;
  }

  void start_if_needed() noexcept {
    if (oldest_ != nullptr && running_ < kMostClosers && start()) ++running_;
    // A running one takes everything; relaxed, since who reads it without mutex_ only tries again.
    lacks_thread_.store(oldest_ != nullptr && running_ == 0, std::memory_order_relaxed);
  }

  // It has a small stack of its own; and it neither allocates nor frees, since the C library would
  // reserve 64 MiB of addresses for that.
  bool start() noexcept {
    constexpr std::size_t kStackBytes = std::size_t{256} << 10;
    pthread_attr_t attributes;
    if (::pthread_attr_init(&attributes) != 0) return false;
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_t thread{};
    const BlockSignals blocked;
    const int error = ::pthread_create(
        &thread, &attributes,
        [](void* self) -> void* {
          static_cast<Closers*>(self)->serve();
          return nullptr;
        },
        this);
    ::pthread_attr_destroy(&attributes);
    return error == 0;
  }

  void serve() noexcept {
    std::unique_lock lock(mutex_);
    while (oldest_ != nullptr) {
      Pending* const pending = std::exchange(oldest_, oldest_->next);
      if (oldest_ == nullptr) newest_ = nullptr;
      lock.unlock();
      close_here(pending->fd);
      lock.lock();
      pending->next = std::exchange(closed_, pending);
    }
    --running_;
  }

  ForkGuard fork_guard_;
  std::mutex mutex_;
  Pending* oldest_ = nullptr;  // what waits to be closed; a list, so that adding throws nothing
  Pending* newest_ = nullptr;
  Pending* closed_ = nullptr;  // to be freed
  unsigned running_ = 0;
  std::atomic<bool> lacks_thread_{false};
};

}  // namespace

void close_elsewhere(std::span<Fd> fds) noexcept {
  for (Fd& fd : fds)
    if (fd && is_small_memory(fd.get())) fd.reset();
  if (std::ranges::any_of(fds, [](const Fd& fd) { return static_cast<bool>(fd); }))
    Closers::of_this_process().close(fds);
  else
    close_what_waits();
}

bool close_what_waits() noexcept {
  return Closers::try_again();
}

// A packet may be empty. With SO_PASSCRED a look without a control buffer says MSG_CTRUNC for it,
// and not for the end. (For a stream it may say so for the end; but nothing of a stream is empty.)
bool ends_with_packets(int socket) noexcept {
  ::shutdown(socket, SHUT_RD);
  int type = 0;
  socklen_t size = sizeof type;
  ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size);
  const int on = 1;
  // Bytes sent out of band lie beside what MSG_PEEK shows.
  if (type == SOCK_STREAM) ::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
  if (type != SOCK_STREAM) ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  char byte = 0;
  iovec part{&byte, sizeof byte};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (type != SOCK_STREAM && (header.msg_flags & MSG_CTRUNC) != 0);
}

// Mere bytes are read and gone; owners of anything else that comes out close it elsewhere. No more
// can come, since the socket receives nothing any more. Few are read: emptying a full queue takes
// milliseconds, packet by packet, and starting a thread a hundredth of that.
void close_socket(Fd socket) noexcept {
  constexpr int kMostPackets = 16;
  std::array<std::byte, 256> bytes;  // NOLINT: nobody reads it
  for (int packets = 0; socket && ends_with_packets(socket.get()); ++packets) {
    const auto received = guarded([&]() -> Result<void> {
      return receive_packet(socket.get(), bytes, Deadline::now()).map([](const Packet&) {});
    });
    const bool helps = received || received.error().code == Code::peer_misbehaved;
    if (helps && packets < kMostPackets) continue;
    return close_elsewhere({&socket, 1});
  }
  close_what_waits();
}

}  // namespace gantry
