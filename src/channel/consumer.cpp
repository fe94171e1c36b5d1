#include "channel/consumer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/event.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
constexpr int kQuickTurns = 128;         // some microseconds of looking at the ring alone
constexpr std::size_t kDescriptors = 3;  // that one end sleeps on: event, socket, pidfd

// A producer that is stopped must not keep its consumer from being interrupted.
Result<Received> await_answer(int socket, int interrupt, Deadline deadline) {
  std::array<pollfd, 2> entries{pollfd{socket, POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
  while (::poll(entries.data(), entries.size(), poll_timeout_ms(deadline)) < 0)
    if (errno != EINTR) return fail_errno("poll");
  if (entries[1].revents != 0) return fail(Code::interrupted, "interrupted while joining");
  if (entries[0].revents != 0) return receive_wire(socket, deadline);
  const auto peer = peer_of(socket);
  return fail(Code::timed_out,
              fmt::format("the producer (process {}) does not answer", peer ? peer->pid : 0),
              "it is stopped or has no time: let it go on (kill -CONT), or end it");
}

// Token of a held message: its slot above its sequence.
constexpr unsigned kSequenceBits = 56;
constexpr std::uint64_t token_of(std::uint32_t slot, std::uint64_t sequence) {
  return (std::uint64_t{slot} << kSequenceBits) | sequence;
}

}  // namespace

// ---- joining -------------------------------------------------------------------------------

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make(std::string_view name,
                                                             const ChannelOptions& options,
                                                             Deadline deadline) {
  GANTRY_TRY(check_channel_name(name));
  std::shared_ptr<Impl> impl(new Impl);
  impl->name_ = name;
  impl->options_ = options;
  GANTRY_ASSIGN(impl->options_.directory, channel_directory(options.directory));
  GANTRY_ASSIGN(impl->metrics_, MetricsMaker::make_for_end(options.metrics_descriptor));
  impl->counters_ = MetricsMaker::page(impl->metrics_);
  impl->metrics_.meter()->opened();
  // A producer may end between our connecting and its answer; then its successor is looked for.
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    GANTRY_ASSIGN(Fd socket, find_producer(impl->options_.directory, impl->name_,
                                           options.interrupt_descriptor, deadline));
    const Deadline patience =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kHandshakeTime));
    auto joined = impl->join(std::move(socket), patience);
    if (joined) return impl;
    Error& error = joined.error();
    if (error.code == Code::peer_gone && attempt < kTries && !deadline.passed()) continue;
    error.message = fmt::format("channel '{}': {}", name, error.message);
    return tl::unexpected(std::move(error));
  }
}

Result<void> Consumer::Impl::join(Fd socket, Deadline deadline) {
  WirePacket hello;
  hello.kind = PacketKind::hello;
  hello.purpose = Purpose::join;
  GANTRY_TRY(send_wire(socket.get(), hello));
  GANTRY_ASSIGN(Received answer,
                await_answer(socket.get(), options_.interrupt_descriptor, deadline));
  GANTRY_ASSIGN(Received welcome, expect(std::move(answer), PacketKind::welcome, 3));
  GANTRY_ASSIGN(producer_memory_,
                Region::import(welcome.fds[0].release(), shared_size(sizeof(ProducerPage))));
  producer_event_ = std::move(welcome.fds[1]);
  GANTRY_TRY(check_event(producer_event_.get()));
  if (page().magic != kProducerMagic || page().version != kFormatVersion)
    return fail(Code::peer_misbehaved, "the producer's page is of another format");
  const unsigned slots = page().slots;
  if (slots == 0 || slots > kMaxSlots)
    return fail(Code::peer_misbehaved, fmt::format("the producer has {} slots", slots));
  GANTRY_TRY(make_own_page());
  WirePacket joining;
  joining.kind = PacketKind::join;
  const std::array<int, 3> fds{memory_.descriptor(), event_.get(), metrics_.descriptor()};
  GANTRY_TRY(send_wire(socket.get(), joining, fds));
  GANTRY_TRY(await_ready(socket.get(), deadline));
  GANTRY_ASSIGN(const PeerIdentity peer, peer_of(socket.get()));
  producer_pid_ = peer.pid;
  pidfd_ = peer_pidfd(socket.get(), peer.pid);
  socket_ = std::move(socket);
  reader_.emplace(std::span(page().cells).first(cells_for(slots)));
  report_after_ = std::max(slots / 2, 1u);
  metrics_.meter()->connected();
  return {};
}

