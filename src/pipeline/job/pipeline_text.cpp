#include <fmt/format.h>

#include <algorithm>
#include <gantry/pipeline/stage.hpp>

namespace gantry {

std::string_view to_string(PipelineMode mode) noexcept {
  switch (mode) {
    case PipelineMode::automatic:
      return "automatic";
    case PipelineMode::sequential:
      return "sequential";
    case PipelineMode::sequential_pinned:
      return "sequential-pinned";
    case PipelineMode::overlapped_pageable:
      return "overlapped-pageable";
    case PipelineMode::overlapped_pinned:
      return "overlapped-pinned";
    case PipelineMode::unbatched:
      return "unbatched";
  }
  return "unknown";
}

std::string_view to_string(Staging staging) noexcept {
  switch (staging) {
    case Staging::automatic:
      return "automatic";
    case Staging::direct:
      return "direct";
    case Staging::ring:
      return "ring";
    case Staging::in_place:
      return "in-place";
    case Staging::registered:
      return "registered";
    case Staging::shared:
      return "shared";
  }
  return "unknown";
}

std::string PipelinePlan::text() const {
  std::string text = fmt::format(
      "{}: {} chunks of {} steps, {} under way; {} bytes of the device, "
      "{} of the host for staging\n",
      to_string(mode), chunks, chunk_steps, depth, device_bytes, ring_bytes);
  for (std::size_t i = 0; i < staging.size(); ++i)
    if (staging[i] != Staging::automatic)
      text += fmt::format("  argument {}: {}{}\n", i, to_string(staging[i]),
                          staging[i] == Staging::shared ? " (in place, no copies)" : "");
  for (const std::string& reason : reasons) text += fmt::format("  {}\n", reason);
  return text;
}

std::string PipelineStageReport::text() const {
  using Seconds = std::chrono::duration<double>;
  std::string text = fmt::format(
      "{}: {} messages in {:.2f} s, {} under way; {:.1f} MB in, {:.1f} MB out\n"
      "  at work: copy-in {:.2f} s, compute {:.2f} s, copy-out {:.2f} s\n",
      device, messages, Seconds(elapsed).count(), depth, static_cast<double>(bytes_in) / 1e6,
      static_cast<double>(bytes_out) / 1e6, Seconds(copy_in).count(), Seconds(compute).count(),
      Seconds(copy_out).count());
  if (read_in_place + written_in_place != 0)
    text += fmt::format(
        "  in place, no copies: {} messages computed on where they lie, {} results written where "
        "they are sent from\n",
        read_in_place, written_in_place);
  for (const std::string& reason : reasons) text += fmt::format("  {}\n", reason);
  return text;
}

}  // namespace gantry
