#pragma once  // channel/queue/known_members.hpp: which connection is which member's.

#include <gantry/call.hpp>
#include <unordered_map>

#include "base/assert.hpp"

namespace gantry {

/// Who has said hello; its connection tells when it goes. Used by one thread.
class KnownMembers {
 public:
  using Member = std::uint64_t;
  static constexpr std::size_t kMostEarly = 1024;

  void meet(const Sender& sender, Member member) {
    const Known known{member, sender.pid, sender.uid, 0};
    if (member == 0 || known_.contains(member) || by_sender_.contains(sender.id)) return;
    by_sender_.emplace(sender.id, known);
    known_.emplace(member, known);
    GANTRY_DEBUG_ASSERT(known_.size() == by_sender_.size());
    if (const auto early = early_.extract(member)) note_request(member, early.mapped());
  }
  /// Who that was; 0: it had not said hello.
  Member part(const Sender& sender) {
    const auto known = by_sender_.extract(sender.id);
    if (!known) return 0;
    known_.erase(known.mapped().member);
    GANTRY_DEBUG_ASSERT(known_.size() == by_sender_.size());
    return known.mapped().member;
  }
  [[nodiscard]] Member member_of(const Sender& sender) const {
    const auto known = by_sender_.find(sender.id);
    return known == by_sender_.end() ? 0 : known->second.member;
  }
  [[nodiscard]] bool has(Member member) const { return known_.contains(member); }
  /// Whether that request of the member's, whose numbers grow, has been taken in; also of one that
  /// is not known.
  [[nodiscard]] bool has_asked(Member member, std::uint64_t number) const {
    const auto known = known_.find(member);
    return known == known_.end() || known->second.last_request >= number;
  }
  void note_request(Member member, std::uint64_t number) {
    const auto known = known_.find(member);
    if (known != known_.end()) {
      known->second.last_request = number;
      return;
    }
    if (early_.size() >= kMostEarly) early_.clear();  // of strangers, mostly
    early_[member] = number;
  }
  /// Whether the process at the other end of another connection is the member's, which is known.
  [[nodiscard]] bool is_of(const Sender& sender, Member member) const {
    const Known& known = known_.at(member);
    return sender.pid == known.pid && sender.uid == known.uid;
  }

 private:
  struct Known {
    Member member = 0;
    int pid = 0;
    unsigned uid = 0;
    std::uint64_t last_request = 0;
  };
  std::unordered_map<std::uint64_t, Known> by_sender_;
  std::unordered_map<Member, Known> known_;
  std::unordered_map<Member, std::uint64_t> early_;  // requests that came before their hello
};

}  // namespace gantry
