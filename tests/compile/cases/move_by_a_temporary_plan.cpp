// refused: deleted (function|member function)
#include <gantry/engine.hpp>

gantry::Move narrow(gantry::ByteSpan to, gantry::ConstByteSpan from, const gantry::Tensor& floats) {
  return gantry::Move::reshape(to, from, *gantry::ReshapePlan::make(gantry::types::bf16, floats));
}
