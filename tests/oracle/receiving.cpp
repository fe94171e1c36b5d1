#include "oracle/receiving.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "oracle/sending.hpp"

namespace gantry::oracle {

// ---- coming and going ----------------------------------------------------------------------

bool Receiver::join() {
  // Somebody who ends has its time, which passes only when nobody can run.
  if (part_.scenario.is_timeless && ended_) sleep_us(1000);
  for (;;) {
    const auto joined = part_.timed("joining", kLook, [&](Deadline) { return try_join(); });
    if (joined) break;
    const Code code = joined.error().code;
    const bool again = code == Code::timed_out || code == Code::peer_gone ||
                       code == Code::already_exists || code == Code::busy ||
                       part_.is_starvation(joined.error());
    if (!again) give_up("joining", joined.error());
    if (part_.is_over(part_.role.channel)) return false;
    release_beyond(held_.empty() ? 0 : held_.size() - 1);
    if (part_.scenario.is_timeless) sleep_us(1000);  // a place may be taken for long
  }
  begin_log();
  return true;
}

Result<void> Receiver::try_join() {
  const char* const name = kChannelNames[part_.role.channel];
  const Deadline deadline = Deadline::after(kLook);
  if (part_.role.play == Play::inbox) {
    InboxOptions options;
    options.channel = part_.consumer_options();
    options.on_departure = [this](const Departure& one) {
      if (one.why.code == Code::peer_misbehaved) misbehaved_ = one.why.message;
      if (log_ == nullptr || one.why.code == Code::closed) return;
      const std::string earlier(log_->why.data());
      std::snprintf(log_->why.data(), log_->why.size(), "%s[after %u: %s] ", earlier.c_str(),
                    log_->count.load(), one.why.message.c_str());
    };
    auto inbox = part_.runtime.inbox(name, options);
    if (!inbox) return tl::unexpected(inbox.error());
    inbox_.emplace(std::move(*inbox));
    return {};
  }
  if (consumer_) return consumer_->rejoin(deadline);
  auto consumer = part_.runtime.consumer(name, part_.consumer_options(), deadline);
  if (!consumer) return tl::unexpected(consumer.error());
  consumer_.emplace(std::move(*consumer));
  return {};
}

void Receiver::begin_log() {
  const std::uint32_t index = part_.board.logs_used.fetch_add(1);
  if (index >= kMaxLogs) give_up("more sessions than the board has logs for");
  log_ = &part_.board.logs[index];
  log_->role = static_cast<std::uint8_t>(part_.index);
  ended_ = idle_ = waiting_ = has_copied_ = is_refused_ = false;
}

void Receiver::end(End how) {
  log_->end = how;
  ended_ = true;
  if (how != End::gone || part_.dice.chance(50)) consumer_.reset();
  inbox_.reset();
}

void Receiver::leave() {
  end(waiting_ ? End::left_waiting : End::left);
  consumer_.reset();
}

// ---- taking --------------------------------------------------------------------------------

std::chrono::nanoseconds Receiver::draw_time() {
  if (part_.dice.chance(part_.role.hurried))
    return std::chrono::microseconds(part_.dice.up_to(part_.dice.chance(50) ? 50 : 1000));
  if (part_.scenario.is_timeless && held_.empty() && !inbox_) return kPatience - kLook;
  // Whoever holds the credits that its sender waits for is not to wait for long.
  return held_.empty() ? std::chrono::nanoseconds(kLook) : std::chrono::milliseconds(2);
}

bool Receiver::take() {
  idle_ = false;
  Take take = part_.role.take;
  if (take == Take::any) take = part_.dice.any_of({Take::whole, Take::early, Take::copied});
  // What is half-way in a buffer of receive_into() is to be had by that alone.
  if (is_refused_) take = Take::copied;
  if (inbox_ || take == Take::whole)
    take_whole();
  else if (take == Take::early)
    take_early();
  else if (take == Take::looked)
    take_looked();
  else
    take_copied();
  return !ended_;
}

// Nobody here misbehaves.
Result<Message> Receiver::receive_from_either(Deadline deadline) {
  if (!inbox_) return consumer_->receive(deadline);
  auto delivery = inbox_->receive(deadline);
  if (!misbehaved_.empty()) give_up(misbehaved_);
  if (!delivery) return tl::unexpected(delivery.error());
  return std::move(delivery->message);
}

std::optional<Message> Receiver::receive() {
  idle_ = false;
  auto message = part_.timed("receive()", draw_time(),
                             [&](Deadline deadline) { return receive_from_either(deadline); });
  if (!message) {
    fail_call("receive()", message.error());
    return std::nullopt;
  }
  const Id id = note(message->info(), true);
  const Bytes size = check_message(*message, id, "receive()");
  if (size != part_.scenario.size_of(id))
    give_up(fmt::format("receive() says that {} has {} bytes, not {}", to_string(id), size,
                        part_.scenario.size_of(id)));
  return std::move(*message);
}

// As many as are there.
void Receiver::take_batch() {
  std::array<Message, 4> batch;
  log_->batch = batch.size();  // killed in here, it takes as many with it
  const auto got = part_.timed("receive_batch()", draw_time(), [&](Deadline deadline) {
    return consumer_->receive_batch(batch, deadline);
  });
  if (!got) {
    log_->batch = 0;
    return fail_call("receive_batch()", got.error());
  }
  if (*got == 0 || *got > batch.size()) give_up(fmt::format("receive_batch() says {}", *got));
  for (Message& message : std::span(batch).first(*got)) {
    const Id id = note(message.info(), true);
    if (check_message(message, id, "receive_batch()") != part_.scenario.size_of(id))
      give_up(fmt::format("receive_batch(): {} has another size", to_string(id)));
    hold(std::move(message), id);
  }
  log_->batch = 0;
}

void Receiver::take_whole() {
  const auto taken = log_->count.load(std::memory_order_relaxed);
  if (consumer_ && Dice(part_.scenario.seed, 79, taken).chance(20)) return take_batch();
  if (auto message = receive()) {
    const Id id = Id::unpack(message->info().type);
    hold(std::move(*message), id);
  }
}

void Receiver::take_copied() {
  buffer_.resize(part_.scenario.largest);
  const auto copied = part_.timed("receive_into()", draw_time(), [&](Deadline deadline) {
    return consumer_->receive_into(buffer_, deadline);
  });
  has_copied_ = true;
  if (!copied) return fail_call("receive_into()", copied.error());
  const Id id = note(copied->info, true);
  if (copied->bytes != part_.scenario.size_of(id))
    give_up(fmt::format("receive_into() says that {} has {} bytes, not {}", to_string(id),
                        copied->bytes, part_.scenario.size_of(id)));
  check_bytes(ConstByteSpan(buffer_).first(copied->bytes), id, 0, "receive_into()");
}

// Where it lies: its sender goes on meanwhile.
void Receiver::take_looked() {
  const auto looked = part_.timed("look()", draw_time(), [&](Deadline deadline) {
    return consumer_->look(
        [&](const Message& message) {
          const Id id = note(message.info(), true);
          if (check_message(message, id, "look()") != part_.scenario.size_of(id))
            give_up(fmt::format("look(): {} has another size", to_string(id)));
          if (part_.dice.chance(50)) sleep_us(part_.dice.up_to(200));
          check_message(message, id, "look(), before its end");
        },
        deadline);
  });
  if (!looked) fail_call("look()", looked.error());
}

void Receiver::take_early() {
  auto incoming = part_.timed("receive_early()", draw_time(), [&](Deadline deadline) {
    return consumer_->receive_early(deadline);
  });
  if (!incoming) return fail_call("receive_early()", incoming.error());
  const Id id = note(incoming->info(), false);
  if (incoming->size() != part_.scenario.size_of(id))
    give_up(fmt::format("receive_early() says that {} has {} bytes, not {}", to_string(id),
                        incoming->size(), part_.scenario.size_of(id)));
  work_through(*incoming, id);
}

// Chunk by chunk, and what is left in some other way; or not at all.
void Receiver::work_through(Incoming& incoming, Id id) {
  Bytes at = 0;
  const std::uint64_t chunks = part_.dice.chance(50) ? part_.dice.up_to(3) : ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < chunks; ++i)
    if (!read_on(incoming, id, at)) return;
  if (part_.dice.chance(10)) return;
  const bool can_be_whole = at == 0 || !incoming.is_streamed();
  const Deadline end = Deadline::after(kPatience);
  buffer_.resize(part_.scenario.largest);
  for (;;) {
    if (can_be_whole && chunks % 2 == 0) {
      auto message = part_.timed("Incoming::whole()", kLook,
                                 [&](Deadline deadline) { return incoming.whole(deadline); });
      if (message) {
        note_whole();
        check_message(*message, id, "Incoming::whole()");
        return hold(std::move(*message), id);
      }
      if (message.error().code != Code::timed_out || end.passed())
        return fail_call("Incoming::whole()", message.error());
      continue;
    }
    const auto bytes = part_.timed("Incoming::into()", kLook, [&](Deadline deadline) {
      return incoming.into(buffer_, deadline);
    });
    if (bytes) {
      check_bytes(ConstByteSpan(buffer_).first(*bytes), id, at, "Incoming::into()");
      if (at + *bytes != incoming.size()) give_up("Incoming::into() ends too early");
      return note_whole();
    }
    if (bytes.error().code != Code::timed_out || end.passed())
      return fail_call("Incoming::into()", bytes.error());
  }
}

