#pragma once  // channel/queue/waiting_line.hpp: members that wait for the same thing.

#include <algorithm>
#include <deque>
#include <gantry/call.hpp>

namespace gantry {

/// Answers without a payload, which takes no slot of the client's.
[[nodiscard]] inline Result<void> answer(Request& request) {
  constexpr std::byte kWord{};
  return request.reply(ConstByteSpan(&kWord, 1));
}

/// Requests of members, first come, first served. Used by one thread.
class WaitingLine {
 public:
  using Member = std::uint64_t;

  void join(Request request) { line_.push_back(std::move(request)); }
  /// Refuses that request of the member's with `not_found`. False: it is not here any more.
  bool leave(Member member, std::uint64_t number) {
    const auto found = std::ranges::find_if(line_, [&](const Request& request) {
      return request.sender().id == member && request.correlation() == number;
    });
    if (found == line_.end()) return false;  // it has its answer
    static_cast<void>(found->refuse({Code::not_found, "the line was left", {}}));
    line_.erase(found);
    return true;
  }
  /// Tells all that what they waited for has come.
  void answer_all() {
    for (Request& request : line_) static_cast<void>(answer(request));
    line_.clear();
  }
  void refuse_all(const Error& why) {
    for (Request& request : line_) static_cast<void>(request.refuse(why));
    line_.clear();
  }
  [[nodiscard]] std::size_t count(Member member) const noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(
        line_, [&](const Request& request) { return request.sender().id == member; }));
  }
  [[nodiscard]] std::deque<Request>& requests() noexcept { return line_; }
  [[nodiscard]] bool is_empty() const noexcept { return line_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return line_.size(); }

 private:
  std::deque<Request> line_;
};

/// One more as long as it lives.
class Counted {
 public:
  explicit Counted(unsigned& count) noexcept : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  unsigned& count_;
};

}  // namespace gantry
