#include "settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../peers/built.hpp"
#include "../peers/list.hpp"
#include "../support/program/choices.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const SubjectKind& kind : own_subjects(true)) names.push_back(kind.name);
  for (std::string& name : peer_names()) names.push_back(std::move(name));
  return names;
}

Result<std::vector<std::string>> parse_subjects(const std::string& text) {
  return named_subjects(text, all_names());
}

/// "usual" is nothing: what that means depends on other options.
Result<std::vector<std::string>> parse_questions(const std::string& text) {
  if (text == "usual") return std::vector<std::string>{};
  return chosen(text, "case", {kQuestions.begin(), kQuestions.end()});
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times a message's way to another process, its being read there and the answer, over "
          "Gantry, plain shared memory, a pipe and a Unix socket, next to the machine's limits; "
          "with --peers over other systems, too.",
      .notes = fmt::format(
          "All processes of a subject are pinned to different cores, as far as there are any. "
          "Ends\n"
          "of Gantry poll for {} us before they sleep, as those of the hand-made shared memory\n"
          "poll all the time. All words of a payload are written anew before each trip, by the "
          "end\n"
          "that sends it. That and filling a loan are outside the timed part, reading the payload\n"
          "whole is inside. With several in flight, where filling could not be kept outside, "
          "three\n"
          "words are written anew. Usual cases: latency; with --peers all.\n\n"
          "Example: gantry bench ipc --sizes 64,1M,128M --rounds 5 --json > ipc.json\n"
          "Example: gantry bench ipc --peers --plot ipc.svg\n"
          "Example: gantry bench ipc --subjects gantry,openmpi --cases in-flight --sizes 1M",
          kGantrySpin.count()),
      .sizes = "64,1K,16K,64K,256K,1M,4M,16M,64M,128M",
      .quick_sizes = "64,64K,1M,16M",
      .peer_sizes = "64,4K,64K,1M,16M,128M",
      .full_sizes = "64,4K,64K,1M,16M,128M,1G",
      .has_peers = true,
      .own = {option_into(settings.questions, "--cases",
                          fmt::format("Of {}; usual: latency, or all with --peers",
                                      fmt::join(kQuestions, ", ")),
                          "usual", "usual", parse_questions),
              option_into(settings.subjects, "--subjects",
                          "Subjects or families of them: gantry,openmpi/cma", "all", "all",
                          parse_subjects),
              peers_path_option()},
      .flags = {{"--kept-payload",
                 "Change only three words of a payload between trips, so that who copies from the "
                 "sender's own memory finds it in the reader's cache",
                 &settings.keeps_payload},
                {"--instructions",
                 "Instead of all that: what the sender's thread executes to hand a message over, "
                 "by callgrind",
                 &settings.counts_instructions}}};
}

bool Settings::asks(std::string_view question) const noexcept {
  if (questions.empty()) return question == kLatency || common.peers;
  return std::find(questions.begin(), questions.end(), question) != questions.end();
}

bool Settings::wants(std::string_view subject) const noexcept {
  if (subjects.empty()) return subject != kTracedName;
  return std::any_of(subjects.begin(), subjects.end(),
                     [&](const std::string& word) { return names_subject(word, subject); });
}

bool Settings::wants_peers() const noexcept {
  const auto names = peer_names();
  return common.peers ||
         (!subjects.empty() && std::any_of(names.begin(), names.end(),
                                           [&](const std::string& name) { return wants(name); }));
}

}  // namespace gantry::bench
