#pragma once  // bench/peers/peer.hpp: what the programs of peers share, one program for each
              // library.

#include <sched.h>

#include "../support/system/posix.hpp"
#include "../support/trips/assignment.hpp"

namespace gantry::bench {

/// A peer: how its ends are opened, in programs of their own. Both are told what they are; the
/// sockets connect them while they open. Threads that the library makes in there run on any CPU
/// of the assignment, the calling one is bound to its own afterwards.
struct Peer {
  Result<std::unique_ptr<Requester>> (*open_requester)(const Assignment&);
  Result<std::unique_ptr<Responder>> (*open_responder)(const Assignment&);
  /// What `--version` prints: version_text() of the library that this process loaded.
  Result<std::string> (*version)();
};

/// A version, and the file that `function` comes from; null: the library is compiled in.
[[nodiscard]] std::string version_text(std::string_view version, const void* function);

/// What main() of a peer's program does. The status to exit with.
int run_peer(int argc, const char* const* argv, const Peer& peer);

/// "library: what: why".
[[nodiscard]] inline Error peer_error(std::string_view what, std::string_view why) {
  return {Code::system, std::string(what) + ": " + std::string(why), ""};
}

/// Tells the other side of a socket of the assignment one byte, and waits for one.
[[nodiscard]] Result<void> signal_over(int socket);
[[nodiscard]] Result<void> await_over(int socket);

/// What an end does between two polls.
class Poll {
 public:
  explicit Poll(const Case& what) noexcept : lets_others_run_(what.crowded) {}
  void again() const noexcept {
    if (lets_others_run_) ::sched_yield();
  }

 private:
  bool lets_others_run_;
};

/// Places for the messages that may be in flight, in turn.
class Places {
 public:
  explicit Places(const Case& what) : bytes_(what.bytes) {
    for (unsigned i = 0; i < what.in_flight; ++i) buffers_.emplace_back(bytes_);
  }
  [[nodiscard]] ByteSpan at(std::uint64_t message) const {
    return buffers_[message % buffers_.size()].bytes();
  }
  [[nodiscard]] std::size_t count() const { return buffers_.size(); }

 private:
  Bytes bytes_;
  std::vector<Buffer> buffers_;
};

}  // namespace gantry::bench