// The slabs there are already come first; see AnnouncedSlabs::introduce().
Result<void> Consumer::Impl::await_ready(int socket, Deadline deadline) {
  for (;;) {
    GANTRY_ASSIGN(Received received, await_answer(socket, options_.interrupt_descriptor, deadline));
    if (received.closed || received.packet.kind != PacketKind::slab)
      return expect(std::move(received), PacketKind::ready, 0).map([](const auto&) {});
    GANTRY_TRY(slabs_.learn(received));
  }
}

// The producer is told now, though messages still held keep the memory alive.
void Consumer::Impl::leave() noexcept {
  if (!maker_.is_this()) return;  // the line is the parent's
  report_taken();
  ::shutdown(socket_.get(), SHUT_RDWR);
}

Result<void> Consumer::Impl::make_own_page() {
  GANTRY_ASSIGN(event_, make_event());
  GANTRY_ASSIGN(memory_, Region::create(shared_size(sizeof(ConsumerPage)), "gantry-consumer"));
  auto* page = new (memory_.data()) ConsumerPage{};
  page->magic = kConsumerMagic;
  page->version = kFormatVersion;
  return {};
}

// ---- receiving -----------------------------------------------------------------------------

bool Consumer::Impl::at_end() const noexcept {
  const std::uint64_t end = page().end.load(std::memory_order_seq_cst);  // [E]
  return end != 0 && reader_->taken() + 1 >= end;
}

Result<Message> Consumer::Impl::receive(Deadline deadline) {
  const CpuCharge charge(*metrics_.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  if (reader_->ready()) return take(asked, false);
  report_taken();
  for (int turn = 0; turn < kQuickTurns; ++turn) {
    cpu_relax();
    if (reader_->ready()) return take(asked, true);
  }
  const bool news = poll_for(options_.spin, deadline, [this] { return has_news(); });
  if (news && reader_->ready()) return take(asked, true);
  Impl* const self = this;
  auto any = wait_any(std::span(&self, 1), asked, std::chrono::nanoseconds(0), deadline);
  if (!any) return tl::unexpected(std::move(any).error());
  return std::move(any->message);
}

Result<Consumer::Any> Consumer::Impl::receive_any(std::span<Impl* const> ends, Deadline deadline) {
  if (ends.empty()) return fail(Code::closed, "receiving from no channel at all");
  Impl& first = *ends.front();
  const CpuCharge charge(*first.metrics_.meter(), first.last_bytes_, first.calls_++);
  return wait_any(ends, read_ticks(), first.options_.spin, deadline);
}

// The message of the first end that has one, nothing when all must be waited for. Errors: `closed`
// when all have ended, or what ended one of them otherwise.
Result<std::optional<Consumer::Any>> Consumer::Impl::look_once(std::span<Impl* const> ends,
                                                               std::uint64_t asked) {
  bool all_over = true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Impl& end = *ends[i];
    if (end.finished_) continue;
    if (!end.broken_ && end.reader_->ready()) {
      GANTRY_ASSIGN(auto message, end.take(asked, true));
      return Any{i, std::move(message)};
    }
    if (!end.broken_ && !end.gone_ && !end.at_end()) {
      all_over = false;
      continue;
    }
    Error error = end.ending_error();
    if (error.code != Code::closed) return tl::unexpected(std::move(error));
  }
  if (!all_over) return std::nullopt;
  return fail(Code::closed, fmt::format("channel '{}': the stream has ended", ends[0]->name_));
}

