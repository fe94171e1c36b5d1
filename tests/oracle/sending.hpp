#pragma once  // oracle/sending.hpp: what all sending ends do.

#include <optional>

#include "oracle/part.hpp"

namespace gantry::oracle {

/// MessageInfo::user of a message.
[[nodiscard]] std::uint64_t user_word(Id id) noexcept;

/// Nothing: descriptors or memory do not suffice.
[[nodiscard]] std::optional<Producer> open_producer(Part& part);
void await_consumer(Part& part, Producer& producer);
/// False: descriptors or memory did not suffice.
bool close_producer(Part& part, Producer& producer);

}  // namespace gantry::oracle
