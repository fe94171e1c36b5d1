#pragma once  // remote/calls_side.hpp: requests in one direction, answers in the other.

#include "remote/call_ends.hpp"
#include "remote/receiving_side.hpp"
#include "remote/sending_side.hpp"

namespace gantry {

/// One end of a session of calls: both sides of a channel at once, over one link. Both remember
/// what the other end has, so that another link goes on where one broke; a call is neither made nor
/// answered a second time.
class CallsSide final : public RemoteSide {
 public:
  explicit CallsSide(const std::shared_ptr<CallEnd>& end) : out_(end), in_(end) {}
  [[nodiscard]] Result<void> begin(Link& link, std::uint64_t received) override;
  [[nodiscard]] Result<Turn> turn(Link& link) override;
  [[nodiscard]] std::chrono::milliseconds patience(const Link& link) const override {
    return in_.patience(link);
  }
  [[nodiscard]] int event(const Link& link) override { return out_.event(link); }
  [[nodiscard]] RemoteEnd end(Link& link, const Result<void>& done) override;
  [[nodiscard]] std::uint64_t received() const noexcept override { return in_.received(); }

 private:
  [[nodiscard]] Result<bool> hear(Link& link);
  [[nodiscard]] RemoteEnd end_over(Link& link, const Result<void>& done);
  [[nodiscard]] bool is_over() const noexcept { return out_.answer() || in_.is_done(); }

  SendingSide out_;
  ReceivingSide in_;
  std::array<std::byte, kMaxControlBytes> buffer_{};
};

}  // namespace gantry
