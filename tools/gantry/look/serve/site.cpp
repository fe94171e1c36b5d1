#include "look/serve/site.hpp"

#include <fmt/format.h>

#include <cmath>
#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>

#include "look/serve/metrics_text.hpp"
#include "page/assets.hpp"
#include "rank_view.hpp"
#include "tools/status/channel_json.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kJson = "application/json";

std::int64_t ms_since(Clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - when).count();
}

HttpResponse refusal(int status, std::string why, std::string_view header = {}) {
  return {.status = status, .body = std::move(why) + "\n", .header = header};
}

}  // namespace

json status_json(const Snapshot& snapshot, const std::string& directory) {
  json channels = json::array();
  for (const Row& row : snapshot.rows) {
    channels.push_back(to_json(row.channel));
    channels.back()["messages_per_second"] = row.is_known ? json(row.messages_per_s) : json();
    channels.back()["bytes_per_second"] = row.is_known ? json(row.bytes_per_s) : json();
  }
  json gone = json::array();
  for (const Gone& one : snapshot.gone)
    gone.push_back({{"where", one.where},
                    {"role", one.role},
                    {"pid", one.pid},
                    {"name", one.name},
                    {"last", one.last},
                    {"ago_ms", ms_since(one.when)}});
  return {{"version", version()},
          {"directory", directory},
          {"host", own_end_name().host},
          {"look", snapshot.number},
          {"look_ns", snapshot.took.count()},
          {"error", snapshot.error},
          {"handoff_bounds_ns", ConsumerStatus::kHandoffBoundsNs},
          {"channels", channels},
          {"ranks", to_json(snapshot.ranks)},
          {"gone", gone}};
}

json history_json(const std::vector<Moment>& moments) {
  json list = json::array();
  for (const Moment& moment : moments)
    list.push_back({ms_since(moment.when), std::round(moment.messages_per_s * 10) / 10,
                    std::round(moment.bytes_per_s), moment.depth});
  return list;
}

HttpResponse Site::answer(const HttpRequest& request) {
  if (!token_.empty() && !knows_token(request.authorization, token_))
    return refusal(401, "the token of --token-file is needed: as a password, whatever the user",
                   "WWW-Authenticate: Basic realm=\"gantry\"");
  if (token_.empty() && request.host && !is_plain_host(*request.host))
    return refusal(421, "call this host by its address, or as localhost");
  if (request.method != "GET" && request.method != "HEAD")
    return refusal(405, "only GET and HEAD are answered", "Allow: GET, HEAD");
  for (const Asset& asset : kAssets)
    if (asset.path == request.path) return {.type = asset.type, .body = std::string(asset.text)};
  if (request.path == "/metrics") return metrics(request);
  if (request.path == "/status.json") return {.type = kJson, .body = status()};
  if (request.path == "/history.json") {
    constexpr std::string_view kChannel = "channel=";
    const bool is_one = request.query.starts_with(kChannel);
    const std::string name = is_one ? request.query.substr(kChannel.size()) : "";
    return {.type = kJson, .body = dump(history_json(collector_.history(name)), -1)};
  }
  return refusal(404, "there are /, /metrics, /status.json and /history.json[?channel=NAME]");
}

void Site::look_anew() {
  auto newest = collector_.newest();
  if (newest == snapshot_) return;
  snapshot_ = std::move(newest);
  status_.clear();
  metrics_.clear();
  open_metrics_.clear();
}

const std::string& Site::status() {
  look_anew();
  if (status_.empty()) status_ = dump(status_json(*snapshot_, directory_), -1);
  return status_;
}

HttpResponse Site::metrics(const HttpRequest& request) {
  if (!kHasMetrics) return refusal(501, std::string(kNoMetrics));
  look_anew();
  const bool is_open = request.accept.find("application/openmetrics-text") != std::string::npos;
  std::string& text = is_open ? open_metrics_ : metrics_;
  if (text.empty())
    text = is_open ? as_open_metrics(metrics_text(*snapshot_)) : metrics_text(*snapshot_);
  return {.type = is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                          : "text/plain; version=0.0.4; charset=utf-8",
          .body = text};
}

}  // namespace gantry::cli