Result<Consumer::Any> Consumer::Impl::wait_any(std::span<Impl* const> ends, std::uint64_t asked,
                                               std::chrono::nanoseconds spin, Deadline deadline) {
  std::vector<SleepIntent*> intents;
  for (Impl* end : ends) {
    end->report_taken();
    intents.push_back(&end->own().consumer_sleeps);
  }
  const auto news = [ends] {
    return std::any_of(ends.begin(), ends.end(),
                       [](const Impl* end) { return !end->is_over() && end->has_news(); });
  };
  const Impl& first = *ends.front();
  for (;; spin = std::chrono::nanoseconds(0)) {
    GANTRY_ASSIGN(auto found, look_once(ends, asked));
    if (found) return std::move(*found);
    WaitPoint point{intents, {}, first.options_.interrupt_descriptor};
    for (const Impl* end : ends)
      for (const int descriptor : {end->event_.get(), end->socket_.get(), end->pidfd_.get()})
        point.descriptors.push_back({end->is_over() ? -1 : descriptor, POLLIN, 0});
    const Woken woken = wait_once(point, spin, deadline, news);
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", first.name_));
    if (woken == Woken::timed_out)
      return fail(Code::timed_out, fmt::format("channel '{}': no message in time", first.name_));
    if (woken == Woken::look)
      for (std::size_t i = 0; i < ends.size(); ++i)
        ends[i]->examine_peer(std::span(point.descriptors).subspan(i * kDescriptors, kDescriptors));
  }
}

// Event, socket, pidfd, as wait_any() lists them.
void Consumer::Impl::examine_peer(std::span<const pollfd> events) {
  if (events[0].revents != 0) drain(event_.get());
  if (events[2].revents != 0) gone_ = true;
  if (events[1].revents == 0) return;
  // News of slabs, or the hang-up. The producer may be dead and its last packets still to be read.
  const auto heard = slabs_.hear(socket_.get(), Deadline::now());
  if (heard || heard.error().code == Code::timed_out) return;
  if (heard.error().code == Code::peer_gone)
    gone_ = true;
  else
    static_cast<void>(ruined(heard.error()));  // the next look tells it
}

// Why nothing more will come. What had been published before the producer went has been taken.
Error Consumer::Impl::ending_error() {
  if (broken_) return *broken_;
  if (at_end()) {
    finished_ = true;
    return {Code::closed, fmt::format("channel '{}': the stream has ended", name_), ""};
  }
  sweep_if_stale(options_.directory, name_);
  return {Code::peer_gone,
          fmt::format("channel '{}': the producer (process {}) is gone before the stream's end",
                      name_, producer_pid_),
          ""};
}

// Whatever is lost between the two ends, the stream cannot go on without: the first reason stays.
Error Consumer::Impl::ruined(const Error& reason) {
  if (broken_) return *broken_;
  broken_ = reason;
  broken_->message = reason.code == Code::peer_misbehaved
                         ? fmt::format("channel '{}': not believing the producer (process {}): {}",
                                       name_, producer_pid_, reason.message)
                         : fmt::format("channel '{}': {}", name_, reason.message);
  return *broken_;
}

Error Consumer::Impl::misbehaved(std::string_view what) {
  return ruined({Code::peer_misbehaved, std::string(what), ""});
}

Result<Message> Consumer::Impl::take(std::uint64_t asked, bool waited) {
  if (broken_) return tl::unexpected(*broken_);
  const std::uint64_t sequence = reader_->taken() + 1;
  MessageHeader header;  // NOLINT: copied first, then checked, then used
  std::memcpy(&header, &reader_->next().header, sizeof header);
  if (is_small(header)) return take_small(header, sequence, asked, waited);
  reader_->take();
  report_taken();
  auto message = view(header, sequence);
  if (message) note_arrival(header, sequence, asked, waited);
  return message;
}

// Built where the caller gets it: a message moved right after it was written costs as much again.
Result<Message> Consumer::Impl::take_small(const MessageHeader& header, std::uint64_t sequence,
                                           std::uint64_t asked, bool waited) {
  auto message = Result<Message>(
      tl::in_place, ConstByteSpan(reader_->next().small).first(header.bytes), sequence);
  reader_->take();
  if (reader_->unreported() >= report_after_) report_taken();
  note_arrival(header, sequence, asked, waited);
  counters_->copy(CopyEngine::inline_, header.bytes, 0);
  return message;
}

