// A stage's ends over ZeroMQ: PUSH and PULL over ipc, one pair of sockets a link. libzmq's own
// threads move the bytes through a Unix socket; their CPU time is charged to this end.
#include "stage/stage_link.hpp"
#include "stage/zmq/zmq_link.hpp"

#if __has_include(<zmq.h>)
#include <algorithm>
#include <cstring>

#include "base/system_memory.hpp"

namespace gantry {
namespace {

using std::chrono::milliseconds;

struct LinkState {
  ZmqLink link;
  Metrics metrics;
  bool connected = false;
  bool ended = false;  // receiving: the end has come; sending: it has been sent
  // the peer left; until then its last messages may be on their way
  std::optional<Deadline> left{};

  [[nodiscard]] Meter& meter() const { return *metrics.meter(); }
  void note_connected() {
    if (!std::exchange(connected, true)) meter().connected();
  }
};

/// The common part of both ends: links, waiting, and charging CPU time.
class ZmqEnd {
 public:
  ZmqEnd(std::string channel, std::shared_ptr<ZmqContext> context, std::vector<LinkState> links,
         int interrupt)
      : channel_(std::move(channel)),
        context_(std::move(context)),
        links_(std::move(links)),
        interrupt_(interrupt) {
    context_->threads().started();
    for (auto& state : links_) pointers_.push_back(&state.link);
  }
  ~ZmqEnd() { charge_helpers(); }
  ZmqEnd(const ZmqEnd&) = delete;
  ZmqEnd& operator=(const ZmqEnd&) = delete;

  Result<void> wait(ZmqLink::For what, Deadline deadline) {
    const std::uint64_t start = Meter::ticks();
    auto ready = ZmqLink::wait(pointers_, what, interrupt_, deadline);
    meter().waited(Meter::ticks() - start);
    for (auto& state : links_)
      if (state.link.peer() == ZmqLink::Peer::here) state.note_connected();
    if (!ready) ready.error().message = channel_ + ": " + ready.error().message;
    return ready;
  }

  /// Called once a message; asking for the threads' time costs more than a small message.
  void charge_helpers_of(Bytes bytes, std::uint64_t calls) {
    if (bytes >= CpuCharge::kAlwaysBytes || calls % CpuCharge::kEvery == 0) charge_helpers();
  }
  void charge_helpers() { meter().cpu(context_->threads().take_cpu_ns()); }

  [[nodiscard]] std::span<LinkState> links() noexcept { return links_; }
  /// The name for errors.
  [[nodiscard]] const std::string& channel() const noexcept { return channel_; }
  // The launcher adds up the links of an end, so any of them can carry what is common to all.
  [[nodiscard]] Meter& meter() const { return links_.front().meter(); }

 private:
  std::string channel_;
  std::shared_ptr<ZmqContext> context_;
  std::vector<LinkState> links_;
  std::vector<ZmqLink*> pointers_;
  int interrupt_;
};

// ---- receiving -----------------------------------------------------------------------------

class ZmqInput final : public StageInput::Impl {
 public:
  explicit ZmqInput(std::unique_ptr<ZmqEnd> end) : end_(std::move(end)) {}

  Result<Message> receive(Deadline deadline) override {
    const CpuCharge charge(end_->meter(), last_bytes_, calls_++);
    const std::uint64_t asked = Meter::ticks();
    for (;;) {
      GANTRY_ASSIGN(auto message, take_one(asked));
      if (message) return std::move(*message);
      if (std::ranges::all_of(end_->links(), &LinkState::ended))
        return fail(Code::closed, end_->channel() + ": every sending stage has ended");
      GANTRY_TRY(wait(deadline));
    }
  }

 private:
  // libzmq reports a peer's leaving a moment before its last messages.
  static constexpr milliseconds kLastWords{100};

  Result<std::optional<Message>> take_one(std::uint64_t asked) {
    for (std::size_t i = 0; i < end_->links().size(); ++i) {
      LinkState& state = end_->links()[(turn_ + i) % end_->links().size()];
      if (state.ended) continue;
      auto got = state.link.receive(*inbox_);
      if (!got) {
        got.error().message = end_->channel() + ": " + got.error().message;
        return tl::unexpected(std::move(got).error());
      }
      if (!*got) continue;
      state.note_connected();
      if ((*got)->part == nullptr) {
        end_link(state);
        continue;
      }
      turn_ += i + 1;
      return finish(state, **got, asked);
    }
    return std::nullopt;
  }

