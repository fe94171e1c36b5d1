#pragma once  // channel/queue/acknowledger.hpp: how a member and its items tell the queue.

#include <gantry/call.hpp>
#include <mutex>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/result.hpp"
#include "core/channel/queue/queue_protocol.hpp"
#include "core/channel/rpc/client.hpp"

namespace gantry {

/// The member's connection to the queue. Items send notes by it, from any thread: a note that
/// cannot be sent at once is sent by the thread that uses the connection.
///   I1  A note stays in the list until it was sent, so none is lost for want of heap.
///   I2  While the member has asked for items, the list has room for giving the answer up.
class GANTRY_LOCAL WorkItem::Acknowledger {
 public:
  explicit Acknowledger(std::shared_ptr<ClientLink> link) : link_(std::move(link)) {}

  [[nodiscard]] bool is_ours() const noexcept { return fork_guard_.is_this(); }

  /// Errors: `peer_gone`. Where there is no heap, nothing is told.
  Result<void> tell(ToQueue what, std::uint64_t number) {
    if (!is_ours()) return belongs_to_parent("this item");
    {
      const std::lock_guard lock(list_mutex_);
      if (is_over_)
        return fail(Code::peer_gone, "the item's member, or its queue, has gone",
                    "keep the member until its items are done");
      make_room(what == ToQueue::gave_up ? 1 : 2);  // I2
      list_.push_back({what, number});
    }
    tell_all();
    const std::lock_guard lock(list_mutex_);
    if (is_over_) return fail(Code::peer_gone, "the queue has gone");
    return {};
  }

  /// Called before the member asks. I2
  void reserve() {
    const std::lock_guard lock(list_mutex_);
    make_room(1);
  }

  /// Sends something else, with the connection to itself. Called by the member.
  template <class Send>
  auto use(Send send) {
    auto sent = [&] {
      const std::lock_guard lock(sending_mutex_);
      GANTRY_ASSERT(link_ != nullptr);
      return send(*link_);
    }();
    tell_all();
    return sent;
  }

  /// The member goes: so does its connection, and the queue takes back what is left.
  void leave() noexcept {
    tell_all();
    {
      const std::lock_guard lock(list_mutex_);
      is_over_ = true;
    }
    const std::lock_guard lock(sending_mutex_);
    link_->hang_up();
    link_.reset();
  }

 private:
  struct Told {
    ToQueue what;
    std::uint64_t number;
  };

  void make_room(std::size_t notes) {
    if (list_.capacity() - list_.size() < notes) list_.reserve(2 * list_.size() + 4);
  }
  void tell_all() noexcept {
    while (has_something()) {
      const std::unique_lock lock(sending_mutex_, std::try_to_lock);
      if (!lock || link_ == nullptr || !tell_once()) return;
    }
  }
  bool has_something() {
    const std::lock_guard lock(list_mutex_);
    return !list_.empty() && !is_over_;
  }
  // False: there is no room, or nobody.
  bool tell_once() noexcept {
    std::unique_lock list_lock(list_mutex_);
    while (!list_.empty()) {
      const Told next = list_.front();
      list_lock.unlock();
      const auto sent = guarded([&] {
        return link_->requests().send_uncounted({.deadline = Deadline::after(kPatience),
                                                 .type = static_cast<std::uint32_t>(next.what),
                                                 .user = static_cast<std::uint64_t>(RpcKind::note),
                                                 .correlation = next.number},
                                                urgency_of(next.what));
      });
      list_lock.lock();
      if (sent) {
        list_.erase(list_.begin());
        continue;
      }
      const Code why = sent.error().code;
      if (why != Code::timed_out && why != Code::interrupted && why != Code::out_of_memory)
        is_over_ = true;
      return false;
    }
    return true;
  }

  // For room in a ring that is emptied all the time.
  static constexpr std::chrono::seconds kPatience{1};

  const ForkGuard fork_guard_;
  std::mutex list_mutex_;
  std::vector<Told> list_;
  bool is_over_ = false;
  std::mutex sending_mutex_;
  std::shared_ptr<ClientLink> link_;  // null: the member has gone
};

}  // namespace gantry
