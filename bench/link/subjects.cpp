#include "subjects.hpp"

#include "placed.hpp"

namespace gantry::bench {

std::vector<SubjectKind> own_link_subjects(const Network& network) {
  std::vector<SubjectKind> all;
  for (const auto& make : {stream_channel, stream_channel_of_blocks, polled_channel, fabric_channel,
                           encrypted_channel, link_put, recv_into_place, tcp_ping_pong})
    all.push_back(placed(make(network), network));
  return all;
}

std::vector<std::string> own_link_names() {
  return {kStreamName, kStreamBlockName, kStreamPolledName, kFabricName,
          kTlsName,    kLinkPutName,     kIntoPlaceName,    kTcpPingPongName};
}

}  // namespace gantry::bench
