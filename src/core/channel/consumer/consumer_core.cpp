#include "core/channel/consumer/consumer_core.hpp"

#include <poll.h>

#include "core/base/os/fork_error.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {

Result<void> ConsumerCore::check_process() const {
  return check_not_forked(fork_guard, "channel", name);
}

Error ConsumerCore::break_stream(const Error& reason) {
  if (broken) return *broken;
  broken = reason;
  broken->message = reason.code == Code::peer_misbehaved
                        ? fmt::format("channel '{}': not believing the producer (process {}): {}",
                                      name, producer_pid, reason.message)
                        : fmt::format("channel '{}': {}", name, reason.message);
  if (reason.code == Code::peer_misbehaved && reason.hint.empty())
    broken->hint = "that process is broken or hostile: end it, and rejoin() its successor";
  if (fork_guard.is_this() && reason.code != Code::closed)
    tell_why(connection.send_fd(), reason.code);
  confirm_end();
  return *broken;
}

Error ConsumerCore::misbehaved(std::string_view what) {
  return break_stream({Code::peer_misbehaved, std::string(what), ""});
}

void ConsumerCore::note_cut_off() {
  static_cast<void>(
      break_stream({Code::peer_gone,
                    fmt::format("the producer (process {}) cut this end off", producer_pid), ""}));
}

void ConsumerCore::confirm_end() noexcept {
  if (fork_guard.is_this()) connection.hang_up();
  GANTRY_STEP(end_confirmed);
}

// A process that dies closes its sockets a moment before it is dead. An inbox does not wait for
// that moment: its other senders would wait each time that one comes and goes.
bool ConsumerCore::producer_lives() const noexcept {
  constexpr int kMomentMs = 20;
  pollfd entry{producer_life.get(), POLLIN, 0};
  return producer_life && ::poll(&entry, 1, is_called ? 0 : kMomentMs) == 0;
}

}  // namespace gantry
