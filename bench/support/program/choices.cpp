#include "choices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gantry::bench {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const std::string word(text.substr(begin, comma - begin));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    begin = comma + 1;
  }
  return words;
}

Result<std::vector<std::string>> chosen(const std::string& text, std::string_view what,
                                        const std::vector<std::string>& known) {
  if (text == "all") return known;
  auto words = words_of(text);
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    return Unexpected({Code::invalid_argument, fmt::format("there is no {} '{}'", what, word),
                       fmt::format("there are: {}", fmt::join(known, ", "))});
  }
  return words;
}

bool names_subject(std::string_view word, std::string_view subject) {
  return word == subject || word == subject.substr(0, subject.find('/'));
}

Result<std::vector<std::string>> named_subjects(const std::string& text,
                                                const std::vector<std::string>& known,
                                                std::string_view what) {
  if (text == "all") return std::vector<std::string>{};
  auto words = words_of(text);
  for (const std::string& word : words) {
    const auto meant = [&](const std::string& name) { return names_subject(word, name); };
    if (std::any_of(known.begin(), known.end(), meant)) continue;
    return Unexpected({Code::invalid_argument, fmt::format("there is no {} '{}'", what, word),
                       fmt::format("there are: {}", fmt::join(known, ", "))});
  }
  return words;
}

OwnOption choice_into(std::vector<std::string>& place, std::string name, std::string_view what,
                      const std::vector<std::string>& known) {
  return option_into(place, std::move(name), fmt::format("Of {}", fmt::join(known, ", ")), "all",
                     "all", [what = std::string(what), known](const std::string& text) {
                       return chosen(text, what, known);
                     });
}

}  // namespace gantry::bench
