#pragma once  // stage_ledger.hpp: ends of a stage that are no channels, and what became of them.

#include <gmock/gmock.h>

#include "pipeline_suite.hpp"

namespace gantry {

/// Messages of the test's own memory, behind words that are not for the device; results one behind
/// the other in one buffer.
class Ledger {
 public:
  struct Options {
    std::size_t skipped = 3;      ///< Words ahead of a message's own: 3 are 12 bytes, unaligned.
    unsigned places = 1;          ///< StageCallbacks::places
    unsigned holds = 0;           ///< StageCallbacks::holds
    std::size_t too_few = 0;      ///< Words that a result's place is short of.
    bool is_place_input = false;  ///< Results are to lie where their messages do.
  };
  Ledger(std::uint64_t messages, std::size_t words, const Options& options)
      : options_(options), words_(words), results_(messages * words) {
    for (std::uint64_t i = 0; i < messages; ++i) {
      messages_.push_back(std::make_shared<Words>(random_words(options.skipped + words, i)));
      wanted_.push_back(*messages_.back());
      for (std::uint32_t& word : wanted_.back()) word *= 4;
    }
  }
  Ledger(std::uint64_t messages, std::size_t words) : Ledger(messages, words, Options()) {}

  [[nodiscard]] StageCallbacks ends() {
    StageCallbacks ends;
    ends.receive = [this](Deadline) { return receive(); };
    ends.place = [this](const MessageInfo& info, Bytes size, Deadline deadline) {
      return place(info, size, deadline);
    };
    ends.committed = [this](const MessageInfo& info) -> Result<void> {
      EXPECT_EQ(info.user, 100 + landed_);
      ++landed_;
      return after_ ? after_(landed_) : Result<void>{};
    };
    ends.places = options_.places;
    ends.holds = options_.holds;
    return ends;
  }
  [[nodiscard]] std::span<std::uint32_t> message(std::uint64_t number) {
    return std::span(*messages_[number]).subspan(options_.skipped);
  }
  [[nodiscard]] std::span<std::uint32_t> result(std::uint64_t number) {
    if (options_.is_place_input) return message(number);
    return std::span(results_).subspan(number * words_, words_);
  }
  void expect_results() {
    for (std::uint64_t i = 0; i < landed_; ++i)
      for (std::size_t k = 0; k < words_; ++k)
        ASSERT_EQ(result(i)[k], wanted_[i][options_.skipped + k]) << i << ", " << k;
  }
  [[nodiscard]] bool is_held(std::uint64_t number) const {
    return messages_[number].use_count() > 1;
  }
  /// Nobody but this ledger holds a message.
  void expect_let_go() const {
    for (std::uint64_t i = 0; i < messages_.size(); ++i) EXPECT_FALSE(is_held(i)) << i;
  }

  std::uint64_t landed_ = 0;
  std::function<Result<void>(std::uint64_t landed)> after_;
  /// Asked before a place is given: of which message, and whether it has to be at once.
  std::function<Result<void>(std::uint64_t number, bool at_once)> before_;

 private:
  Result<StageCallbacks::Received> receive() {
    if (received_ == messages_.size()) return fail(Code::closed, "that was all");
    MessageInfo info;
    info.user = 100 + received_;
    const auto bytes = std::as_bytes(std::span<const std::uint32_t>(message(received_)));
    return StageCallbacks::Received{{bytes}, info, messages_[received_++]};
  }
  Result<StageCallbacks::Destination> place(const MessageInfo& info, Bytes size,
                                            Deadline deadline) {
    EXPECT_EQ(info.user, 100 + placed_);
    EXPECT_EQ(size, words_ * sizeof(std::uint32_t));
    EXPECT_LT(placed_, landed_ + options_.places);
    if (before_) {
      auto refused = before_(placed_, deadline.passed());
      if (!refused) return tl::unexpected(std::move(refused).error());
    }
    const auto there = result(placed_++);
    return StageCallbacks::Destination{
        std::as_writable_bytes(there.first(words_ - options_.too_few)), {}};
  }

  const Options options_;
  const std::size_t words_;
  std::vector<std::shared_ptr<Words>> messages_;
  std::vector<Words> wanted_;
  Words results_;
  std::uint64_t received_ = 0;
  std::uint64_t placed_ = 0;
};

}  // namespace gantry
