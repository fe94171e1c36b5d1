#include "rules.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

namespace layers {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPublicFolder = "include/gantry";
constexpr std::string_view kPublicPrefix = "gantry/";

/// Headers of the language have neither a folder nor an ending.
bool is_standard(std::string_view header) {
  return header.find_first_of("./") == header.npos;
}

/// Headers of the system: <unistd.h>, <sys/mman.h>.
bool is_system(std::string_view header) {
  constexpr std::array<std::string_view, 6> kFolders{"sys/",  "linux/", "netinet/",
                                                     "arpa/", "asm/",   "net/"};
  const auto begins = [&](std::string_view folder) { return header.starts_with(folder); };
  return header.ends_with(".h") &&
         (header.find('/') == header.npos || std::ranges::any_of(kFolders, begins));
}

/// Judges the includes of one file of a known room. An empty answer is a permission; any other is
/// the reason against.
class Judge {
 public:
  Judge(const Table& table, const std::vector<Source>& sources, const Source& source,
        const Room& room)
      : table_(table), sources_(sources), source_(source), room_(room) {}

  [[nodiscard]] std::string objection(const Include& include) const {
    if (include.quoted) return in_source_tree() ? about_private(include) : about_own(include);
    if (include.header.starts_with(kPublicPrefix)) return about_public(include);
    if (const auto* outside = table_.outside(include.header)) return about_outside(*outside);
    if (is_standard(include.header)) return {};
    if (is_public_header()) return "a public header includes only standard and gantry headers";
    if (is_system(include.header)) return {};
    return "not in the table of outside headers";
  }

 private:
  /// "room/x.hpp", from src/: its own folder's and those of the rooms it opens.
  [[nodiscard]] std::string about_private(const Include& include) const {
    const auto slash = include.header.rfind('/');
    if (slash == include.header.npos) return "write the room before the file: \"room/file.hpp\"";
    const auto* owner = table_.room_of_folder("src/" + include.header.substr(0, slash));
    if (owner == nullptr) return "no such room below src/";
    if (owner == &room_ || contains(room_.opens, owner->name())) return {};
    if (source_.is_test() && contains(room_.tests_open, owner->name())) return {};
    return room_.name() + " may not include private headers of " + owner->name();
  }

  /// Outside src/ a quoted name is a file of the same room, by whichever folder it is named.
  [[nodiscard]] std::string about_own(const Include& include) const {
    if (is_public_header()) return "a public header includes <gantry/...> with angle brackets";
    for (const auto& base : {source_.folder(), room_.path, std::string()}) {
      const auto path = (fs::path(base) / include.header).lexically_normal().generic_string();
      if (exists(path) && room_.holds(Source{path, {}}.folder())) return {};
    }
    return "not a file of " + room_.path;
  }

  [[nodiscard]] std::string about_public(const Include& include) const {
    const auto header = include.header.substr(kPublicPrefix.size());
    const auto* owner = table_.owner_of(header);
    if (owner == nullptr) return "no room of the table owns this header";
    if (owner == &room_ || contains(room_.sees, owner->name())) return {};
    return room_.name() + " may not see " + owner->name();
  }

  [[nodiscard]] std::string about_outside(const Outside& outside) const {
    if (contains(outside.rooms, Outside::kEverywhere)) return {};
    if (source_.is_test() && contains(outside.rooms, Outside::kTests)) return {};
    if (is_public_header() || !contains(outside.rooms, room_.name())) {
      return room_.name() + " may not include this outside header";
    }
    if (!in_source_tree() || !source_.is_header()) return {};
    if (contains(outside.rooms, Outside::kHeaders)) return {};
    return "this outside header belongs into a .cpp file";
  }

  [[nodiscard]] bool in_source_tree() const { return source_.path.starts_with("src/"); }
  [[nodiscard]] bool is_public_header() const { return source_.path.starts_with(kPublicFolder); }
  [[nodiscard]] bool exists(const std::string& path) const {
    return std::ranges::find(sources_, path, &Source::path) != sources_.end();
  }

  const Table& table_;
  const std::vector<Source>& sources_;
  const Source& source_;
  const Room& room_;
};

/// A public header belongs to the room that owns it, any other file to that of its folder.
const Room* room_of(const Table& table, const Source& source) {
  if (source.folder() != kPublicFolder) return table.room_of_folder(source.folder());
  return table.owner_of(source.path.substr(kPublicFolder.size() + 1));
}

void append(Words& words, Words more) {
  std::ranges::move(more, std::back_inserter(words));
}

}  // namespace

Words folders_without_a_room(const Table& table, const std::vector<Source>& sources) {
  Words violations;
  for (const auto& source : sources) {
    if (room_of(table, source) != nullptr) continue;
    violations.push_back(source.path + ": no row of docs/layers.md speaks of it");
  }
  return violations;
}

Words forbidden_includes(const Table& table, const std::vector<Source>& sources) {
  Words violations;
  for (const auto& source : sources) {
    const auto* room = room_of(table, source);
    if (room == nullptr) continue;
    const Judge judge(table, sources, source, *room);
    for (const auto& include : includes_of(source.text)) {
      const auto objection = judge.objection(include);
      if (objection.empty()) continue;
      violations.push_back(source.path + ":" + std::to_string(include.line) + ": " +
                           include.header + ": " + objection);
    }
  }
  return violations;
}

Words oversized(const std::vector<Source>& sources) {
  Words violations;
  for (const auto& source : sources) {
    if (source.lines() > kFileLines) {
      violations.push_back(source.path + ": " + std::to_string(source.lines()) +
                           " lines; a file has at most " + std::to_string(kFileLines));
    }
    for (const auto& function : functions_of(source.text)) {
      if (function.lines <= kFunctionLines) continue;
      violations.push_back(source.path + ":" + std::to_string(function.line) + ": a function of " +
                           std::to_string(function.lines) + " lines; at most " +
                           std::to_string(kFunctionLines));
    }
  }
  return violations;
}

Words check_tree(const std::string& root) {
  Words violations;
  const auto page = (fs::path(root) / "docs/layers.md").string();
  const auto table = parse_table(read_file(page), violations);
  const auto sources = read_tree(root, {"src", "include", "tools", "bench", "examples"});
  append(violations, folders_without_a_room(table, sources));
  append(violations, forbidden_includes(table, sources));
  append(violations, oversized(sources));
  append(violations, oversized(read_tree(root, {"tests"})));
  return violations;
}

}  // namespace layers
