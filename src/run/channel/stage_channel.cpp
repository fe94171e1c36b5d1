// A stage's ends over Gantry channels: only the launcher's wiring and the merging. The channel
// itself counts, waits and sees death.
#include <algorithm>
#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>
#include <map>

#include "core/base/result.hpp"
#include "run/stage_link.hpp"

namespace gantry {
namespace {

using std::chrono::nanoseconds;

Result<EndOptions> options_for(const StageEndpoint& end, const StageEndpoint::Link& link,
                               const StageOptions& stage) {
  EndOptions options;
  options.interrupt_descriptor = stage.interrupt_descriptor;
  if (link.metrics_descriptor >= 0) {
    GANTRY_ASSIGN(Fd page, take_inherited(link.metrics_descriptor, quoted(end) + " (counters)"));
    options.metrics_descriptor = page.release();
  }
  // Of the run, not of the user: $GANTRY_TOKEN_FILE stays the user's.
  if (link.address.find('@') != std::string::npos) {
    const std::string path = fmt::format("{}/{}", channel_directory_path(), kStageTokenFile);
    GANTRY_ASSIGN(options.remote.token, read_bridge_token(path));
  }
  return options;
}

class GantryInput final : public StageInput::Impl {
 public:
  explicit GantryInput(std::vector<Consumer> consumers) : consumers_(std::move(consumers)) {}

  Result<Message> receive(Deadline deadline) override {
    GANTRY_ASSIGN(auto any, Consumer::receive_any(consumers_, deadline));
    return std::move(any.message);
  }

 private:
  std::vector<Consumer> consumers_;
};

class GantryOutput final : public StageOutput::Impl {
 public:
  explicit GantryOutput(std::vector<Producer> producers) : producers_(std::move(producers)) {}

  Result<Loan> loan(Bytes size, Deadline deadline) override {
    return in_turn<Loan>(deadline, [&](Producer& producer, Deadline until) -> Result<Loan> {
      auto loan = producer.loan(size, until);
      if (loan) lenders_[loan->owner()] = static_cast<std::size_t>(&producer - producers_.data());
      return loan;
    });
  }

  Result<void> publish(Loan&& loan, const SendOptions& options) override {
    const auto lender = lenders_.find(loan.owner());
    if (lender == lenders_.end())
      return fail(Code::invalid_argument, "publish: the loan is not of this stage output");
    return producers_[lender->second].publish(std::move(loan), options);
  }

  Result<void> send(ConstByteSpan payload, const SendOptions& options) override {
    return in_turn<void>(options.deadline, [&](Producer& producer, Deadline until) {
      return producer.send(payload, until_then(options, until));
    });
  }

  // A draft is gone when it was not sent, too, so each link is offered one that shares the parts.
  Result<void> send(Draft draft, const SendOptions& options) override {
    if (producers_.size() == 1) return producers_.front().send(std::move(draft), options);
    return in_turn<void>(options.deadline, [&](Producer& producer, Deadline until) {
      return producer.send(shared(draft), until_then(options, until));
    });
  }

  Result<Pool> pool() const override {
    return producers_.size() == 1 ? producers_.front().pool() : StageOutput::Impl::pool();
  }

  // Every reader learns of the end before any is waited for.
  Result<void> close(Deadline deadline) override {
    Result<void> first_error;
    if (producers_.size() > 1)
      for (auto& producer : producers_) std::ignore = producer.close(Deadline::now());
    for (auto& producer : producers_) {
      auto closed = producer.close(deadline);
      if (!closed && first_error) first_error = std::move(closed);
    }
    return first_error;
  }

 private:
  static constexpr nanoseconds kFirstTurn{100'000};
  static constexpr nanoseconds kLongestTurn{2'000'000};

  static SendOptions until_then(SendOptions options, Deadline until) {
    options.deadline = until;
    return options;
  }
  static Draft shared(const Draft& draft) {
    Draft same;
    for (const Draft::Part& part : draft.parts()) {
      same.parts().push_back({part.copied, part.block.share(), part.forwarded, part.bytes,
                              part.tensor, part.moved, part.needs_size, part.size, part.as});
    }
    return same;
  }

  // Asks every link once without waiting. Then waits for each in turn, a little longer every round:
  // a credit that another link gets meanwhile is seen within kLongestTurn.
  template <class T, class Ask>
  Result<T> in_turn(Deadline deadline, Ask ask) {
    if (producers_.size() == 1) return ask(producers_.front(), deadline);
    nanoseconds turn{0};
    std::size_t busy = 0;  // links in a row whose credits or memory are all on loan to this stage
    for (std::size_t asked = 1;; ++asked) {
      const nanoseconds wait = std::min(turn, deadline.left());
      auto result = ask(producers_[next_], Deadline::after(wait));
      next_ = (next_ + 1) % producers_.size();
      if (result) return result;
      const Code code = result.error().code;
      busy = code == Code::busy || code == Code::out_of_memory ? busy + 1 : 0;
      const bool is_late = result.error().code == Code::timed_out && !deadline.passed();
      if (!is_late && (busy == 0 || busy == producers_.size())) return result;
      if (asked % producers_.size() == 0) turn = std::clamp(turn * 2, kFirstTurn, kLongestTurn);
    }
  }

  std::vector<Producer> producers_;
  std::map<const detail::SlotOwner*, std::size_t> lenders_;  // which link a loan belongs to
  std::size_t next_ = 0;
};

}  // namespace

Result<InputImpl> open_gantry_input(const StageEndpoint& end, const StageOptions& options) {
  GANTRY_ASSIGN(auto runtime, Runtime::create());
  std::vector<Consumer> consumers;
  for (const auto& link : end.links) {
    GANTRY_ASSIGN(auto link_options, options_for(end, link, options));
    GANTRY_ASSIGN(auto consumer, runtime.consumer(link.address, {std::move(link_options)}));
    consumers.push_back(std::move(consumer));
  }
  return std::make_unique<GantryInput>(std::move(consumers));
}

Result<OutputImpl> open_gantry_output(const StageEndpoint& end, const StageOptions& options) {
  GANTRY_ASSIGN(auto runtime, Runtime::create());
  std::vector<Producer> producers;
  for (const auto& link : end.links) {
    GANTRY_ASSIGN(auto link_options, options_for(end, link, options));
    ProducerOptions sending{std::move(link_options), {}};
    sending.slots = end.slots;
    sending.pool.budget_bytes = end.budget_bytes;
    if (!end.as.empty()) {
      GANTRY_ASSIGN(sending.as, As::parse(end.as));
    }
    GANTRY_ASSIGN(auto producer, runtime.producer(link.address, std::move(sending)));
    producers.push_back(std::move(producer));
  }
  return std::make_unique<GantryOutput>(std::move(producers));
}

}  // namespace gantry