// Credits of small messages go back some at a time, or when this end would wait anyway: the store
// and the look at the producer's intent would otherwise stand between a message and its reader.
void Consumer::Impl::report_taken() noexcept {
  if (reader_->unreported() == 0) return;
  reader_->report(own().taken);
  ring_producer();
}

void Consumer::Impl::note_arrival(const MessageHeader& header, std::uint64_t sequence,
                                  std::uint64_t asked, bool waited) noexcept {
  last_bytes_ = header.bytes;
  counters_->message(header.bytes);
  if (!is_timed(header, sequence)) return;
  const std::uint64_t now = read_ticks();
  const std::uint64_t weight = header.slot == kNoSlot ? kTimedEvery : 1;
  counters_->handoff(now - std::min(now, std::max(asked, header.ticks)), weight);
  if (waited) metrics_.meter()->waited((now - asked) * weight);
}

Result<Message> Consumer::Impl::view(const MessageHeader& header, std::uint64_t sequence) {
  if (header.slot >= kMaxSlots)
    return tl::unexpected(misbehaved(fmt::format("slot {} of {}", header.slot, kMaxSlots)));
  const auto found = slabs_.find(header.slab, socket_.get(), Deadline::after(kHandshakeTime));
  if (!found) return tl::unexpected(ruined(found.error()));
  ReceivedSlab* const slab = *found;
  const Bytes size = slab->region.size();
  if (header.offset > size || header.bytes > size - header.offset)
    return tl::unexpected(misbehaved(fmt::format("a message of {} bytes at {} in a slab of {}",
                                                 header.bytes, header.offset, size)));
  if (held_in_[header.slot].load(std::memory_order_acquire) != nullptr)  // [H]
    return tl::unexpected(misbehaved(fmt::format("slot {} while it is held", header.slot)));
  if (auto present = slab->make_present(header.offset, header.bytes); !present)
    return tl::unexpected(ruined(present.error()));
  slab->held.fetch_add(1, std::memory_order_relaxed);  // this thread alone adds and unmaps
  held_in_[header.slot].store(slab, std::memory_order_release);
  return Message(shared_from_this(), token_of(header.slot, sequence),
                 ConstByteSpan(slab->region.data() + header.offset, header.bytes), sequence);
}

void Consumer::Impl::give_back(std::uint64_t token) noexcept {
  if (!maker_.is_this()) return;  // a fork's copy: the parent still reads it
  const auto slot = static_cast<std::size_t>(token >> kSequenceBits);
  const std::uint64_t sequence = token & ((std::uint64_t{1} << kSequenceBits) - 1);
  ReceivedSlab* const slab = held_in_[slot].load(std::memory_order_acquire);
  slab->held.fetch_sub(1, std::memory_order_release);        // [U] all reads of it are over
  held_in_[slot].store(nullptr, std::memory_order_release);  // [H]
  own().released.release(slot, sequence);
  ring_producer();
}

void Consumer::Impl::ring_producer() noexcept {
  if (ringer_.must_ring(page().producer_sleeps)) ring(producer_event_.get());
}

// ---- the handle ----------------------------------------------------------------------------

Consumer::Consumer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Consumer::~Consumer() {
  if (impl_) impl_->leave();
}

Result<Consumer> Consumer::open(std::string_view name, const ChannelOptions& options,
                                Deadline deadline) {
  GANTRY_ASSIGN(auto impl, Impl::make(name, options, deadline));
  return Consumer(std::move(impl));
}

Result<Message> Consumer::receive(Deadline deadline) {
  return impl_->receive(deadline);
}

Result<Consumer::Any> Consumer::receive_any(std::span<Consumer> consumers, Deadline deadline) {
  std::vector<Impl*> ends;
  ends.reserve(consumers.size());
  for (Consumer& consumer : consumers) ends.push_back(consumer.impl_.get());
  return Impl::receive_any(ends, deadline);
}

MetricsReport Consumer::metrics() const {
  return impl_->metrics();
}

}  // namespace gantry
