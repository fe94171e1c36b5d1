#pragma once  // tools/gantry/channel_view.hpp: how ls and top show channels.

#include <gantry/runtime.hpp>
#include <string>
#include <vector>

#include "output.hpp"
#include "tools/command_line/printable.hpp"

namespace gantry::cli {

/// "score.1 (4711)", of another host "score.1@gpu2 (4711)": who says so, and the process here.
[[nodiscard]] std::string end_text(const EndName& who, int pid);
/// The senders: "gantry put (4711)"; for an inbox "3 of 64".
[[nodiscard]] std::string producers_text(const ChannelStatus& channel);
/// "score (4711)", "none", "3 of 8".
[[nodiscard]] std::string consumers_text(const ChannelStatus& channel);
/// "server", "inbox".
[[nodiscard]] std::string kind_text(const ChannelStatus& channel);
/// "1.2 MiB pipelined by thread"; "-" before the first.
/// "-" if nobody has taken a message yet.
[[nodiscard]] std::string hand_off_text(std::uint64_t ns);
[[nodiscard]] std::string path_text(const ChannelStatus& channel);
/// "12 by thread (12 MiB), 3 by inline (120 B)"
[[nodiscard]] std::string copies_text(const MetricsReport& report);
/// The consumers of `channels`, one line each; those of channels with a single one only if `all`.
[[nodiscard]] std::string consumers_table(const std::vector<ChannelStatus>& channels, bool all);
/// The producers of the inboxes among `channels`, a line each.
[[nodiscard]] std::string senders_table(const std::vector<ChannelStatus>& channels);
/// Who holds which messages, a line each.
[[nodiscard]] std::string slots_table(const std::vector<ChannelStatus>& channels);
/// ChannelStatus::notes() of all, a line each; on lines of `width` a longer one goes on in the
/// next.
[[nodiscard]] std::string notes_text(const std::vector<ChannelStatus>& channels,
                                     std::size_t width = Table::kUnlimited);

}  // namespace gantry::cli
