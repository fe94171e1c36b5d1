#include "channel/status/status_text.hpp"

#include <fmt/format.h>

#include <gantry/channel/status.hpp>

// The texts of ChannelStatus and the explanations.
namespace gantry {

std::string bytes_text(Bytes bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string time_text(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string count_text(std::uint64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

namespace {

// "score.1 (4711)"
std::string called(const EndName& who, int pid) {
  const std::string name = who.text();
  return name.empty() ? fmt::format("{}", pid) : fmt::format("{} ({})", name, pid);
}

std::string last_took(const ConsumerStatus& consumer) {
  return consumer.metrics.messages == 0
             ? fmt::format("it joined {} ago and has taken nothing", time_text(consumer.idle))
             : fmt::format("it took its last message {} ago", time_text(consumer.idle));
}

std::string what_it_holds(const ConsumerStatus& consumer) {
  if (consumer.held.empty())
    return consumer.unread == 0 ? "" : fmt::format(", {} unread", consumer.unread);
  return fmt::format(", holds {} ({}), the oldest for {}", count_text(consumer.held.size(), "slot"),
                     bytes_text(consumer.held_bytes()), time_text(consumer.held.front().age));
}

// Empty if all is well.
std::string note_of(const ConsumerStatus& consumer, unsigned slots) {
  std::string note;
  const std::string who = called(consumer.who, consumer.pid);
  switch (consumer.state) {
    case ProcessState::stopped:
      note = fmt::format("consumer {} is stopped (SIGSTOP; kill -CONT {} lets it go on): {}{}", who,
                         consumer.pid, last_took(consumer), what_it_holds(consumer));
      break;
    case ProcessState::zombie:
      note = fmt::format("consumer {} has ended and waits for its parent to notice", who);
      break;
    case ProcessState::gone:
      note = fmt::format("consumer {} is gone, or lives in another PID namespace", who);
      break;
    default:
      if (consumer.is_stuck())
        note = fmt::format("consumer {} is stuck: {}{}", who, last_took(consumer),
                           what_it_holds(consumer));
  }
  if (!note.empty() && consumer.holds_up)
    note += fmt::format("; it holds the producer up: all {} are used", count_text(slots, "credit"));
  return note;
}

std::string note_of(const SenderStatus& sender) {
  const std::string who = called(sender.who, sender.pid);
  if (sender.state == ProcessState::stopped)
    return fmt::format("sender {} is stopped (SIGSTOP; kill -CONT {} lets it go on)", who,
                       sender.pid);
  if (!sender.waits || sender.idle <= ConsumerStatus::kStuckAfter) return "";
  return fmt::format(
      "sender {} waits: the receiver holds {} of its {}, has {} unread, and took its last message "
      "{} ago",
      who, sender.held, count_text(sender.credits, "message"), sender.unread,
      time_text(sender.idle));
}

}  // namespace

Bytes ConsumerStatus::held_bytes() const noexcept {
  Bytes sum = 0;
  for (const HeldSlot& slot : held) sum += slot.bytes;
  return sum;
}

bool ConsumerStatus::is_stuck() const noexcept {
  return state == ProcessState::stopped || (holds_up && idle > kStuckAfter);
}

std::string ChannelStatus::shown_name() const {
  const std::size_t slash = name.find('/');
  if (pipeline.empty() || slash == std::string::npos) return name;
  return pipeline + name.substr(slash);
}

std::uint64_t ChannelStatus::depth() const noexcept {
  std::uint64_t most = backlog;
  for (const ConsumerStatus& consumer : consumers)
    if (!consumer.is_cut && consumer.unread > most) most = consumer.unread;
  return most;
}

std::vector<std::string> ChannelStatus::notes() const {
  std::vector<std::string> notes;
  if (!answered)
    notes.push_back(
        producer_state == ProcessState::stopped
            ? fmt::format("producer {} is stopped (SIGSTOP; kill -CONT {} lets it go on) and does "
                          "not answer",
                          called(producer_who, producer_pid), producer_pid)
            : fmt::format("producer {} ({}) does not answer: {}", producer_pid,
                          to_string(producer_state), silence));
  for (const SenderStatus& sender : senders)
    if (auto note = note_of(sender); !note.empty()) notes.push_back(std::move(note));
  for (const ConsumerStatus& consumer : consumers)
    if (auto note = note_of(consumer, slots); !note.empty()) notes.push_back(std::move(note));
  if (slots != 0 && slots_sending >= slots)
    notes.push_back(fmt::format("producer {} has all {} on loan, or is filling them",
                                called(producer_who, producer_pid), count_text(slots, "credit")));
  for (const DepartedStatus& one : departed)
    notes.push_back(fmt::format(
        "process {} ({}) left and still has {} in hand ({}), the oldest for "
        "{}: that memory waits for it",
        called(one.who, one.pid), to_string(one.state), count_text(one.messages, "message"),
        bytes_text(one.bytes), time_text(one.age)));
  return notes;
}

}  // namespace gantry
