#pragma once  // channel/queue/waiting_line.hpp: members that wait for the same thing.

#include <deque>
#include <gantry/channel/request.hpp>

namespace gantry {

/// Requests of members, first come, first served. Used by one thread.
class WaitingLine {
 public:
  using Member = std::uint64_t;
  struct Waiting {
    Member member = 0;
    std::uint64_t number = 0;  // of the member's requests
    Request request;
  };

  void join(Member member, std::uint64_t number, Request request) {
    line_.push_back({member, number, std::move(request)});
  }
  /// Refuses that request of the member's with `not_found`. False: it is not here any more.
  bool leave(Member member, std::uint64_t number);
  /// Tells all that what they waited for has come.
  void answer_all();
  void refuse_all(const Error& why);
  [[nodiscard]] std::deque<Waiting>& members() noexcept { return line_; }
  [[nodiscard]] bool is_empty() const noexcept { return line_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return line_.size(); }

 private:
  std::deque<Waiting> line_;
};

/// Answers without a payload, which takes no slot of the client's.
[[nodiscard]] Result<void> answer(Request& request);

}  // namespace gantry