// The next chunk. False: the message is over.
bool Receiver::read_on(Incoming& incoming, Id id, Bytes& at) {
  if (!incoming.is_streamed() && part_.dice.chance(20)) {
    const Bytes some = part_.dice.up_to(incoming.size());
    const auto first = part_.timed("Incoming::wait_for()", draw_time(), [&](Deadline deadline) {
      return incoming.wait_for(some, deadline);
    });
    if (first) {
      if (first->size() < some) give_up("Incoming::wait_for() returns less than it was asked for");
      check_bytes(*first, id, 0, "Incoming::wait_for()");
    }  // of several segments it is refused
  }
  const Deadline end = Deadline::after(kPatience);
  for (;;) {
    const auto chunk = part_.timed("Incoming::next()", draw_time(),
                                   [&](Deadline deadline) { return incoming.next(deadline); });
    if (!chunk && chunk.error().code == Code::timed_out && !end.passed()) continue;
    if (!chunk) {
      fail_call("Incoming::next()", chunk.error());
      return false;
    }
    check_bytes(*chunk, id, at, "Incoming::next()");
    at += chunk->size();
    if (!chunk->empty()) return true;
    if (at != incoming.size()) give_up("Incoming::next() ends too early");
    note_whole();
    return false;
  }
}

// ---- holding -------------------------------------------------------------------------------

