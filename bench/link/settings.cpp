#include "settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../peers/built.hpp"
#include "../support/program/choices.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kBetween = Bytes{1} << 20;  // the largest round trip and the smallest of many

Result<std::vector<std::string>> parse_questions(const std::string& text) {
  if (text == "usual") return std::vector<std::string>{};
  return chosen(text, "case", {kLinkQuestions.begin(), kLinkQuestions.end()});
}

Result<std::vector<std::string>> parse_subjects(const std::string& text) {
  std::vector<std::string> known = own_link_names();
  for (std::string& name : tcp_peer_names()) known.push_back(std::move(name));
  return named_subjects(text, known);
}

Result<std::vector<Rate>> parse_rates(const std::string& text) {
  std::vector<Rate> rates;
  for (const std::string& word : words_of(text)) {
    auto rate = parse_rate(word);
    if (!rate) return Unexpected(rate.error());
    rates.push_back(std::move(*rate));
  }
  return rates;
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times a message's way to a process of another host, its being read there and the "
          "answer, over Gantry's channels and links, next to what a TCP socket allows; with "
          "--peers over other systems, too. The hosts are two network namespaces of this machine.",
      .notes =
          "Namespaces need root and iproute2; else all runs over loopback, and the report says "
          "so.\n"
          "Rates are limited by tc, and skipped where that fails. All processes of a subject are\n"
          "pinned. All words of a payload are written anew before each round trip, three words\n"
          "where several are in flight. Filling is outside the timed part; those words and "
          "reading\n"
          "the payload whole are inside. Usual cases: round-trip of sizes up to 1 MiB, throughput\n"
          "from 1 MiB on; a case\n"
          "that is named takes all sizes.\n\n"
          "Example: gantry bench link --peers --rates unlimited,10G --json > link.json\n"
          "Example: gantry bench link --subjects gantry,limit --cases throughput --sizes 16M",
      .sizes = "64,4K,64K,1M,16M,64M",
      .quick_sizes = "64,64K,1M,16M",
      .rounds = 5,
      .has_peers = true,
      .own = {option_into(settings.rates, "--rates",
                          "What the wire lets pass, in bits a second: unlimited, 10G, 500M",
                          "unlimited,10G,1G", "unlimited,10G", parse_rates),
              option_into(settings.questions, "--cases",
                          fmt::format("Of {}", fmt::join(kLinkQuestions, ", ")), "usual", "usual",
                          parse_questions),
              option_into(settings.subjects, "--subjects",
                          "Subjects or families of them: gantry,zeromq-tcp", "all", "all",
                          parse_subjects),
              peers_path_option()},
      .flags = {{"--loopback", "Make no namespaces: everything over loopback",
                 &settings.stays_on_loopback}}};
}

bool Settings::asks(std::string_view question, Bytes bytes) const noexcept {
  if (questions.empty()) return question == kRoundTrip ? bytes <= kBetween : bytes >= kBetween;
  return std::find(questions.begin(), questions.end(), question) != questions.end();
}

bool Settings::wants(std::string_view subject) const noexcept {
  return subjects.empty() ||
         std::any_of(subjects.begin(), subjects.end(),
                     [&](const std::string& word) { return names_subject(word, subject); });
}

bool Settings::wants_peers() const noexcept {
  const auto names = tcp_peer_names();
  return common.peers ||
         (!subjects.empty() && std::any_of(names.begin(), names.end(),
                                           [&](const std::string& name) { return wants(name); }));
}

}  // namespace gantry::bench
