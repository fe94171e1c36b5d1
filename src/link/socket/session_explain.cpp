#include "base/result.hpp"
#include "link/socket/session.hpp"

namespace gantry {

LinkExplanation SocketSession::explain(const Transfer& transfer) const {
  const std::lock_guard lock(mutex_);
  LinkExplanation explanation;
  explanation.kind = kind();
  explanation.peer = peer_;
  const auto bytes = payload_of(transfer.rows, transfer.row_bytes);
  const auto extent = extent_of(transfer.rows, transfer.row_bytes, transfer.local_stride);
  if (failure_) explanation.reasons.push_back(failure_->message);
  if (!bytes || !extent) {
    explanation.reasons.emplace_back("its rows overlap, or are more than memory has");
    return explanation;
  }
  explanation.predicted = transfers_.cost().of(*bytes);
  const bool is_mapped_get = copies_ && copies_->has(transfer.remote.key);
  const bool is_mapped_put =
      copies_ && exports_.shared_place({transfer.local, *extent}).has_value();
  if (is_mapped_get)
    explanation.reasons.push_back(
        fmt::format("a get is copied here by engine {}, out of the far end's region",
                    copies_->engine().name()));
  if (is_mapped_put)
    explanation.reasons.emplace_back(
        "a put is copied by the far end's engine, out of the region that it maps");
  if (copies_ && !is_mapped_get && !is_mapped_put)
    explanation.reasons.emplace_back(
        "takes the socket: the memory lies in no region that was exported whole for reading");
  if (!is_mapped_get && !is_mapped_put)
    explanation.reasons.push_back(fmt::format(
        "received straight into its place, in pieces of up to {} bytes", kLinkPieceBytes));
  explanation.reasons.emplace_back("goes on while both ends call their link");
  return explanation;
}

}  // namespace gantry
