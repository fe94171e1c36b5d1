#pragma once  // remote/session/test_hostile.hpp: one side of a session at work, and a link to it
              // over which a test says whatever it wants.

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"
#include "net/remote/session/remote_record.hpp"
#include "net/remote/session/session.hpp"
#include "net/remote/session/test_record.hpp"

namespace gantry::test {

using Record = std::vector<std::byte>;

/// Runs a side in a thread of its own until its work over this link has ended.
class SideAtWork {
 public:
  using MakeLink = Result<std::unique_ptr<Link>> (*)(int socket, const LinkOptions& options);
  explicit SideAtWork(std::unique_ptr<RemoteSide> side, std::uint64_t received = 0,
                      MakeLink make_link = make_stream_link)
      : side_(std::move(side)), make_link_(make_link) {
    begin(received);
  }
  ~SideAtWork() {
    ring(stop_.get());
    if (thread_.joinable()) thread_.join();
  }
  SideAtWork(const SideAtWork&) = delete;
  SideAtWork& operator=(const SideAtWork&) = delete;

  /// Breaks the link, and lets the side go on over another one.
  void break_link(std::uint64_t received = 0) {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
    EXPECT_EQ(end_.kind, RemoteEnd::Kind::broken) << to_string(end_.why);
    drain(over_.get());
    begin(received);
  }
  [[nodiscard]] Link& peer() noexcept { return *peer_; }
  /// Says what the side takes; false when it listens no more.
  bool say(const Record& record) { return peer_->send_control(record, soon()).has_value(); }
  bool say(const RemoteHead& head, ConstByteSpan payload = {}) {
    auto words = head.encode();
    words.insert(words.end(), payload.begin(), payload.end());
    const auto pieces = cut_for_link(words);
    return std::ranges::all_of(pieces, [&](const Record& piece) { return say(piece); });
  }
  /// What the side says next; empty when there is nothing until the deadline, or nobody any more.
  [[nodiscard]] Record hear(Deadline deadline = soon()) {
    Record record(kMaxControlBytes);
    const auto size = peer_->receive_control(record, deadline);
    record.resize(size.value_or(0));
    return record;
  }
  void stop() { ring(stop_.get()); }
  /// Serves the link until the side's work over it has ended: see RemoteEnd.
  [[nodiscard]] RemoteEnd end() {
    for (const Deadline deadline = soon(); !is_readable(over_.get()) && !deadline.passed();)
      if (!peer_->poll())
        sleep_on({peer_->state() ? peer_->descriptor() : -1, over_.get()}, kRemoteRest);
    EXPECT_TRUE(is_readable(over_.get())) << "it goes on and on";
    stop();
    thread_.join();
    return end_;
  }
  /// The other end of its channel learns that the side is gone.
  void drop() { side_.reset(); }

 private:
  void begin(std::uint64_t received) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    socket_.reset(::dup(ends[1]));
    link_ = make_link_(ends[0], {"mallory", std::chrono::milliseconds(0)}).value();
    peer_ = make_link_(ends[1], {"victim", std::chrono::milliseconds(0)}).value();
    thread_ = std::thread([this, received] {
      end_ = SharedTurns(stop_.get()).run(*side_, link_, received);
      ring(over_.get());
    });
  }

  std::unique_ptr<RemoteSide> side_;
  const MakeLink make_link_;
  Fd socket_;  // of peer_
  std::shared_ptr<Link> link_;
  std::unique_ptr<Link> peer_;
  RemoteEnd end_;  // of the thread until over_ is readable
  const Fd stop_ = make_event().value();
  const Fd over_ = make_event().value();
  std::thread thread_;  // last: it uses all of the above
};

/// A head of one part whose payload follows.
inline RemoteHead head_of(std::uint64_t number, Bytes bytes) {
  RemoteHead head;
  head.number = number;
  head.has_payload = true;
  head.bytes = bytes;
  head.parts.push_back({bytes, {}, {}});
  return head;
}

/// A head whose parts lie in exported memory.
inline RemoteHead head_of(std::uint64_t number, std::initializer_list<RemoteRegion> regions) {
  RemoteHead head;
  head.number = number;
  for (const RemoteRegion& region : regions) {
    head.parts.push_back({region.bytes, region, {}});
    head.bytes += region.bytes;
  }
  return head;
}

/// A record of a kind and whatever bytes.
inline Record record_of(unsigned kind, ConstByteSpan rest = {}) {
  WordWriter out;
  out.number(kind, 1);
  out.bytes(rest);
  return out.take();
}
inline Record record_of(RemoteKind kind, ConstByteSpan rest = {}) {
  return record_of(static_cast<unsigned>(kind), rest);
}

/// The error that a record says; code `system` if it is of another kind.
inline Error error_in(const Record& record, RemoteKind kind) {
  WordReader in(record);
  if (in.number(1) != static_cast<std::uint64_t>(kind)) return {Code::system, "another kind", {}};
  return read_error(in);
}

}  // namespace gantry::test
