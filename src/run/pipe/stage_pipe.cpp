// A stage's ends over plain pipes that the launcher made: what a user would write by hand, done
// well. The kernel copies every payload in and out again.
#include <algorithm>

#include "core/base/os/system_memory.hpp"
#include "core/base/text_lines.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "run/pipe/stage_pipe_frames.hpp"
#include "run/stage_link.hpp"

namespace gantry {
namespace {

Result<Fd> open_pipe(const StageEndpoint& end, const StageEndpoint::Link& link) {
  const auto number = number_in<int>(link.address);
  if (!number || *number < 0)
    return fail(Code::invalid_argument,
                fmt::format("{}: '{}' is not a descriptor", quoted(end), link.address));
  GANTRY_ASSIGN(Fd pipe, take_inherited(*number, quoted(end)));
  GANTRY_TRY(prepare_pipe(pipe, quoted(end)));
  return pipe;
}

/// The page in which a link counts: the launcher's, or one of its own.
Result<Metrics> open_metrics(const StageEndpoint& end, const StageEndpoint::Link& link) {
  if (link.metrics_descriptor < 0) return Metrics::create();
  GANTRY_ASSIGN(Fd page, take_inherited(link.metrics_descriptor, quoted(end) + " (counters)"));
  return Metrics::adopt(page.release(), true);
}

/// All parts of a draft, one behind the other: the pipe copies them anyway.
Result<std::vector<std::byte>> joined(const Draft& draft) {
  return guarded([&]() -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes;
    for (const Draft::Part& part : draft.parts())
      bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
    return bytes;
  });
}

template <class Frames>
struct PipeLink {
  Frames frames;
  Metrics metrics;

  [[nodiscard]] Meter& meter() const { return *metrics.meter(); }
  [[nodiscard]] WaitTicks& waits() const { return MetricsMaker::page(metrics)->waits; }
  /// Counts a payload that the kernel copied; its copy is inside the receiver's hand-off.
  void count(Bytes bytes) const {
    meter().copy(CopyEngine::kernel, bytes, 0);
    meter().message(bytes);
  }
};

// ---- receiving -----------------------------------------------------------------------------

class PipeInput final : public StageInput::Impl {
 public:
  using Link = PipeLink<FrameReader>;

  PipeInput(std::string channel, std::vector<Link> links, Bytes largest_bytes, int interrupt)
      : links_(std::move(links)),
        open_(links_.size()),
        store_(std::make_shared<BufferStore>(largest_bytes)),
        channel_(std::move(channel)),
        polled_(channel_, interrupt) {
    for (const auto& link : links_) polled_.add(link.frames.descriptor(), POLLIN);
  }

  Result<Message> receive(Deadline deadline) override {
    // The launcher adds up the links of an end, so any of them can carry the CPU time.
    const CpuCharge charge(links_.front().meter(), last_bytes_, calls_++);
    const std::uint64_t asked = Meter::ticks();
    for (bool polled = false;; polled = true) {
      GANTRY_ASSIGN(Link* const link, advance_one(polled));
      if (link != nullptr) return finish(*link, asked);
      if (open_ == 0) return fail(Code::closed, channel_ + ": every sending stage has ended");
      GANTRY_TRY(wait(deadline));
    }
  }

 private:
  // The next link with a whole frame, or null. Frames of several links may be half read at a time,
  // each into a buffer of its own, so that no sender is held up by another.
  Result<Link*> advance_one(bool polled) {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const std::size_t index = (turn_ + i) % links_.size();
      Link& link = links_[index];
      if (link.frames.ended() || (polled && !polled_.ready(index))) continue;
      GANTRY_ASSIGN(const auto state, link.frames.advance(*store_));
      if (state == FrameReader::State::ended) end_link(index);
      if (state != FrameReader::State::complete) continue;
      turn_ = index + 1;
      return &link;
    }
    return nullptr;
  }

  void end_link(std::size_t index) {
    polled_.drop(index);
    --open_;
  }

  Result<void> wait(Deadline deadline) {
    const CountedWait counted(links_.front().waits(), Meter::ticks());
    return polled_.wait(deadline);
  }

  Message finish(Link& link, std::uint64_t asked) {
    const auto frame = link.frames.take_frame();
    const ByteSpan bytes = frame.buffer ? frame.buffer->bytes : ByteSpan();
    last_bytes_ = bytes.size();
    // The hand-off runs from the later of the two until now, when the payload is in hand, whole.
    // The sender's value is not trusted.
    const std::uint64_t now = Meter::ticks();
    link.meter().handoff(now - std::min(now, std::max(frame.header.sent_ticks, asked)));
    link.count(bytes.size());
    const MessageInfo info = frame.header.info(++sequence_);
    if (bytes.size() > Message::kInlineBytes) return {store_, frame.buffer->token, bytes, info};
    Message small(bytes, info);
    if (frame.buffer) store_->give_back(frame.buffer->token);
    return small;
  }

