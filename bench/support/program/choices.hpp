#pragma once  // bench/support/program/choices.hpp: options whose values are words of a known list.

#include "options.hpp"

namespace gantry::bench {

/// The words between the commas of `text`, each once, in their order.
[[nodiscard]] std::vector<std::string> words_of(std::string_view text);

/// `text`'s words, each one of `known`; "all": those. `what` names one of them: "pattern".
[[nodiscard]] Result<std::vector<std::string>> chosen(const std::string& text,
                                                      std::string_view what,
                                                      const std::vector<std::string>& known);

/// Whether a word means that subject: its name, or its family, which stands before the slash.
[[nodiscard]] bool names_subject(std::string_view word, std::string_view subject);
/// `text`'s words, each meaning some of `known`; "all": none, which means all. `what` names one.
[[nodiscard]] Result<std::vector<std::string>> named_subjects(const std::string& text,
                                                              const std::vector<std::string>& known,
                                                              std::string_view what = "subject");

/// An option that puts what `parse` makes of its text into `place`, which outlives it.
template <class Value, class Parse>
[[nodiscard]] OwnOption option_into(Value& place, std::string name, std::string help,
                                    std::string value, std::string quick_value,
                                    const Parse& parse) {
  return {std::move(name), std::move(help), std::move(value), std::move(quick_value),
          [&place, parse](const std::string& text) -> Result<void> {
            auto parsed = parse(text);
            if (!parsed) return Unexpected(parsed.error());
            place = std::move(*parsed);
            return {};
          }};
}

/// An option that puts words of a known list into `place`; `name` is "--patterns", `what` one of
/// them; all of them by default.
[[nodiscard]] OwnOption choice_into(std::vector<std::string>& place, std::string name,
                                    std::string_view what, const std::vector<std::string>& known);

}  // namespace gantry::bench
