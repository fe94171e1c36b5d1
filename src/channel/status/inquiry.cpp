#include "channel/status/inquiry.hpp"

#include <poll.h>

#include <algorithm>

namespace gantry {

Inquiry::Inquiry(ChannelStatus status, Fd socket)
    : status_(std::move(status)), connection_(std::move(socket)) {
  if (const auto producer = peer_of(connection_.receive_fd())) {
    status_.producer_pid = producer->pid;
    status_.producer_uid = producer->uid;
  }
  if (const auto sent = send_hello(connection_.receive_fd(), Purpose::inspect); !sent)
    end(sent.error().message);
}

void Inquiry::end(std::string silence) {
  status_.silence = std::move(silence);
  over_ = true;
}

void Inquiry::take_in() {
  const auto complete = receiver_.take_in(connection_.receive_fd());
  if (!complete && complete.error().code == Code::timed_out) return;
  if (!complete) return end(complete.error().message);
  if (!*complete) return;
  ChannelStatus answer = status_;  // half an answer is none
  const auto decoded = decode_status(receiver_.bytes(), answer);
  if (!decoded) return end(decoded.error().message);
  if (answer.is_inbox) name_the_receiver(answer);
  status_ = std::move(answer);
  status_.answered = true;
  over_ = true;
}

void Inquiry::give_up() {
  if (!over_) end("it gave no answer in time");
}

// The kernel is asked about processes last, about those that the answer names.
ChannelStatus Inquiry::finish() && {
  if (!status_.is_inbox) status_.producer_state = process_state(status_.producer_pid);
  for (SenderStatus& sender : status_.senders) sender.state = process_state(sender.pid);
  for (ConsumerStatus& consumer : status_.consumers) consumer.state = process_state(consumer.pid);
  for (DepartedStatus& one : status_.departed) one.state = process_state(one.pid);
  return std::move(status_);
}

void inquire(std::span<Inquiry> inquiries, Deadline deadline) {
  std::vector<pollfd> events(inquiries.size());
  for (;;) {
    for (std::size_t i = 0; i < inquiries.size(); ++i)
      events[i] = {inquiries[i].socket(), POLLIN, 0};
    const bool all_over = std::ranges::all_of(events, [](const pollfd& e) { return e.fd < 0; });
    // The clock also ends it for producers that keep talking.
    if (all_over || deadline.passed()) break;
    if (::poll(events.data(), events.size(), poll_timeout_ms(deadline)) < 0) continue;  // a signal
    for (std::size_t i = 0; i < inquiries.size(); ++i)
      if (events[i].revents != 0) inquiries[i].take_in();
  }
  for (Inquiry& inquiry : inquiries) inquiry.give_up();
}

}  // namespace gantry
