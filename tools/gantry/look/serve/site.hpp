#pragma once  // tools/gantry/look/serve/site.hpp: what is answered to which request.

#include <nlohmann/json_fwd.hpp>

#include "look/serve/collector.hpp"
#include "look/serve/http.hpp"

namespace gantry::cli {

/// What the page is told: everything a look found.
[[nodiscard]] nlohmann::json status_json(const Snapshot& snapshot, const std::string& directory);
/// [age in ms, messages/s, bytes/s, depth] of each moment, the oldest first.
[[nodiscard]] nlohmann::json history_json(const std::vector<Moment>& moments);

/// The page, what it asks for, and the metrics. For one thread.
class Site {
 public:
  /// `token` empty: no caller needs one, but its request must name this host by an address or as
  /// "localhost".
  Site(const Collector& collector, std::string directory, std::string token)
      : collector_(collector), directory_(std::move(directory)), token_(std::move(token)) {}

  [[nodiscard]] HttpResponse answer(const HttpRequest& request);

 private:
  HttpResponse metrics(const HttpRequest& request);
  const std::string& status();
  void look_anew();

  const Collector& collector_;
  const std::string directory_;
  const std::string token_;
  // Texts are made of the newest look when somebody asks, and once.
  std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
  std::string status_;
  std::string metrics_;
  std::string open_metrics_;
};

}  // namespace gantry::cli
