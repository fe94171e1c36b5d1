#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "channel/metrics_page.hpp"
#include "channel/protocol.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kAnswerTime{1};

// Fills in what the producer says of its channel; the name alone when it says nothing.
Result<void> ask(int socket, ChannelStatus& status) {
  GANTRY_ASSIGN(const PeerIdentity producer, peer_of(socket));
  status.producer_pid = producer.pid;
  GANTRY_TRY(send_hello(socket, Purpose::inspect));
  GANTRY_ASSIGN(Received answer, receive_wire(socket, Deadline::after(kAnswerTime)));
  const WirePacket& packet = answer.packet;
  if (answer.closed || packet.kind != PacketKind::status || answer.fds.empty())
    return fail(Code::peer_misbehaved, "no status");
  status.consumer_pid = packet.peer_pid;
  status.slots = packet.slots;
  status.slots_held = packet.held;
  status.slab_bytes = packet.bytes;
  status.age = std::chrono::nanoseconds(packet.age_ns);
  GANTRY_ASSIGN(const Metrics metrics, Metrics::adopt(answer.fds[0].release(), false));
  status.is_inbox = packet.is_inbox != 0;
  if (status.is_inbox) {
    status.consumer_pid = std::exchange(status.producer_pid, 0);
    status.consumer = metrics.report();
    return {};
  }
  status.producer = metrics.report();
  if (answer.fds.size() < 2) return {};
  GANTRY_ASSIGN(const Metrics others, Metrics::adopt(answer.fds[1].release(), false));
  status.consumer = others.report();
  return {};
}

// Calls `see` for every entry of `folder`; stops at the first error. A folder that vanishes
// meanwhile has no more entries.
template <class See>
Result<void> for_each_entry(const std::string& folder, See see) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    GANTRY_TRY(see(*entry));
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return fail_errno(folder, error.value());
}

// Nothing when nobody listens; then the socket is removed. A channel that cannot be asked (too
// many are asking, no descriptor left) is there all the same: it is listed with its name alone.
std::optional<ChannelStatus> look_at(const std::string& folder, const std::string& name) {
  bool stale = false;
  const auto socket = connect_to(folder, name + kSocketSuffix, &stale);
  if (stale) sweep_if_stale(folder, name);
  if (!socket && socket.error().code == Code::not_found) return std::nullopt;
  ChannelStatus status;
  status.name = name;
  if (socket) static_cast<void>(ask(socket->get(), status));
  return status;
}

Result<void> list_in(const std::string& folder, const std::string& prefix,
                     std::vector<ChannelStatus>& into) {
  return for_each_entry(folder, [&](const fs::directory_entry& entry) -> Result<void> {
    const std::string file = entry.path().filename();
    std::error_code vanished;
    // Nobody's plain file is taken for a stale socket and removed.
    if (file.starts_with('.') || !file.ends_with(kSocketSuffix) || !entry.is_socket(vanished))
      return {};
    auto status =
        look_at(folder, file.substr(0, file.size() - std::string_view(kSocketSuffix).size()));
    if (!status) return {};
    status->name = prefix + status->name;
    into.push_back(std::move(*status));
    return {};
  });
}

}  // namespace

Result<std::vector<ChannelStatus>> list_channels(std::string_view directory) {
  std::vector<ChannelStatus> channels;
  auto existing = existing_channel_directory(directory);
  if (!existing && existing.error().code == Code::not_found) return channels;  // nobody was here
  GANTRY_ASSIGN(const std::string root, std::move(existing));
  GANTRY_TRY(list_in(root, "", channels));
  const auto list_run = [&](const fs::directory_entry& entry) -> Result<void> {
    const std::string folder = entry.path().filename();
    std::error_code vanished;
    if (!folder.starts_with(kRunPrefix) || !entry.is_directory(vanished)) return {};
    return list_in(entry.path(), folder + "/", channels);
  };
  GANTRY_TRY(for_each_entry(root, list_run));
  std::sort(channels.begin(), channels.end(),
            [](const ChannelStatus& a, const ChannelStatus& b) { return a.name < b.name; });
  return channels;
}

}  // namespace gantry
