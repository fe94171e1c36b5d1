// The text by which a launcher tells a stage its ends:
//   1;CHANNEL:out:TRANSPORT:SLOTS:BUDGET:ADDRESS@METRICS,ADDRESS@METRICS;CHANNEL:in:...
// An output that converts has its `as` behind the links: ...ADDRESS@METRICS:AS. "1" is the version.
// Names and addresses have %XX for all but letters, digits and "._-/".
#include <algorithm>
#include <array>
#include <cstdlib>
#include <gantry/stage.hpp>
#include <limits>

#include "core/base/text_lines.hpp"

namespace gantry {
namespace {

constexpr std::string_view kVersion = "1";
constexpr unsigned kMostSlots = 64;
constexpr std::size_t kFieldsPerEnd = 6;  // and one more with `as`

// ---- single words --------------------------------------------------------------------------

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/';
}

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (is_plain(c))
      escaped += c;
    else
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

tl::unexpected<Error> wrong(std::string_view what, std::string_view text) {
  constexpr std::size_t kShown = 60;  // the text may be anything, of any length
  return fail(
      Code::invalid_argument,
      fmt::format("{}: {} in '{}'", kStageEndpointsVariable, what, escape(text.substr(0, kShown))),
      "only `gantry run` sets it: do not change it");
}

template <class Number>
Result<Number> parse_number(std::string_view text, Number low, Number high, int base = 10) {
  const auto value = number_in<Number>(text, base);
  if (!value || *value < low || *value > high)
    return wrong(fmt::format("not a number from {} to {}", low, high), text);
  return *value;
}

Result<std::string> unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (text.size() - i < 3) return wrong("an unfinished %XX", text);
      GANTRY_ASSIGN(const unsigned code, parse_number<unsigned>(text.substr(i + 1, 2), 0, 255, 16));
      plain += static_cast<char>(code);
      i += 2;
    } else if (is_plain(text[i])) {
      plain += text[i];
    } else {
      return wrong("an unexpected character", text);
    }
  }
  if (plain.empty()) return wrong("an empty word", text);
  return plain;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// ---- ends ----------------------------------------------------------------------------------

Result<bool> parse_direction(std::string_view text) {
  if (text == "in" || text == "out") return text == "out";
  return wrong("neither in nor out", text);
}

Result<StageEndpoint::Link> parse_link(std::string_view text) {
  const auto parts = split(text, '@');
  if (parts.size() != 2) return wrong("not ADDRESS@DESCRIPTOR", text);
  StageEndpoint::Link link;
  GANTRY_ASSIGN(link.address, unescape(parts[0]));
  GANTRY_ASSIGN(link.metrics_descriptor,
                parse_number<int>(parts[1], -1, std::numeric_limits<int>::max()));
  return link;
}

Result<StageEndpoint> parse_end(std::string_view text) {
  const auto fields = split(text, ':');
  if (fields.size() != kFieldsPerEnd && fields.size() != kFieldsPerEnd + 1)
    return wrong("not six or seven fields", text);
  StageEndpoint end;
  GANTRY_ASSIGN(end.channel, unescape(fields[0]));
  GANTRY_ASSIGN(end.output, parse_direction(fields[1]));
  const auto transport = parse_transport(fields[2]);
  if (!transport) return wrong("an unknown transport", fields[2]);
  end.transport = *transport;
  GANTRY_ASSIGN(end.slots, parse_number<unsigned>(fields[3], 1, kMostSlots));
  GANTRY_ASSIGN(end.budget_bytes,
                parse_number<Bytes>(fields[4], 0, std::numeric_limits<Bytes>::max()));
  for (const auto link : split(fields[5], ',')) {
    GANTRY_ASSIGN(auto parsed, parse_link(link));
    end.links.push_back(std::move(parsed));
  }
  if (fields.size() == kFieldsPerEnd) return end;
  GANTRY_ASSIGN(end.as, unescape(fields.back()));
  if (!end.output || !As::parse(end.as)) return wrong("no conversion of an output", fields.back());
  return end;
}

std::string encode_end(const StageEndpoint& end) {
  std::string links;
  for (const auto& link : end.links)
    links += fmt::format("{}{}@{}", links.empty() ? "" : ",", escape(link.address),
                         link.metrics_descriptor);
  const std::string as = end.as.empty() ? "" : ":" + escape(end.as);
  return fmt::format("{}:{}:{}:{}:{}:{}{}", escape(end.channel), end.output ? "out" : "in",
                     to_string(end.transport), end.slots, end.budget_bytes, links, as);
}

}  // namespace

std::string encode_stage_endpoints(std::span<const StageEndpoint> ends) {
  std::string text(kVersion);
  for (const auto& end : ends) text.append(1, ';').append(encode_end(end));
  return text;
}

Result<std::vector<StageEndpoint>> decode_stage_endpoints(std::string_view text) {
  auto parts = split(text, ';');
  if (parts.front() != kVersion)
    return wrong("not version 1: the stage's library and `gantry run` do not belong together",
                 text);
  std::vector<StageEndpoint> ends;
  for (const auto part : std::span(parts).subspan(1)) {
    GANTRY_ASSIGN(auto end, parse_end(part));
    const auto is_same = [&](const StageEndpoint& other) {
      return other.channel == end.channel && other.output == end.output;
    };
    if (std::ranges::any_of(ends, is_same)) return wrong("an end twice", part);
    ends.push_back(std::move(end));
  }
  return ends;
}

Result<std::vector<StageEndpoint>> own_stage_endpoints() {
  const char* text = std::getenv(kStageEndpointsVariable);
  if (text == nullptr) return std::vector<StageEndpoint>{};
  return decode_stage_endpoints(text);
}

namespace {

struct TransportFacts {
  Transport transport;
  std::string_view name;
  std::string_view runs_on;
};

constexpr std::array kTransports{
    TransportFacts{Transport::gantry, "gantry", "shared memory, no copy on receipt"},
    TransportFacts{Transport::pipe, "pipe", "the kernel copies in and out"}};

}  // namespace

std::string_view to_string(Transport transport) noexcept {
  const auto* const facts = std::ranges::find(kTransports, transport, &TransportFacts::transport);
  return facts == kTransports.end() ? "?" : facts->name;
}

Result<Transport> parse_transport(std::string_view text) {
  const auto* const facts = std::ranges::find(kTransports, text, &TransportFacts::name);
  if (facts != kTransports.end()) return facts->transport;
  return fail(Code::invalid_argument,
              fmt::format("transport '{}': there is none of that name", text),
              "the transports are gantry and pipe");
}

std::vector<EngineStatus> transports() {
  std::vector<EngineStatus> statuses;
  for (const auto& facts : kTransports)
    statuses.push_back({std::string(facts.name), true, std::string(facts.runs_on), {}});
  return statuses;
}

}  // namespace gantry
