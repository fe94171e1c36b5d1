#pragma once  // channel/consumer/landing_conversion.hpp: converts a message piece by piece.

#include <gantry/types.hpp>
#include <vector>

namespace gantry {

/// One message's way into a buffer in which its elements are others. The pieces come in order, and
/// go. What the next element needs of a piece that goes is kept: a group or two.
class LandingConversion {
 public:
  /// The plan does not permute.
  LandingConversion(ReshapePlan plan, ByteSpan destination)
      : plan_(std::move(plan)), destination_(destination) {}

  /// The next bytes of the message.
  void take(ConstByteSpan piece);
  /// It is the one by that plan (or a copy of it) into exactly that buffer.
  [[nodiscard]] bool is(const ReshapePlan& plan, ByteSpan destination) const noexcept {
    return plan_ == plan && destination_.data() == destination.data() &&
           destination_.size() == destination.size();
  }

 private:
  void convert_of(ConstByteSpan bytes, Bytes from);
  void drop_used();

  ReshapePlan plan_;
  ByteSpan destination_;
  Bytes made_ = 0;               // of the destination
  Bytes taken_ = 0;              // of the message
  std::vector<std::byte> kept_;  // the last of them, from kept_from_ on
  Bytes kept_from_ = 0;
};

}  // namespace gantry
