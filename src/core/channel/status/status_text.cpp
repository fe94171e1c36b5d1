#include "core/channel/status/status_text.hpp"

#include <fmt/format.h>

#include <gantry/runtime.hpp>

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

// ---- the explanations of both ends --------------------------------------------------------------

namespace {

std::string copies_text(const MetricsReport& report) {
  std::string text;
  for (std::size_t i = 0; i < kCopyEngines; ++i)
    if (report.copies[i] != 0)
      text +=
          fmt::format("{}{} by {} ({})", text.empty() ? "" : ", ", report.copies[i],
                      to_string(static_cast<CopyEngine>(i)), bytes_text(report.copied_bytes[i]));
  return text.empty() ? "none" : text;
}

std::string held_text(const std::vector<HeldSlot>& held) {
  if (held.empty()) return "holds nothing";
  Bytes sum = 0;
  for (const HeldSlot& slot : held) sum += slot.bytes;
  return fmt::format("holds {} ({}), the oldest is message {}, {} old",
                     count_text(held.size(), "slot"), bytes_text(sum), held.front().message,
                     time_text(held.front().age));
}

std::string consumer_line(const ConsumerStatus& consumer) {
  return fmt::format("  consumer {} ({}, {}): {} unread, {}, {} dropped; {} taken, idle for {}\n",
                     consumer.pid, to_string(consumer.state), to_string(consumer.policy),
                     consumer.unread, held_text(consumer.held), consumer.dropped,
                     count_text(consumer.metrics.messages, "message"), time_text(consumer.idle));
}

// Indents every line of `block`.
std::string indented(std::string_view block) {
  std::string text;
  while (!block.empty()) {
    const auto end = block.find('\n');
    text += fmt::format("  {}\n", block.substr(0, end));
    block.remove_prefix(end == std::string_view::npos ? block.size() : end + 1);
  }
  return text;
}

std::string hand_off_text(const MetricsReport& report) {
  return fmt::format("hand-off: {} at the median, {} at 99 %, {} at 99.9 %",
                     time_text(std::chrono::nanoseconds(report.handoff_p50_ns)),
                     time_text(std::chrono::nanoseconds(report.handoff_p99_ns)),
                     time_text(std::chrono::nanoseconds(report.handoff_p999_ns)));
}

std::string registrar_line(const ReceivedRegistration& one) {
  const std::string known =
      one.slabs == 0
          ? "none of it"
          : fmt::format("{} of it ({})", count_text(one.slabs, "slab"), bytes_text(one.bytes));
  if (one.refused == 0) return fmt::format("  registrar '{}' knows {}\n", one.registrar, known);
  return fmt::format("  registrar '{}' knows {}; it refused {}: {}\n", one.registrar, known,
                     count_text(one.refused, "slab"), one.why);
}

std::string link_line(const std::string& link) {
  return link.empty() ? "" : fmt::format("  goes between hosts by {}\n", link);
}

std::string memory_line(const ChannelStatus& status) {
  return fmt::format("  memory: {} of {}, {} in blocks, at most {} so far; {}{}\n",
                     bytes_text(status.slab_bytes), bytes_text(status.budget_bytes),
                     bytes_text(status.live_bytes), bytes_text(status.peak_bytes),
                     count_text(status.registrations, "registration"),
                     status.refused_registrations == 0
                         ? ""
                         : fmt::format(", {} refused", status.refused_registrations));
}

}  // namespace

std::string ChannelExplanation::text() const {
  std::string text = fmt::format("channel '{}', producer {}: {} for a payload of {}\n", status.name,
                                 status.producer_pid, to_string(mode), bytes_text(payload));
  text += link_line(link);
  for (const std::string& reason : because) text += fmt::format("  because {}\n", reason);
  if (path.candidates.empty() && path.reasons.empty())
    text += fmt::format("  copied by the {} engine\n",
                        payload <= Message::kInlineBytes ? "inline" : status.engine);
  else
    text += fmt::format("  copied by the {} engine:\n{}", status.engine, indented(path.text()));
  if (status.path.bytes != 0)
    text += fmt::format("  the newest copied payload, {}, went {} by {}\n",
                        bytes_text(status.path.bytes), to_string(status.path.mode),
                        to_string(status.path.engine));
  text += fmt::format("  copies so far: {}\n", copies_text(status.producer));
  text += fmt::format(
      "  {} of {} in use ({}), {} being filled or on loan, {} waiting for a first "
      "consumer, {} kept as history\n",
      status.slots_charged, count_text(status.slots, "credit"), bytes_text(status.bytes_charged),
      status.slots_sending, status.backlog, status.history);
  text += memory_line(status);
  if (status.consumers.empty()) text += "  no consumer has joined\n";
  for (const ConsumerStatus& consumer : status.consumers) text += consumer_line(consumer);
  if (waits.empty()) text += "  a send would wait for nothing\n";
  for (const std::string& wait : waits) text += fmt::format("  a send would wait {}\n", wait);
  for (const std::string& note : status.notes()) text += fmt::format("  note: {}\n", note);
  return text;
}

std::string ConsumerExplanation::text() const {
  std::string text = fmt::format(
      "channel '{}', consumer: the producer, process {}, is {}{}\n", name, producer_pid,
      producer_gone ? "gone" : to_string(producer_state),
      producer_sleeps ? " and waits for what comes back: a credit, or a message that was "
                        "passed on"
                      : "");
  text += link_line(link);
  if (!broken.empty()) text += fmt::format("  broken: {}\n", broken);
  text +=
      fmt::format("  {} unread{}{}{}\n", count_text(unread, "message"),
                  dropped != 0 ? fmt::format(", {} dropped", dropped) : "",
                  landing ? ", and one on its way in" : "", ended ? "; the stream ends there" : "");
  text += fmt::format("  {}{}\n", held_text(held),
                      copies_held == 0 ? ""
                                       : fmt::format("; besides {} copied out",
                                                     count_text(copies_held, "message")));
  if (gathered_bytes != 0)
    text += fmt::format("  {} gathered here from streamed messages\n", bytes_text(gathered_bytes));
  if (metrics.messages == 0)
    text += "  nothing received\n";
  else
    text +=
        fmt::format("  {} received ({}), the last {} ago; {}\n",
                    count_text(metrics.messages, "message"), bytes_text(metrics.bytes),
                    time_text(std::chrono::nanoseconds(metrics.idle_ns)), hand_off_text(metrics));
  text += fmt::format("  copies so far: {}\n", copies_text(metrics));
  text += fmt::format("  the producer's memory mapped here: {}\n", bytes_text(mapped_bytes));
  for (const ReceivedRegistration& one : registrars) text += registrar_line(one);
  text += fmt::format("  when it is slow: {}; waits by polling for {}, then sleeps\n",
                      to_string(policy), time_text(spin));
  return text;
}

}  // namespace gantry
