#pragma once  // bench/link/subjects.hpp: the ways of handing a message to a process of another
              // host.

#include "../support/report/report.hpp"
#include "../support/trips/subject.hpp"
#include "network.hpp"

namespace gantry::bench {

inline constexpr unsigned kLinkInFlight = 4;  ///< Messages that may be unanswered at once.
inline constexpr const char* kStreamName = "gantry/stream";
inline constexpr const char* kStreamBlockName = "gantry/stream-block";
inline constexpr const char* kStreamPolledName = "gantry/stream-polled";
inline constexpr const char* kFabricName = "gantry/fabric-tcp";
inline constexpr const char* kTlsName = "gantry/stream-tls";
inline constexpr const char* kLinkPutName = "gantry/link-put";
inline constexpr const char* kIntoPlaceName = "limit/recv-into-place";
inline constexpr const char* kTcpPingPongName = "limit/tcp-ping-pong";
inline constexpr const char* kZeromqTcpName = "zeromq-tcp";
inline constexpr const char* kNngTcpName = "nng-tcp";
inline constexpr const char* kLibfabricTcpName = "libfabric-tcp";

// The network outlives what these give.
SubjectKind stream_channel(const Network& network);  ///< A channel by NAME@HOST, over a bridge.
/// The same; the message is a block of the channel's pool, which the producer changes and sends
/// again.
SubjectKind stream_channel_of_blocks(const Network& network);
/// The same as stream_channel(), with ends that poll all the time, as those of other systems do.
SubjectKind polled_channel(const Network& network);
/// The same as stream_channel(), over the path fabric; skipped where libfabric is not.
SubjectKind fabric_channel(const Network& network);
/// The same as stream_channel(), over TLS; skipped where OpenSSL is not.
SubjectKind encrypted_channel(const Network& network);
SubjectKind link_put(const Network& network);         ///< A bare link: put with a signal.
SubjectKind recv_into_place(const Network& network);  ///< Limit: a socket, a header, one buffer.
SubjectKind tcp_ping_pong(const Network& network);    ///< Limit: 64 B, both ends polling.

/// Those of Gantry and the limits, in the order of the tables, each end in its host.
[[nodiscard]] std::vector<SubjectKind> own_link_subjects(const Network& network);
/// Other systems over TCP, those that `wants` says; `report` gets their versions, and under
/// `skipped` those that were not built or do not start, with the reason.
[[nodiscard]] std::vector<SubjectKind> tcp_peers(
    const Network& network, Report& report, const std::function<bool(std::string_view)>& wants);
[[nodiscard]] std::vector<std::string> own_link_names();
[[nodiscard]] std::vector<std::string> tcp_peer_names();

}  // namespace gantry::bench
