#include "engine/inline/inline_engine.hpp"

#include <atomic>

#include "engine/check.hpp"

namespace gantry {
namespace {

// A move has ended before it has a ticket, so every ticket ever given is done. Counters are
// relaxed: the caller ran the move itself and needs no ordering from them.
class InlineEngine final : public Engine {
 public:
  CopyEngine kind() const noexcept override { return CopyEngine::inline_; }

  Result<Ticket> submit(const Move& move) override {
    if (auto checked = check_move(move); !checked) return tl::unexpected(checked.error());
    execute(move, 0, move.bytes);
    bytes_.fetch_add(move.bytes, std::memory_order_relaxed);
    return Ticket{moves_.fetch_add(1, std::memory_order_relaxed) + 1};
  }

  std::size_t poll() override { return 0; }

  Outcome outcome(Ticket ticket) const noexcept override {
    const auto ended = moves_.load(std::memory_order_relaxed);
    return static_cast<std::uint64_t>(ticket) <= ended ? Outcome::done : Outcome::pending;
  }

  Outcome wait(Ticket ticket, Deadline) override { return outcome(ticket); }

  EngineReport report() const noexcept override {
    return {moves_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed), 0};
  }

 private:
  std::atomic<std::uint64_t> moves_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace

std::shared_ptr<Engine> make_inline_engine() {
  return std::make_shared<InlineEngine>();
}

}  // namespace gantry
