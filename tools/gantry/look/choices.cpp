#include "look/choices.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "output.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

constexpr Bytes kKiB = Bytes{1} << 10;
constexpr Bytes kMiB = Bytes{1} << 20;
constexpr std::array<Bytes, 4> kSizes{4 * kKiB, kMiB, 16 * kMiB, 256 * kMiB};

std::string cache_text(CacheUse cache) {
  return cache == CacheUse::streaming ? "streaming" : "temporal";
}

}  // namespace

std::vector<ExplainedChoice> explained_choices(const Runtime& runtime) {
  const auto engine = runtime.engine("auto");
  if (!engine) return {};
  const auto lane = (*engine)->open_lane();
  if (!lane) return {};
  std::vector<ExplainedChoice> choices;
  for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
    for (const Bytes bytes : kSizes) {
      Move move;  // only examined, so it needs no memory
      move.bytes = bytes;
      move.resident = true;
      choices.push_back({bytes, use, (*lane)->explain(move, use)});
    }
  return choices;
}

json choices_json(const std::vector<ExplainedChoice>& choices) {
  json list = json::array();
  for (const ExplainedChoice& choice : choices) {
    const Explanation& said = choice.explanation;
    json candidates = json::array();
    for (const auto& candidate : said.candidates)
      candidates.push_back({{"engine", candidate.engine},
                            {"possible", candidate.possible},
                            {"predicted_ns", candidate.predicted.count()},
                            {"why", candidate.why}});
    list.push_back({{"bytes", choice.bytes},
                    {"use", to_string(choice.use)},
                    {"engine", to_string(said.engine)},
                    {"cache", cache_text(said.cache)},
                    {"waiting", to_string(said.waiting)},
                    {"predicted_ns", said.predicted.count()},
                    {"candidates", candidates},
                    {"reasons", said.reasons}});
  }
  return list;
}

std::string choices_text(const std::vector<ExplainedChoice>& choices) {
  Table table({{"A COPY OF", Table::Align::right},
               {"USE"},
               {"ENGINE"},
               {"STORES"},
               {"WAITING"},
               {"ABOUT", Table::Align::right},
               {"BECAUSE"}});
  for (const ExplainedChoice& choice : choices) {
    const Explanation& said = choice.explanation;
    table.add(
        {format_bytes(choice.bytes), std::string(to_string(choice.use)),
         std::string(to_string(said.engine)), cache_text(said.cache),
         said.waiting == WaitStrategy::automatic ? "help" : std::string(to_string(said.waiting)),
         format_time(said.predicted), said.reasons.empty() ? "" : said.reasons.front()});
  }
  return table.text();
}

}  // namespace gantry::cli
