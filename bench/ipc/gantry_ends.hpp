#pragma once  // bench/ipc/gantry_ends.hpp: what Gantry's ends in this benchmark have in common.

#include <gantry/channel.hpp>

#include "subjects.hpp"

namespace gantry::bench {

[[nodiscard]] inline EndOptions end_options() {
  EndOptions options;
  options.spin = kGantrySpin;
  return options;
}

/// The sum of the next message, read chunk by chunk as it lands.
[[nodiscard]] inline Result<std::uint64_t> sum_as_it_lands(Consumer& in) {
  auto request = in.receive_early();
  if (!request) return Unexpected(request.error());
  std::uint64_t sum = 0;
  for (;;) {
    const auto chunk = request->next();
    if (!chunk) return Unexpected(chunk.error());
    if (chunk->empty()) return sum;
    sum += checksum(*chunk);
  }
}

}  // namespace gantry::bench