  // Closing tells the sender, which waits for it, that everything has arrived.
  static void end_link(LinkState& state) {
    state.ended = true;
    state.link.close();
  }

  Message finish(LinkState& state, const ZmqLink::Received& got, std::uint64_t asked) {
    last_bytes_ = got.bytes.size();
    count_received(state.meter(), last_bytes_, got.header.sent_ticks, asked);
    end_->charge_helpers_of(last_bytes_, calls_);
    const auto token = ZmqInbox::token_of(*got.part);
    if (last_bytes_ > Message::kInlineBytes)
      return {inbox_, token, got.bytes, got.header.info(++sequence_)};
    Message small(got.bytes, got.header.info(++sequence_));
    inbox_->give_back(token);
    return small;
  }

  Result<void> wait(Deadline deadline) {
    Deadline until = deadline;
    for (auto& state : end_->links()) {
      if (state.ended || state.link.peer() != ZmqLink::Peer::left) continue;
      if (!state.left) state.left = Deadline::after(kLastWords);
      if (state.left->passed())
        return fail(Code::peer_gone, end_->channel() + ": the sending stage broke off",
                    "see how that stage ended");
      until = Deadline::after(std::min(until.left(), state.left->left()));
    }
    auto ready = end_->wait(ZmqLink::For::message, until);
    if (!ready && ready.error().code == Code::timed_out && !deadline.passed()) return {};
    return ready;
  }

  std::unique_ptr<ZmqEnd> end_;
  std::shared_ptr<ZmqInbox> inbox_ = std::make_shared<ZmqInbox>();
  std::size_t turn_ = 0;
  Bytes last_bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t sequence_ = 0;
};

// ---- sending -------------------------------------------------------------------------------

class ZmqOutput final : public StageOutput::Impl {
 public:
  ZmqOutput(std::unique_ptr<ZmqEnd> end, Bytes budget_bytes)
      : store_(std::make_shared<BufferStore>(budget_bytes)), end_(std::move(end)) {}

  // With a deadline this waits for the credit; otherwise publish() does, once for both.
  Result<Loan> loan(Bytes size, Deadline deadline) override {
    const CpuCharge charge(end_->meter(), size, calls_++);
    if (size == 0) return fail(Code::invalid_argument, "loan: a loan has at least one byte");
    if (!deadline.is_never()) GANTRY_TRY(end_->wait(ZmqLink::For::credit, deadline));
    GANTRY_ASSIGN(const auto taken, store_->take(size));
    return Loan(store_, taken.token, taken.bytes);
  }

  Result<void> publish(Loan&& loan, const SendOptions& options) override {
    Loan own = std::move(loan);
    if (own.owner() != store_.get())
      return fail(Code::invalid_argument, "publish: the loan is not of this stage output");
    const CpuCharge charge(end_->meter(), own.bytes().size(), calls_++);
    SendOptions later = options;
    later.deadline = Deadline::never();
    GANTRY_TRY(hand_over({own.token(), own.bytes()}, later));
    own.forget();  // libzmq gives the buffer back when it is through
    return {};
  }

  Result<void> send(Draft draft, const SendOptions& options) override {
    GANTRY_ASSIGN(const std::vector<std::byte> payload, joined(draft));
    return send(payload, options);
  }

  // libzmq sends later, so the payload has to be copied first.
  Result<void> send(ConstByteSpan payload, const SendOptions& options) override {
    const CpuCharge charge(end_->meter(), payload.size(), calls_++);
    GANTRY_ASSIGN(const auto taken, store_->take(payload.size()));
    const std::uint64_t start = Meter::ticks();
    if (!payload.empty()) std::memcpy(taken.bytes.data(), payload.data(), payload.size());
    end_->meter().copy(CopyEngine::inline_, payload.size(), Meter::ticks() - start);
    auto sent = hand_over(taken, options);
    if (!sent) store_->give_back(taken.token);
    return sent;
  }

