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
  const bool is_suited = puller_ && puller_->suits(transfer.rows, transfer.row_bytes);
  const bool is_pulled_get = is_suited && puller_->has(transfer.remote.key);
  const bool is_pulled_put =
      is_suited && exports_.shared_place({transfer.local, *extent}).has_value();
  if (is_pulled_get) explanation.reasons.push_back("a get is pulled here: " + puller_->about());
  if (is_pulled_put)
    explanation.reasons.push_back("a put is pulled by the far end: " + puller_->about());
  if (puller_ && !is_pulled_get && !is_pulled_put)
    explanation.reasons.push_back(
        is_suited ? "takes the socket: the memory lies in no region that was exported for reading"
                  : "takes the socket: " + puller_->about());
  if (!is_pulled_get && !is_pulled_put)
    explanation.reasons.push_back(fmt::format(
        "received straight into its place, in pieces of up to {} bytes", kLinkPieceBytes));
  explanation.reasons.emplace_back("goes on while both ends call their link");
  return explanation;
}

}  // namespace gantry
