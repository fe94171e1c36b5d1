// A consumer's coming and going.
#include <algorithm>

#include "channel/consumer/consumer.hpp"
#include "channel/naming/access.hpp"
#include "channel/naming/rendezvous.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
// A producer that has let a consumer in loses it, and perhaps its stream with it, if that leaves in
// the middle of its coming.
constexpr std::chrono::milliseconds kLeastHandshakeTime{200};

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
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': no policy for slow consumers has the number {}", name,
                            static_cast<int>(options.when_slow)));
  GANTRY_TRY(SlabRegistrations::check(options.registrars, fmt::format("channel '{}'", name)));
  std::shared_ptr<Impl> impl(new Impl);
  impl->core_.name = name;
  impl->core_.options = options;
  impl->spin_ = options.spin;
  GANTRY_TRY(check_access(options.access));
  GANTRY_ASSIGN(impl->core_.options.directory,
                channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(impl->core_.metrics, MetricsMaker::make_for_end(options.metrics_descriptor));
  impl->core_.counters = MetricsMaker::page(impl->core_.metrics);
  impl->core_.metrics.meter()->opened();
  impl->core_.trace.join(impl->core_.options.directory, trace::EndKind::consumer, name);
  return impl;
}

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make(std::string_view name,
                                                             const ConsumerOptions& options,
                                                             Deadline deadline) {
  GANTRY_ASSIGN(auto impl, prepare(name, options));
  impl->payloads_.limit(std::make_shared<SenderQuota>(ReceiveQuota::make(options.receive, {}, 1)));
  // A producer may end between our connecting and its answer; then its successor is looked for.
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    GANTRY_ASSIGN(Fd socket, find_producer(impl->core_.options.directory, impl->name(),
                                           options.interrupt_descriptor, deadline, "producer",
                                           options.notices));
    const Deadline patience = Deadline::after(
        std::clamp<std::chrono::nanoseconds>(deadline.left(), kLeastHandshakeTime, kHandshakeTime));
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
  if (auto asked = handshake_.ask(socket); !asked)
    return tl::unexpected(refusal_or(socket, std::move(asked).error()));
  for (bool joined = false; !joined;) {
    GANTRY_ASSIGN(Received answer,
                  await_answer(socket, core_.options.interrupt_descriptor, deadline));
    GANTRY_ASSIGN(joined, handshake_.hear(socket, answer));
  }
  const auto& acceptor = core_.options.acceptor;
  return settle(std::move(connection), producer,
                acceptor ? acceptor->share(std::move(life)) : SharedFd(std::move(life)));
}

Result<void> Consumer::Impl::settle(Connection connection, const PeerIdentity& producer,
                                    SharedFd life) {
  core_.producer_pid = producer.pid;
  core_.producer_life = std::move(life);
  core_.connection = std::move(connection);
  core_.own_memory.close_descriptor();
  MetricsMaker::close_descriptor(core_.metrics);
  GANTRY_TRY(queue_.start(std::shared_ptr<ReceivedPayloads>(shared_from_this(), &payloads_)));
  core_.metrics.meter()->connected();
  GANTRY_STEP(joined);
  return {};
}

// The producer is told now, though messages still held keep the memory alive.
void Consumer::Impl::leave(Code why) noexcept {
  core_.has_left = true;
  queue_.drop_pending();
  if (!core_.fork_guard.is_this()) return;  // the connection is the parent's
  queue_.report_taken();
  tell_why(core_.connection.send_fd(), why);
  core_.connection.hang_up();
  GANTRY_STEP(left);
}

}  // namespace gantry