  // A receiver leaves when it has the end, and so everything before it. One that dies just then
  // looks the same: the launcher sees that by its exit status.
  Result<void> close(Deadline deadline) override {
    for (auto& state : end_->links()) GANTRY_TRY(send_end(state, deadline));
    while (!std::ranges::all_of(
        end_->links(), [](LinkState& state) { return state.link.peer() == ZmqLink::Peer::left; }))
      GANTRY_TRY(end_->wait(ZmqLink::For::departure, deadline));
    end_->charge_helpers();
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<Error> gone() const {
    return fail(Code::peer_gone, end_->channel() + ": the receiving stage left before the end",
                "see how that stage ended");
  }

  // Sends to the next link in turn that has credit.
  Result<void> hand_over(const BufferStore::Taken& payload, const SendOptions& options) {
    FrameHeader header(payload.bytes.size(), options);
    for (;;) {
      for (std::size_t i = 0; i < end_->links().size(); ++i) {
        LinkState& state = end_->links()[(turn_ + i) % end_->links().size()];
        header.sent_ticks = Meter::ticks();
        GANTRY_ASSIGN(const bool sent, state.link.send(header, store_, payload));
        if (sent) {
          turn_ += i + 1;
          count_sent(state.meter(), header.length);
          end_->charge_helpers_of(header.length, calls_);
          return {};
        }
        if (state.link.peer() == ZmqLink::Peer::left) return gone();
      }
      GANTRY_TRY(end_->wait(ZmqLink::For::credit, options.deadline));
    }
  }

  Result<void> send_end(LinkState& state, Deadline deadline) {
    while (!state.ended) {
      GANTRY_ASSIGN(state.ended, state.link.send_end());
      if (state.ended) break;
      if (state.link.peer() == ZmqLink::Peer::left) return gone();
      GANTRY_TRY(end_->wait(ZmqLink::For::credit, deadline));
    }
    return {};
  }

  std::shared_ptr<BufferStore> store_;
  std::unique_ptr<ZmqEnd> end_;
  std::size_t turn_ = 0;
  std::uint64_t calls_ = 0;
};

// ---- opening -------------------------------------------------------------------------------

template <class Open>
Result<std::unique_ptr<ZmqEnd>> open_end(const StageEndpoint& end, int interrupt, Open open) {
  GANTRY_ASSIGN(auto context, ZmqContext::create());
  std::vector<LinkState> links;
  for (const auto& link : end.links) {
    GANTRY_ASSIGN(auto socket, open(context, link.address));
    GANTRY_ASSIGN(auto metrics, open_metrics(end, link));
    links.push_back({std::move(socket), std::move(metrics)});
    links.back().meter().opened();
  }
  return std::make_unique<ZmqEnd>(quoted(end), std::move(context), std::move(links), interrupt);
}

}  // namespace

Result<InputImpl> open_zmq_input(const StageEndpoint& end, const StageOptions& options) {
  const Bytes largest_bytes = system_memory().total;
  GANTRY_ASSIGN(auto opened, open_end(end, options.interrupt_descriptor,
                                      [&](const auto& context, const std::string& url) {
                                        return ZmqLink::connect_pull(context, url, largest_bytes);
                                      }));
  return std::make_unique<ZmqInput>(std::move(opened));
}

Result<OutputImpl> open_zmq_output(const StageEndpoint& end, const StageOptions& options) {
  GANTRY_ASSIGN(auto opened, open_end(end, options.interrupt_descriptor,
                                      [&](const auto& context, const std::string& url) {
                                        return ZmqLink::bind_push(context, url, end.slots);
                                      }));
  return std::make_unique<ZmqOutput>(std::move(opened), end.budget_bytes);
}

}  // namespace gantry

#else  // built without libzmq's header

namespace gantry {

Result<void> zmq_usable() {
  return fail(Code::unsupported, "transport zmq: this build is without it",
              "apt install libzmq3-dev, then build again");
}
Result<InputImpl> open_zmq_input(const StageEndpoint&, const StageOptions&) {
  return tl::unexpected(zmq_usable().error());
}
Result<OutputImpl> open_zmq_output(const StageEndpoint&, const StageOptions&) {
  return tl::unexpected(zmq_usable().error());
}

}  // namespace gantry
#endif
