#pragma once  // schedule/run/test_cables.hpp: ranks with somebody between them, who holds up what
              // they say.

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry::test {

/// One direction of a connection. Hands on what it gets, and descriptors with it; a thread of its
/// own.
class Wire {
 public:
  Wire(int from, int to) : from_(from), to_(to), thread_([this] { carry(); }) {}
  ~Wire() {
    is_over_ = true;
    thread_.join();
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Nothing passes while it is so.
  void hold(bool holds) {
    if (holds) has_held_ = false;
    holds_ = holds;
  }
  /// Returns once it has held something back since the last hold(true), or is over.
  void await_held() const {
    while (!has_held_ && !is_over_) std::this_thread::yield();
  }
  /// Returns once it has brought `count` pieces more.
  void await_pieces(std::uint64_t count) const {
    for (const std::uint64_t end = pieces_ + count; pieces_ < end && !is_over_;)
      std::this_thread::yield();
  }
  /// Returns once it has brought all that was said to it, or its reader takes no more.
  void await_rest() const {
    for (const std::uint64_t end = rests_ + 2; rests_ < end && !is_over_;)
      std::this_thread::yield();
  }
  /// Each piece of at most 64 KiB takes so long, or up to so long if it is at random.
  void delay(std::chrono::microseconds each, bool is_random = false) {
    is_random_ = is_random;
    each_us_ = each.count();
  }

 private:
  using Control = std::array<char, 1024>;
  void carry() {
    Random random(static_cast<std::uint64_t>(from_));
    std::vector<char> bytes(64 << 10);
    bool is_read = true;
    while (!is_over_) {
      pollfd entry{from_, POLLIN, 0};
      if (::poll(&entry, 1, 5) != 1) {
        ++rests_;
        continue;
      }
      alignas(cmsghdr) Control control{};
      iovec part{bytes.data(), bytes.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t got = ::recvmsg(from_, &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) break;
      wait(random);
      std::string_view left(bytes.data(), static_cast<std::size_t>(got));
      msghdr plain = message;
      plain.msg_control = nullptr;
      plain.msg_controllen = 0;
      const std::size_t first = message.msg_controllen > 0 ? before_descriptors(left) : left.size();
      const bool is_sent =
          is_read && send(plain, left.substr(0, first)) && send(message, left.substr(first));
      close_descriptors(message);
      // Who reads no more may have said something that is still on its way by the other wire: on a
      // network nobody hears that it is gone before that.
      is_read = is_read && is_sent;
      ++pieces_;
    }
    is_over_ = true;
    ::shutdown(to_, SHUT_WR);
    ::shutdown(from_, SHUT_RD);
  }
  // Descriptors come with the first byte of a frame, the last one that was received: the record
  // that shares a region.
  static std::size_t before_descriptors(std::string_view bytes) {
    constexpr std::string_view kShare("GLK1\x0a\0", 6);
    const auto found = bytes.rfind(kShare);
    return found == bytes.npos ? 0 : found;
  }
  void wait(Random& random) {
    const std::int64_t most = each_us_;
    const std::int64_t us = is_random_ ? pick(random, 0, most) : most;
    if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
    for (; holds_ && !is_over_; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      has_held_ = true;
  }
  bool send(msghdr& message, std::string_view left) {
    while (!left.empty() && !is_over_) {
      *message.msg_iov = {const_cast<char*>(left.data()), left.size()};
      const ssize_t sent = ::sendmsg(to_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent < 0) {
        pollfd entry{to_, POLLOUT, 0};
        rests_ += ::poll(&entry, 1, 5) == 0;
        continue;
      }
      left.remove_prefix(static_cast<std::size_t>(sent));
      close_descriptors(message);
    }
    return true;
  }
  // Once: then the message has none.
  static void close_descriptors(msghdr& message) {
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(one) + i * sizeof(int), sizeof descriptor);
        ::close(descriptor);
      }
    }
    message.msg_control = nullptr;
    message.msg_controllen = 0;
  }

  const int from_;
  const int to_;
  std::atomic<bool> holds_{false};
  std::atomic<bool> has_held_{false};
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<std::uint64_t> rests_{0};  // 5 ms in which it could bring nothing
  std::atomic<bool> is_random_{false};
  std::atomic<std::int64_t> each_us_{0};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

/// Ranks in threads, each pair of which has a cable.
class CabledRanks {
 public:
  explicit CabledRanks(unsigned ranks) : mesh_(ranks), wires_(ranks) {
    auto inner = socket_mesh(ranks);
    mesh_ = socket_mesh(ranks);
    // What `mesh_` has of the pair goes to the ranks, what is left of both pairs to the wires.
    for (auto& row : wires_) row.resize(ranks);
    for (unsigned one = 0; one < ranks; ++one)
      for (unsigned other = one + 1; other < ranks; ++other) {
        inner_.push_back(std::exchange(mesh_[other][one], std::move(inner[other][one])));
        inner_.push_back(std::move(inner[one][other]));
        const int at_one = inner_[inner_.size() - 2].get();
        const int at_other = inner_.back().get();
        wires_[one][other] = std::make_unique<Wire>(at_one, at_other);
        wires_[other][one] = std::make_unique<Wire>(at_other, at_one);
      }
  }

  [[nodiscard]] unsigned ranks() const { return static_cast<unsigned>(mesh_.size()); }
  /// What rank `from` says to rank `to`.
  [[nodiscard]] Wire& wire(unsigned from, unsigned to) { return *wires_[from][to]; }
  template <class Visit>
  void each_wire(Visit visit) {
    for (auto& row : wires_)
      for (auto& wire : row)
        if (wire) visit(*wire);
  }
  void hold_between(unsigned one, unsigned other, bool holds) {
    wire(one, other).hold(holds);
    wire(other, one).hold(holds);
  }
  /// For good, and both ends see it.
  void cut(unsigned one, unsigned other) {
    std::size_t at = 0;
    for (unsigned first = 0; first < ranks(); ++first)
      for (unsigned second = first + 1; second < ranks(); ++second, at += 2)
        if (first == std::min(one, other) && second == std::max(one, other))
          for (const std::size_t end : {at, at + 1}) ::shutdown(inner_[end].get(), SHUT_RDWR);
  }

  /// Once.
  void run(Via via, const std::function<void(Group&)>& body,
           std::chrono::milliseconds stall_limit = std::chrono::seconds(60)) {
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < ranks(); ++rank)
      threads.emplace_back([&, rank] {
        auto group = group_over(std::move(mesh_[rank]), rank, via, stall_limit);
        ASSERT_TRUE(group) << to_string(group.error());
        body(*group);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::vector<Fd>> mesh_;
  std::vector<Fd> inner_;                                  // two for each pair
  std::vector<std::vector<std::unique_ptr<Wire>>> wires_;  // by who speaks and who hears
};

}  // namespace gantry::test
