#include "channel/queue/waiting_line.hpp"

#include <algorithm>

namespace gantry {

Result<void> answer(Request& request) {
  constexpr std::byte kWord{};
  return request.reply(ConstByteSpan(&kWord, 1));
}

void WaitingLine::leave(Member member) {
  const auto found = std::ranges::find(line_, member, &Waiting::member);
  if (found == line_.end()) return;  // it has its answer
  static_cast<void>(found->request.refuse({Code::not_found, "the line was left", {}}));
  line_.erase(found);
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