void Receiver::hold(Message message, Id id) {
  held_.push_back({std::move(message), id});
  release_beyond(part_.dice.up_to(part_.role.holds));
}

void Receiver::release_beyond(std::size_t most) {
  while (held_.size() > most) {
    const std::size_t index = part_.dice.up_to(held_.size() - 1);
    check_message(held_[index].message, held_[index].id, "held, before its release");
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

Id Receiver::note(const MessageInfo& info, bool whole) {
  waiting_ = has_copied_ = is_refused_ = false;
  const Id id = Id::unpack(info.type);
  if (info.user != user_word(id))
    give_up(fmt::format("{} comes with the word {:#x}", to_string(id), info.user));
  const std::uint32_t count = log_->count.load(std::memory_order_relaxed);
  if (count == Log::kMost) give_up("more messages than the log has room for");
  log_->entries[count].store(id.pack() | (whole ? Log::kWhole : 0), std::memory_order_relaxed);
  log_->count.store(count + 1, std::memory_order_release);
  if (part_.board.fate(id).load(std::memory_order_acquire) == Fate::none)
    give_up(fmt::format("{} was never sent", to_string(id)));
  return id;
}

void Receiver::note_whole() {
  log_->entries[log_->count.load(std::memory_order_relaxed) - 1].fetch_or(
      Log::kWhole, std::memory_order_relaxed);
}

// An end is an end, and nothing to do is nothing to do; who holds messages lets one go then.
void Receiver::fail_call(const char* what, const Error& error) {
  if (error.code == Code::aborted) return;
  if (error.code == Code::timed_out) {
    idle_ = waiting_ = true;
    if (!held_.empty()) release_beyond(held_.size() - 1);
    return;
  }
  // After receive_into() timed out inside a streamed message.
  if (error.code == Code::invalid_argument && waiting_ && has_copied_ && !is_refused_) {
    is_refused_ = true;
    return;
  }
  std::snprintf(log_->why.data(), log_->why.size(), "%s", error.message.c_str());
  if (error.code == Code::closed) return end(End::closed);
  if (error.code == Code::peer_gone || part_.is_starvation(error)) return end(End::gone);
  give_up(what, error);
}

}  // namespace gantry::oracle
