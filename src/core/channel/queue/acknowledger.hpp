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
class GANTRY_LOCAL WorkItem::Acknowledger {
 public:
  explicit Acknowledger(std::shared_ptr<ClientLink> link) : link_(std::move(link)) {}

  [[nodiscard]] bool is_ours() const noexcept { return fork_guard_.is_this(); }

  /// Errors: `peer_gone`.
  Result<void> tell(ToQueue what, std::uint64_t number) {
    if (!is_ours()) return belongs_to_parent("this item");
    {
      const std::lock_guard lock(list_mutex_);
      if (is_over_)
        return fail(Code::peer_gone, "the item's member, or its queue, has gone",
                    "keep the member until its items are done");
      list_.push_back({what, number});
    }
    tell_all();
    const std::lock_guard lock(list_mutex_);
    if (is_over_) return fail(Code::peer_gone, "the queue has gone");
    return {};
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

  void tell_all() {
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
  bool tell_once() {
    std::vector<Told> list;
    {
      const std::lock_guard lock(list_mutex_);
      list.swap(list_);
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto sent =
          link_->requests().send_uncounted({.deadline = Deadline::after(kPatience),
                                            .type = static_cast<std::uint32_t>(list[i].what),
                                            .user = static_cast<std::uint64_t>(RpcKind::note),
                                            .correlation = list[i].number});
      if (sent) continue;
      const std::lock_guard lock(list_mutex_);
      if (sent.error().code == Code::timed_out || sent.error().code == Code::interrupted)
        list_.insert(list_.begin(), list.begin() + static_cast<std::ptrdiff_t>(i), list.end());
      else
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
