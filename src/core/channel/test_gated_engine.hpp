#pragma once  // channel/test_gated_engine.hpp: copies that begin when a test says so.

#include <atomic>

#include "core/channel/test_support.hpp"

namespace gantry::test {

/// An engine whose copies wait until they may begin.
class CopyGate {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() const {
    reached_ = true;
    reached_.notify_all();
    open_.wait(false);
  }
  void await_first() const { reached_.wait(false); }  ///< Returns once a copy waits, or did.

 private:
  std::atomic<bool> open_{false};
  mutable std::atomic<bool> reached_{false};
};

class GatedLane final : public PlainLane {
 public:
  explicit GatedLane(const CopyGate& gate) : gate_(gate) {}
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode mode) override {
    gate_.pass();
    return PlainLane::submit(batch, mode);
  }

 private:
  const CopyGate& gate_;
};

class GatedEngine final : public PlainEngine {
 public:
  explicit GatedEngine(const CopyGate& gate) : gate_(gate) {}
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions&) override {
    return std::make_unique<GatedLane>(gate_);
  }

 private:
  const CopyGate& gate_;
};

}  // namespace gantry::test
