#pragma once  // fault/part.hpp: what every role does: wait for the victim, judge results.

#include "core/base/result.hpp"
#include "fault/trouble.hpp"

namespace gantry::fault {

/// A call that takes longer has hung. Where a process is stopped, calls look up in between.
[[nodiscard]] Deadline limit(const Part& part);

/// Finds a stopped victim and lets it go on. False: it was not stopped.
bool let_go_on(const Part& part);

/// True: `error` only says that nothing happened yet because the victim is stopped; ask again.
[[nodiscard]] bool is_only_stopped(const Part& part, const Error& error);

/// Calls `call` until it says something else than that the victim is stopped.
template <class Call>
auto patiently(const Part& part, Call call) -> decltype(call(Deadline::now())) {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  for (;;) {
    auto result = call(limit(part));
    if (result || !is_only_stopped(part, result.error()) || end.passed()) return result;
  }
}

/// The peer is gone: notes how long after it was struck, `asked_ns` being when the call began.
void note_gone(const Part& part, std::uint64_t asked_ns);

/// Among many senders: what was put into the victim's hand does not come to its successor again.
void note_received(const Part& part, std::uint64_t sender, std::uint64_t id);

/// Until the victim has ended, or `other` is readable. True: it has ended.
bool await_victim(const Part& part, int other = -1);

void await_readable(int descriptor);

[[noreturn]] void give_up(const std::string& what);
[[noreturn]] void give_up(const std::string& what, const Error& error);

}  // namespace gantry::fault
