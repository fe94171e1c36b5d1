#include "remote/session.hpp"

#include <poll.h>

#include "base/result.hpp"
#include "link/turn.hpp"

namespace gantry {

Result<bool> RemoteSpeech::flush(Link& link) {
  bool has_moved = false;
  while (!waiting_.empty()) {
    auto sent = link.send_control(waiting_.front(), Deadline::now());
    if (!sent && sent.error().code == Code::timed_out) return has_moved;
    GANTRY_TRY(std::move(sent));
    waiting_.pop_front();
    has_moved = true;
  }
  return has_moved;
}

Result<std::optional<ConstByteSpan>> next_record(Link& link, ByteSpan buffer) {
  const auto size = link.receive_control(buffer, Deadline::now());
  if (size) return ConstByteSpan(buffer.first(*size));
  if (size.error().code == Code::timed_out) return std::nullopt;
  return tl::unexpected(size.error());
}

Error read_last_word(WordReader& in) {
  Error error = read_error(in);
  if (error.code == Code::timed_out || error.code == Code::busy || error.code == Code::interrupted)
    error.code = Code::peer_gone;
  return error;
}

unsigned sleep_on(std::initializer_list<int> descriptors, std::chrono::milliseconds most) noexcept {
  std::array<pollfd, 4> entries{};
  std::size_t count = 0;
  for (const int descriptor : descriptors) entries[count++] = {descriptor, POLLIN, 0};
  if (::poll(entries.data(), count, static_cast<int>(most.count())) <= 0) return 0;
  unsigned readable = 0;
  for (std::size_t i = 0; i < count; ++i) readable |= entries[i].revents != 0 ? 1u << i : 0u;
  return readable;
}

bool is_readable(int descriptor) noexcept {
  pollfd entry{descriptor, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

RemoteEnd end_of_link(Error why) {
  const bool is_final = why.code == Code::peer_misbehaved || why.code == Code::closed;
  if (why.code == Code::closed) why.code = Code::peer_gone;  // the channel was not ended by that
  return {is_final ? RemoteEnd::Kind::over : RemoteEnd::Kind::broken, std::move(why)};
}

// Behind a piece of payload it takes a moment where little goes into the socket at a time.
void say_last(Link& link, ConstByteSpan record) noexcept {
  constexpr std::chrono::milliseconds kMost{500};
  constexpr std::chrono::milliseconds kLook{10};
  static_cast<void>(link.send_control(record, Deadline::now()));
  const auto* const words = dynamic_cast<const LinkInTurns*>(&link);
  for (const Deadline deadline = Deadline::after(kMost);
       words != nullptr && words->has_words_left() && !deadline.passed();)
    if (!link.poll()) sleep_on({link.descriptor()}, kLook);
}

RemoteEnd end_session(Link& link, RemoteKind kind, Error why) {
  say_last(link, say_error(kind, why));
  link.close();
  return {RemoteEnd::Kind::over, std::move(why)};
}

}  // namespace gantry
