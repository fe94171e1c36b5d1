#include <algorithm>
#include <array>
#include <filesystem>
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
  WirePacket hello;
  hello.kind = PacketKind::hello;
  hello.purpose = Purpose::inspect;
  GANTRY_ASSIGN(const PeerIdentity producer, peer_of(socket));
  status.producer_pid = producer.pid;
  GANTRY_TRY(send_wire(socket, hello));
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
  status.producer = metrics.report();
  if (answer.fds.size() < 2) return {};
  GANTRY_ASSIGN(const Metrics others, Metrics::adopt(answer.fds[1].release(), false));
  status.consumer = others.report();
  return {};
}

void list_in(const std::string& directory, const std::string& prefix,
             std::vector<ChannelStatus>& into) {
  std::error_code ignored;  // a folder that vanishes meanwhile has no channels
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string file = entry.path().filename();
    if (file.starts_with('.') || !file.ends_with(kSocketSuffix)) continue;
    const std::string name = file.substr(0, file.size() - std::string_view(kSocketSuffix).size());
    bool stale = false;
    const auto socket = connect_to(directory, file, &stale);
    if (stale) sweep_if_stale(directory, name);
    if (!socket) continue;
    ChannelStatus status;
    status.name = prefix + name;
    static_cast<void>(ask(socket->get(), status));
    into.push_back(std::move(status));
  }
}

}  // namespace

Result<std::vector<ChannelStatus>> list_channels(std::string_view directory) {
  std::vector<ChannelStatus> channels;
  auto existing = existing_channel_directory(directory);
  if (!existing && existing.error().code == Code::not_found) return channels;  // nobody was here
  GANTRY_ASSIGN(const std::string root, std::move(existing));
  list_in(root, "", channels);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string folder = entry.path().filename();
    if (folder.starts_with(kRunPrefix) && entry.is_directory(ignored))
      list_in(entry.path(), folder + "/", channels);
  }
  std::sort(channels.begin(), channels.end(),
            [](const ChannelStatus& a, const ChannelStatus& b) { return a.name < b.name; });
  return channels;
}

}  // namespace gantry
