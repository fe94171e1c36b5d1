#include "fault/part.hpp"

#include <poll.h>
#include <sys/wait.h>

#include "core/base/clock.hpp"
#include "core/base/os/socket.hpp"

namespace gantry::fault {

Deadline limit(const Part& part) {
  return Deadline::after(part.may_stop && !part.is_victim ? std::chrono::milliseconds(2)
                                                          : std::chrono::milliseconds(20'000));
}

bool let_go_on(const Part& part) {
  siginfo_t info{};
  if (!part.may_stop || part.victim_pid == 0 ||
      ::waitid(P_PID, static_cast<id_t>(part.victim_pid), &info, WSTOPPED | WNOHANG) != 0 ||
      info.si_pid == 0)
    return false;
  part.board.stops.fetch_add(1);
  ::kill(part.victim_pid, SIGCONT);
  return true;
}

bool is_only_stopped(const Part& part, const Error& error) {
  if (!part.may_stop || part.is_victim || error.code != Code::timed_out) return false;
  let_go_on(part);
  return true;
}

void note_gone(const Part& part, std::uint64_t asked_ns) {
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t struck = part.board.victim.struck_ns.load(std::memory_order_acquire);
  std::uint64_t none = 0;
  if (struck != 0)
    part.board.late_ns.compare_exchange_strong(none, now - std::max(struck, asked_ns));
}

void note_received(const Part& part, std::uint64_t sender, std::uint64_t id) {
  const std::uint64_t bit = bit_of(sender, id);
  if (part.is_victim)
    part.board.victim_received.fetch_or(bit);
  else if (part.who == "successor" && (part.board.victim_received.load() & bit) != 0)
    give_up(fmt::format("{} of {} was in the victim's hand and came again", id, sender));
}

bool await_victim(const Part& part, int other) {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{part.victim, POLLIN, 0}, pollfd{other, POLLIN, 0}};
    const int count = ::poll(entries.data(), entries.size(), poll_timeout_ms(limit(part)));
    if (count > 0) return entries[0].revents != 0;
    let_go_on(part);
    if (end.passed()) give_up("the victim neither ended nor went on");
  }
}

void await_readable(int descriptor) {
  const auto readable = wait_readable(descriptor, Deadline::after(std::chrono::seconds(20)));
  if (!readable || !*readable) give_up("another process did not do its part");
}

void give_up(const std::string& what) {
  throw Trouble(what);
}

void give_up(const std::string& what, const Error& error) {
  throw Trouble(fmt::format("{}: {}: {}", what, to_string(error.code), error.message));
}

}  // namespace gantry::fault
