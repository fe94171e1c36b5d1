#pragma once  // pipeline/run/host_copier.hpp: one thread's copies between user memory and a ring.

#include <cstring>
#include <gantry/engine.hpp>

#include "base/result.hpp"

namespace gantry {

class HostCopier {
 public:
  HostCopier() = default;
  /// `engine`: null for memcpy().
  [[nodiscard]] static Result<HostCopier> make(Engine* engine) {
    HostCopier copier;
    if (engine != nullptr) {
      GANTRY_ASSIGN(copier.lane_, engine->open_lane());
    }
    return copier;
  }

  /// Errors: `invalid_argument` with the address that cannot be read or written.
  [[nodiscard]] Result<void> copy(ByteSpan to, ConstByteSpan from) {
    if (lane_ != nullptr) return by_engine(Move::copy(to, from));
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return {};
  }

  /// Makes the bytes of the plan's destination from `at` on; `from` is its whole source. Errors: as
  /// above.
  [[nodiscard]] Result<void> reshape(ByteSpan to, ConstByteSpan from, const ReshapePlan& plan,
                                     Bytes at) {
    from = from.first(plan.source_bytes());
    if (lane_ != nullptr) return by_engine(Move::reshape(to, from, plan, at));
    plan.convert(to, from, at);
    return {};
  }

 private:
  [[nodiscard]] Result<void> by_engine(Move move) {
    Completion completion;
    move.completion = &completion;
    GANTRY_ASSIGN(const Ticket ticket, lane_->submit(move, SubmitMode::synchronous));
    if (lane_->wait(ticket) == Outcome::done) return {};
    const bool is_read = completion.cause == Cause::unreadable;
    if (is_read || completion.cause == Cause::unwritable)
      return fail(Code::invalid_argument,
                  fmt::format("the byte at {:#x} cannot be {}", completion.fault_address,
                              is_read ? "read" : "written"),
                  "a file behind it may have been cut short");
    return fail(Code::system, fmt::format("the copy failed: {}", to_string(completion.cause)));
  }

  std::unique_ptr<Lane> lane_;
};

}  // namespace gantry
