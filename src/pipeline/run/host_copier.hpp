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
    if (lane_ != nullptr) return slow_copy(to, from);
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return {};
  }

 private:
  [[nodiscard]] Result<void> slow_copy(ByteSpan to, ConstByteSpan from) {
    Completion completion;
    Move move = Move::copy(to, from);
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