  std::vector<Link> links_;
  std::size_t open_;
  std::size_t turn_ = 0;
  std::shared_ptr<BufferStore> store_;
  std::string channel_;
  PollSet polled_;
  Bytes last_bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t sequence_ = 0;
};

// ---- sending -------------------------------------------------------------------------------

class PipeOutput final : public StageOutput::Impl {
 public:
  using Link = PipeLink<FrameWriter>;

  PipeOutput(const std::string& channel, std::vector<Link> links, Bytes budget_bytes, int interrupt)
      : links_(std::move(links)),
        store_(std::make_shared<BufferStore>(budget_bytes)),
        room_(channel, interrupt) {
    for (const auto& link : links_) room_.add(link.frames.descriptor(), POLLOUT);
  }

  Result<Loan> loan(Bytes size, Deadline deadline) override {
    const CpuCharge charge(links_.front().meter(), size, calls_++);
    if (size == 0) return fail(Code::invalid_argument, "loan: a loan has at least one byte");
    GANTRY_TRY(pick(deadline));
    GANTRY_ASSIGN(const auto taken, store_->take(size));
    return Loan(store_, taken.token, taken.bytes);
  }

  // The loan goes back to the store when it is dropped here: the pipe has its own copy by then.
  Result<void> publish(Loan&& loan, const SendOptions& options) override {
    const Loan own = std::move(loan);
    if (own.owner() != store_.get())
      return fail(Code::invalid_argument, "publish: the loan is not of this stage output");
    SendOptions later = options;
    later.deadline = Deadline::never();
    return send(own.bytes(), later);
  }

  Result<void> send(Draft draft, const SendOptions& options) override {
    GANTRY_ASSIGN(const std::vector<std::byte> payload, joined(draft));
    return send(payload, options);
  }

  Result<void> send(ConstByteSpan payload, const SendOptions& options) override {
    const CpuCharge charge(links_.front().meter(), payload.size(), calls_++);
    GANTRY_TRY(store_->check_size(payload.size()));
    GANTRY_ASSIGN(Link* const link, pick(options.deadline));
    GANTRY_TRY(write(*link, FrameHeader::Kind::data, payload, options));
    link->count(payload.size());
    next_ = static_cast<std::size_t>(link - links_.data()) + 1;
    return {};
  }

  Result<void> close(Deadline deadline) override {
    for (auto& link : links_) GANTRY_TRY(write(link, FrameHeader::Kind::end, {}));
    for (auto& link : links_) GANTRY_TRY(link.frames.wait_drained(deadline));
    return {};
  }

 private:
  // The next link in turn whose pipe has room. A single one is simply written to; the write itself
  // waits.
  Result<Link*> pick(Deadline deadline) {
    if (links_.size() == 1 && deadline.is_never()) return &links_.front();
    {
      const CountedWait counted(links_.front().waits(), Meter::ticks());
      GANTRY_TRY(room_.wait(deadline));
    }
    std::size_t index = next_ % links_.size();
    while (!room_.ready(index)) index = (index + 1) % links_.size();
    if (room_.failed(index)) return links_[index].frames.gone();
    return &links_[index];
  }

  static Result<void> write(Link& link, FrameHeader::Kind kind, ConstByteSpan payload,
                            const SendOptions& options = {}) {
    return link.frames.write(kind, payload, link.waits(), options);
  }

  std::vector<Link> links_;
  std::shared_ptr<BufferStore> store_;
  PollSet room_;
  std::size_t next_ = 0;
  std::uint64_t calls_ = 0;
};

// Opens every link of `end`; `make` turns a pipe into its frames.
template <class Frames, class Make>
Result<std::vector<PipeLink<Frames>>> open_links(const StageEndpoint& end, Make make) {
  std::vector<PipeLink<Frames>> links;
  for (const auto& link : end.links) {
    GANTRY_ASSIGN(Fd pipe, open_pipe(end, link));
    GANTRY_ASSIGN(auto metrics, open_metrics(end, link));
    links.push_back({make(std::move(pipe)), std::move(metrics)});
    links.back().meter().opened();
    links.back().meter().connected();  // a pipe's other end is there from the start
  }
  return links;
}

}  // namespace

Result<InputImpl> open_pipe_input(const StageEndpoint& end, const StageOptions& options) {
  const Bytes largest_bytes = system_memory().total;
  GANTRY_ASSIGN(auto links, open_links<FrameReader>(end, [&](Fd pipe) {
                  return FrameReader(quoted(end), std::move(pipe), largest_bytes);
                }));
  return std::make_unique<PipeInput>(quoted(end), std::move(links), largest_bytes,
                                     options.interrupt_descriptor);
}

Result<OutputImpl> open_pipe_output(const StageEndpoint& end, const StageOptions& options) {
  const int interrupt = options.interrupt_descriptor;
  GANTRY_ASSIGN(auto links, open_links<FrameWriter>(end, [&](Fd pipe) {
                  return FrameWriter(quoted(end), std::move(pipe), interrupt);
                }));
  return std::make_unique<PipeOutput>(quoted(end), std::move(links), end.budget_bytes, interrupt);
}

}  // namespace gantry
