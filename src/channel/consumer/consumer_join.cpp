// A consumer's coming and going.
#include <algorithm>
#include <new>

#include "channel/consumer/incoming.hpp"
#include "channel/naming/access.hpp"
#include "channel/naming/rendezvous.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};

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

}  // namespace

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::prepare(std::string_view name,
                                                                const ConsumerOptions& options) {
  GANTRY_TRY(check_channel_name(name));
  if (options.when_slow > SlowConsumer::drop_oldest)
    return fail(Code::invalid_argument, fmt::format("channel '{}': policy {} is none", name,
                                                    static_cast<int>(options.when_slow)));
  std::shared_ptr<Impl> impl(new Impl);
  impl->name_ = name;
  impl->options_ = options;
  impl->spin_ = options.spin;
  GANTRY_TRY(check_access(options.access));
  GANTRY_ASSIGN(impl->options_.directory, channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(impl->metrics_, MetricsMaker::make_for_end(options.metrics_descriptor));
  impl->counters_ = MetricsMaker::page(impl->metrics_);
  impl->metrics_.meter()->opened();
  return impl;
}

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make(std::string_view name,
                                                             const ConsumerOptions& options,
                                                             Deadline deadline) {
  GANTRY_ASSIGN(auto impl, prepare(name, options));
  impl->quota_ = std::make_shared<SenderQuota>(ReceiveQuota::make(options.receive, {}, 1));
  // A producer may end between our connecting and its answer; then its successor is looked for.
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    GANTRY_ASSIGN(Fd socket, find_producer(impl->options_.directory, impl->name_,
                                           options.interrupt_descriptor, deadline));
    const Deadline patience =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kHandshakeTime));
    auto joined = impl->join(Connection(std::move(socket)), patience);
    if (joined) return impl;
    Error& error = joined.error();
    if (error.code == Code::peer_gone && attempt < kTries && !deadline.passed()) continue;
    error.message = fmt::format("channel '{}': {}", name, error.message);
    return tl::unexpected(std::move(error));
  }
}

Result<void> Consumer::Impl::join(Connection connection, Deadline deadline) {
  GANTRY_STEP(producer_found);
  const int socket = connection.receive_fd();
  GANTRY_ASSIGN(const PeerIdentity producer, peer_of(socket));
  GANTRY_ASSIGN(Fd life, peer_pidfd(socket, producer.pid));
  if (auto asked = ask_to_join(socket); !asked)
    return tl::unexpected(refusal_or(socket, std::move(asked).error()));
  for (bool joined = false; !joined;) {
    GANTRY_ASSIGN(Received answer, await_answer(socket, options_.interrupt_descriptor, deadline));
    GANTRY_ASSIGN(joined, hear(socket, answer));
  }
  const auto& acceptor = options_.acceptor;
  return settle(std::move(connection), producer,
                acceptor ? acceptor->share(std::move(life)) : SharedFd(std::move(life)));
}

Result<void> Consumer::Impl::ask_to_join(int send_fd) {
  slabs_ = ReceivedSlabs(
      quota_);  // of a producer that died while it let us in; the next numbers its own
  producer_memory_ = Region();
  GANTRY_TRY(admit_peer(send_fd, options_.access));
  GANTRY_TRY(send_hello(send_fd, Purpose::join, wire_token(options_.access)));
  GANTRY_STEP(hello_said);
  return {};
}

// The welcome; then the slabs there are already, see AnnouncedSlabs::introduce(); then "ready".
Result<bool> Consumer::Impl::hear(int send_fd, Received& received) {
  if (producer_memory_.data() == nullptr) {
    GANTRY_TRY(accept_welcome(send_fd, received));
    return false;
  }
  if (!received.closed &&
      (received.packet.kind == PacketKind::slab || received.packet.kind == PacketKind::slabs)) {
    GANTRY_TRY(slabs_.learn(received));
    confirm_heard();
    return false;
  }
  GANTRY_ASSIGN(const Received ready, expect(std::move(received), PacketKind::ready, 0));
  GANTRY_STEP(ready_heard);
  return true;
}

Result<void> Consumer::Impl::accept_welcome(int send_fd, Received& received) {
  GANTRY_ASSIGN(Received welcome, expect(std::move(received), PacketKind::welcome, 3));
  GANTRY_STEP(welcome_heard);
  GANTRY_ASSIGN(producer_memory_,
                Region::import(welcome.fds[0].release(), shared_size(sizeof(ProducerPage))));
  GANTRY_ASSIGN(ring_memory_,
                Region::import(welcome.fds[1].release(), shared_size(sizeof(RingPage))));
  GANTRY_ASSIGN(WakeSender wake_sender, WakeSender::adopt(std::move(welcome.fds[2])));
  producer_wake_ = std::make_shared<const WakeSender>(std::move(wake_sender));
  producer_memory_.close_descriptor();
  ring_memory_.close_descriptor();
  GANTRY_TRY(check_pages());
  GANTRY_TRY(make_own_page());
  WirePacket joining;
  joining.kind = PacketKind::join;
  joining.slots = options_.depth;
  joining.held = static_cast<std::uint32_t>(options_.when_slow);
  GANTRY_ASSIGN(WakeReceiver::Made made, WakeReceiver::make());
  wake_receiver_ = std::move(made.wake_receiver);
  const std::array<int, 3> fds{memory_.descriptor(), made.wake_sender.descriptor(),
                               metrics_.descriptor()};
  GANTRY_TRY(send_wire(send_fd, joining, fds));
  GANTRY_STEP(join_said);
  return {};
}

Result<void> Consumer::Impl::settle(Connection connection, const PeerIdentity& producer,
                                    SharedFd life) {
  producer_pid_ = producer.pid;
  pidfd_ = std::move(life);
  connection_ = std::move(connection);
  memory_.close_descriptor();
  MetricsMaker::close_descriptor(metrics_);
  const std::size_t cells = ring_page().cells;  // read once: the producer can write it any time
  if (!std::has_single_bit(cells) || cells > kCells)
    return fail(Code::peer_misbehaved, fmt::format("a ring of {} cells", cells));
  ring_.emplace(std::span(ring_page().ring).first(cells));
  credits_ = std::clamp<std::uint64_t>(page().slots, 1, cells);
  report_after_ = static_cast<unsigned>(std::max<std::size_t>(cells / 4, 1));
  metrics_.meter()->connected();
  GANTRY_STEP(joined);
  return {};
}

Result<void> Consumer::Impl::check_pages() const {
  if (page().magic != kProducerMagic || page().version != kFormatVersion ||
      ring_page().magic != kRingMagic || ring_page().version != kFormatVersion)
    return fail(Code::peer_misbehaved, "the producer's pages are of another format");
  return {};
}

// The producer is told now, though messages still held keep the memory alive.
void Consumer::Impl::leave() noexcept {
  left_ = true;
  pending_.reset();                    // it keeps us alive
  if (!fork_guard_.is_this()) return;  // the connection is the parent's
  report_taken();
  connection_.hang_up();
  GANTRY_STEP(left);
}

Result<void> Consumer::Impl::make_own_page() {
  GANTRY_ASSIGN(memory_, Region::create(shared_size(sizeof(ConsumerPage)), "gantry-consumer"));
  auto* page = new (memory_.data()) ConsumerPage{};
  page->magic = kConsumerMagic;
  page->version = kFormatVersion;
  return {};
}

}  // namespace gantry
