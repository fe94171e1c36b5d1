#include "channel/queue/waiting_line.hpp"

#include <algorithm>

namespace gantry {

Result<void> answer(Request& request) {
  constexpr std::byte kWord{};
  return request.reply(ConstByteSpan(&kWord, 1));
}

bool WaitingLine::leave(Member member, std::uint64_t number) {
  const auto found = std::ranges::find_if(line_, [&](const Waiting& waiting) {
    return waiting.member == member && waiting.number == number;
  });
  if (found == line_.end()) return false;  // it has its answer
  static_cast<void>(found->request.refuse({Code::not_found, "the line was left", {}}));
  line_.erase(found);
  return true;
}

void WaitingLine::answer_all() {
  for (Waiting& waiting : line_) static_cast<void>(answer(waiting.request));
  line_.clear();
}

void WaitingLine::refuse_all(const Error& why) {
  for (Waiting& waiting : line_) static_cast<void>(waiting.request.refuse(why));
  line_.clear();
}

}  // namespace gantry
