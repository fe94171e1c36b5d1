#pragma once  // tensor/reshape_state.hpp: what carries a ReshapePlan out.

#include <gantry/types.hpp>

namespace gantry::detail {

/// A checked conversion, immutable once made. Channels and engines carry it out through this
/// interface; the component shape makes it.
struct ReshapeState {
  Tensor to, from;
  Bytes to_bytes = 0, from_bytes = 0;
  Bytes unit = 1;
  ReshapeError error;
  ReshapeClass kind = ReshapeClass::narrowing;

  virtual ~ReshapeState() = default;
  /// See ReshapePlan::source_of() and destination_from().
  [[nodiscard]] virtual ByteRange source_of(ByteRange destination) const noexcept = 0;
  [[nodiscard]] virtual Bytes destination_from(Bytes source_prefix) const noexcept = 0;
  /// Makes bytes [at, at + bytes) of the destination at `made`; `source` is the front of the whole
  /// source. The range lies in the destination. The caller holds a FloatMode. Has no destructors
  /// and no locks, so that it may be left by a jump.
  virtual void make(std::byte* made, const std::byte* source, Bytes at, Bytes bytes,
                    bool streaming) const noexcept = 0;
};

}  // namespace gantry::detail
