#pragma once  // channel/queue/work_questions.hpp: what members ask their queue besides items.

#include <unordered_map>
#include <vector>

#include "core/channel/queue/queue_protocol.hpp"
#include "core/channel/queue/waiting_line.hpp"
#include "core/channel/queue/work_ledger.hpp"

namespace gantry {

/// Places of a queue that holds only so many items, who waits for the end of the work, and reports.
/// Used by the dispatcher.
///   I1  Items that wait and places that are granted are at most most_items, but for items that
///       came back.
///   I2  A place is granted until its member puts an item, gives it back or goes.
class WorkQuestions {
 public:
  using Member = WorkLedger::Member;
  WorkQuestions(const WorkLedger& ledger, std::size_t most_items) noexcept
      : ledger_(ledger), most_items_(most_items) {}

  void take(WorkQuestion question, Request request);
  void note_put(Member member);
  void take_place_back(Member member);
  void note_departure(Member member);
  /// `gave_up`: if the place was granted, it is free again.
  void leave_place(Member member, std::uint64_t number, bool gave_up);
  /// Everything that was put before the questions were asked has been taken in.
  void answer_all(const WorkQueueReport& report);
  void refuse_all(const Error& why);
  /// How many of that member's questions wait.
  [[nodiscard]] std::size_t count(Member member) const noexcept {
    return placing_.count(member) + all_done_.count(member) + all_finished_.count(member);
  }
  [[nodiscard]] bool has_some() const noexcept {
    return !placing_.is_empty() || !asked_.empty() || !all_done_.is_empty() ||
           !all_finished_.is_empty();
  }
  /// True if an answer depends on what members have acknowledged.
  [[nodiscard]] bool await_acknowledgements() const noexcept {
    return !all_done_.is_empty() || std::ranges::any_of(asked_, [](const Asked& asked) {
      return asked.question == WorkQuestion::report;
    });
  }

 private:
  struct Asked {
    WorkQuestion question = WorkQuestion::report;
    Request request;
  };
  void grant_places();
  void answer_one(Asked& asked, const WorkQueueReport& report);

  const WorkLedger& ledger_;
  const std::size_t most_items_;  // 0: any number
  std::unordered_map<Member, std::size_t> granted_;
  std::unordered_map<Member, std::uint64_t> left_;  // the last request that was granted nothing
  std::size_t granted_to_all_ = 0;
  std::uint64_t unfinished_ = 0;  // items put, less those that somebody finished
  WaitingLine placing_;
  WaitingLine all_done_;
  WaitingLine all_finished_;
  std::vector<Asked> asked_;
};

/// Answers those who ask with the items that wait, each of which is in its member's hands then. A
/// member that asks for several gets at most its share of them, so that nobody in line goes
/// without.
void hand_out(WorkLedger& ledger, WaitingLine& asking);

}  // namespace gantry
