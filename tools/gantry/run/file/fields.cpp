#include "run/file/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/command_line/suggest.hpp"

namespace gantry::run {

std::string Fields::qualified(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

Error Fields::error(std::string_view key, Position at, std::string_view why,
                    std::string hint) const {
  return source_->error(at, qualified(key), why, std::move(hint));
}

Error Fields::missing(std::string_view key, std::string hint) const {
  return error(key, at_, "is missing", std::move(hint));
}

Error Fields::wrong_type(const Entry& entry, std::string_view wanted) const {
  return error(entry.key, entry.value.at,
               fmt::format("is {}, not {}", to_string(entry.value.kind), wanted));
}

bool Fields::allow_only(const std::vector<std::string>& known, Mistakes& mistakes) const {
  bool all_known = true;
  for (const Entry& entry : table_->entries)
    if (std::ranges::count(known, entry.key) == 0)
      all_known = mistakes.note<void>(tl::unexpected(
          error(entry.key, entry.at, "unknown key", cli::suggest(entry.key, known))));
  return all_known;
}

const Entry* Fields::find(std::string_view key) const noexcept {
  const auto found = std::ranges::find(table_->entries, key, &Entry::key);
  return found == table_->entries.end() ? nullptr : &*found;
}

Result<const Entry*> Fields::find(std::string_view key, Node::Kind kind) const {
  const Entry* entry = find(key);
  if (entry != nullptr && entry->value.kind != kind)
    return tl::unexpected(wrong_type(*entry, to_string(kind)));
  return entry;
}

Result<Text> Fields::text(std::string_view key) const {
  const Result<const Entry*> entry = find(key, Node::Kind::string);
  if (!entry) return tl::unexpected(entry.error());
  if (*entry == nullptr) return tl::unexpected(missing(key, fmt::format("add {} = \"...\"", key)));
  return Text{(*entry)->value.text, (*entry)->value.at};
}

Result<unsigned> Fields::number(std::string_view key, unsigned least, unsigned most,
                                unsigned otherwise) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) return otherwise;
  const Node& value = entry->value;
  if (value.kind != Node::Kind::integer) {
    const std::string observed = value.is_scalar() ? fmt::format(" ('{}')", value.text) : "";
    return tl::unexpected(error(key, value.at,
                                fmt::format("is {}{}, not a whole number from {} to {}",
                                            to_string(value.kind), observed, least, most)));
  }
  if (value.integer < least || value.integer > most)
    return tl::unexpected(
        error(key, value.at, fmt::format("{} is not within {} and {}", value.text, least, most)));
  return static_cast<unsigned>(value.integer);
}

Result<std::vector<Text>> Fields::texts(std::string_view key) const {
  const std::string hint = fmt::format("write {} = [\"program\", \"argument\"]", key);
  const Result<const Entry*> entry = find(key, Node::Kind::array);
  if (!entry) return tl::unexpected(entry.error());
  if (*entry == nullptr) return tl::unexpected(missing(key, hint));
  std::vector<Text> result;
  for (const Entry& item : (*entry)->value.entries) {
    if (item.value.kind != Node::Kind::string)
      return tl::unexpected(error(key, item.value.at,
                                  fmt::format("holds {}, not a string", to_string(item.value.kind)),
                                  "put it in quotes"));
    result.push_back({item.value.text, item.value.at});
  }
  if (result.empty()) return tl::unexpected(error(key, (*entry)->value.at, "is empty", hint));
  return result;
}

}  // namespace gantry::run
