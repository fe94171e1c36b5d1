#include "net/remote/listing.hpp"

#include <gantry/bridge.hpp>
#include <limits>

#include "core/base/moved_from.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/channel/status/status_wire.hpp"
#include "net/remote/admission.hpp"

namespace gantry {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kLongestListedName = 256;  // that of a run stands before it

// Calls `use` for each state of a process that the owner of the channel does not tell: its asker
// looks it up, which only one on that host can.
template <class Status, class Use>
void for_each_state(Status& channel, Use use) {
  for (auto& one : channel.consumers) use(one.state);
  for (auto& one : channel.departed) use(one.state);
  for (auto& one : channel.senders) use(one.state);
}

std::vector<std::byte> encode_channel(const ChannelStatus& channel) {
  WordWriter out;
  out.text(channel.name, kLongestListedName);
  out.text(channel.pipeline, EndName::kMostBytes);
  // Of an inbox who receives there: see name_the_receiver().
  const bool has_receiver = channel.is_inbox && !channel.consumers.empty();
  const int pid = has_receiver ? channel.consumers.front().pid : channel.producer_pid;
  out.number(static_cast<std::uint64_t>(pid), 4);
  out.number(has_receiver ? channel.consumers.front().uid : channel.producer_uid, 4);
  out.number(static_cast<std::uint64_t>(channel.producer_state), 1);
  out.number(static_cast<std::uint64_t>(channel.age.count()));
  out.text(channel.silence, kLongestRemoteText);
  out.number(channel.answered ? 1 : 0, 1);
  if (!channel.answered) return out.take();
  const auto told = encode_status(channel);
  out.number(told.size(), kLengthBytes);
  out.bytes(told);
  for_each_state(channel,
                 [&out](ProcessState state) { out.number(static_cast<std::uint64_t>(state), 1); });
  return out.take();
}

ProcessState read_state(WordReader& in) {
  return static_cast<ProcessState>(in.number(1, static_cast<std::uint64_t>(ProcessState::gone)));
}

tl::unexpected<Error> no_listing() {
  return fail(Code::peer_misbehaved, "the bridge lists what no channel is");
}

Result<ChannelStatus> decode_channel(WordReader& in) {
  ChannelStatus channel;
  channel.name = in.text(kLongestListedName);
  channel.pipeline = in.text(EndName::kMostBytes);
  channel.producer_pid = static_cast<int>(in.number(4, std::numeric_limits<int>::max()));
  channel.producer_uid = static_cast<unsigned>(in.number(4));
  channel.producer_state = read_state(in);
  const auto age = in.number(8, std::numeric_limits<std::int64_t>::max());
  channel.age = std::chrono::nanoseconds(static_cast<std::int64_t>(age));
  channel.silence = in.text(kLongestRemoteText);
  channel.answered = in.number(1, 1) == 1;
  if (!in.is_fine()) return no_listing();
  if (!channel.answered) return channel;
  std::vector<std::byte> told(static_cast<std::size_t>(in.number(kLengthBytes, kMaxStatusBytes)));
  in.bytes(told);
  if (!in.is_fine()) return no_listing();
  GANTRY_TRY(decode_status(told, channel));
  if (channel.is_inbox) name_the_receiver(channel);
  for_each_state(channel, [&in](ProcessState& state) { state = read_state(in); });
  if (!in.is_fine()) return no_listing();
  return channel;
}

}  // namespace

std::vector<std::byte> encode_listing(const std::vector<ChannelStatus>& channels) {
  WordWriter out;
  for (const ChannelStatus& channel : channels) {
    const auto one = encode_channel(channel);
    if (out.size() + one.size() > kMostListingBytes) break;
    out.bytes(one);
  }
  return out.take();
}

Result<std::vector<ChannelStatus>> decode_listing(ConstByteSpan bytes) {
  std::vector<ChannelStatus> channels;
  for (WordReader in(bytes); !in.is_over();) {
    GANTRY_ASSIGN(ChannelStatus channel, decode_channel(in));
    channels.push_back(std::move(channel));
  }
  return channels;
}

Result<void> send_listing(int socket, const std::string& directory, Deadline deadline) {
  GANTRY_ASSIGN(const auto channels, list_channels(directory));
  const auto listing = encode_listing(channels);
  WordWriter head;
  head.number(listing.size(), kLengthBytes);
  GANTRY_TRY(send_exactly(socket, head.take(), deadline));
  return send_exactly(socket, listing, deadline);
}

Result<std::vector<ChannelStatus>> list_remote_channels(std::string_view host,
                                                        const RemoteOptions& options,
                                                        Deadline deadline, int interrupt) {
  return guarded([&]() -> Result<std::vector<ChannelStatus>> {
    GANTRY_ASSIGN(const HostPort where, parse_host(host));
    GANTRY_ASSIGN(const std::string token, token_or_file(options.token));
    GANTRY_ASSIGN(const Fd socket, connect_bridge(where, token, std::make_shared<DetachedThreads>(),
                                                  interrupt, deadline));
    set_up_tcp(socket.get());
    RemoteRequest request;
    request.role = RemoteRole::look;
    auto called = call_bridge(socket.get(), token, request, interrupt, deadline);
    if (!called) return prefixed(std::move(called).error(), "{}", where.text());
    std::array<std::byte, kLengthBytes> size_bytes{};
    GANTRY_TRY(receive_exactly(socket.get(), size_bytes, interrupt, deadline));
    const auto size = load_number(size_bytes.data(), kLengthBytes);
    if (size > kMostListingBytes) return no_listing();
    std::vector<std::byte> listing(static_cast<std::size_t>(size));
    GANTRY_TRY(receive_exactly(socket.get(), listing, interrupt, deadline));
    return decode_listing(listing);
  });
}

}  // namespace gantry
