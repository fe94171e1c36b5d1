#include "rules.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

namespace layers {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPublicFolder = "include/gantry";
constexpr std::string_view kPublicPrefix = "gantry/";

/// Headers of the language have neither a folder nor an ending.
bool is_standard(std::string_view header) {
  return header.find_first_of("./") == header.npos;
}

/// Headers of C, which a public header for C includes.
bool is_of_c(std::string_view header) {
  constexpr std::array<std::string_view, 2> kHeaders{"stddef.h", "stdint.h"};
  return std::ranges::find(kHeaders, header) != kHeaders.end();
}

/// Headers of the system: <unistd.h>, <sys/mman.h>.
bool is_system(std::string_view header) {
  constexpr std::array<std::string_view, 6> kFolders{"sys/",  "linux/", "netinet/",
                                                     "arpa/", "asm/",   "net/"};
  const auto begins = [&](std::string_view folder) { return header.starts_with(folder); };
  return header.ends_with(".h") &&
         (header.find('/') == header.npos || std::ranges::any_of(kFolders, begins));
}

/// Judges the includes of one file of a known module. An empty answer is a permission; any other is
/// the reason against.
class Judge {
 public:
  Judge(const Table& table, const std::vector<Source>& sources, const Source& source,
        const Module& module)
      : table_(table), sources_(sources), source_(source), module_(module) {}

  [[nodiscard]] std::string objection(const Include& include) const {
    if (include.quoted) return in_source_tree() ? about_private(include) : about_own(include);
    if (include.header.starts_with(kPublicPrefix)) return about_public(include);
    if (const auto* outside = table_.outside(include.header)) return about_outside(*outside);
    if (is_standard(include.header)) return {};
    if (is_public_header() && source_.path.ends_with(".h") && is_of_c(include.header)) return {};
    if (is_public_header()) return "a public header includes only standard and gantry headers";
    if (is_system(include.header)) return {};
    return "not in the table of outside headers";
  }

 private:
  /// "module/x.hpp", from src/: its own folder's and those of the modules it opens.
  [[nodiscard]] std::string about_private(const Include& include) const {
    if (source_.is_test() && include.header.starts_with("support/")) return {};  // tests/support
    const auto slash = include.header.rfind('/');
    if (slash == include.header.npos)
      return "write the module before the file: \"module/file.hpp\"";
    const auto* owner = table_.module_of_folder("src/" + include.header.substr(0, slash));
    if (owner == nullptr) return "no such module below src/";
    if (owner == &module_ || contains(module_.opens, owner->name())) return {};
    if (source_.is_test() && contains(module_.tests_open, owner->name())) return {};
    return module_.name() + " may not include private headers of " + owner->name();
  }

  /// Outside src/ a quoted name is a file of the same module or of one that it opens, named from a
  /// folder around the source.
  [[nodiscard]] std::string about_own(const Include& include) const {
    if (is_public_header()) return "a public header includes <gantry/...> with angle brackets";
    for (fs::path base = source_.folder();; base = base.parent_path()) {
      const auto path = (base / include.header).lexically_normal().generic_string();
      const auto* owner =
          exists(path) ? table_.module_of_folder(Source{path, {}}.folder()) : nullptr;
      if (owner == &module_) return {};
      if (owner != nullptr && contains(module_.opens, owner->name())) return {};
      if (base.empty()) break;
    }
    return "not a file of " + module_.path + ", nor of one that it opens";
  }

  [[nodiscard]] std::string about_public(const Include& include) const {
    const auto header = include.header.substr(kPublicPrefix.size());
    const auto* owner = table_.owner_of(header);
    if (owner == nullptr) return "no module of the table owns this header";
    if (owner == &module_ || contains(module_.sees, owner->name())) return {};
    if (source_.is_test() && contains(module_.tests_open, owner->name())) return {};
    return module_.name() + " may not see " + owner->name();
  }

  [[nodiscard]] std::string about_outside(const Outside& outside) const {
    if (contains(outside.modules, Outside::kEverywhere)) return {};
    if (source_.is_test() && contains(outside.modules, Outside::kTests)) return {};
    if (is_public_header() || !speaks_of(outside)) {
      return module_.name() + " may not include this outside header";
    }
    if (!in_source_tree() || !source_.is_header()) return {};
    if (contains(outside.modules, Outside::kHeaders)) return {};
    return "this outside header belongs into a .cpp file";
  }

  /// Whether it names the module, or one that is written `path/**` and has it below it.
  [[nodiscard]] bool speaks_of(const Outside& outside) const {
    return std::ranges::any_of(table_.modules, [&](const Module& one) {
      return contains(outside.modules, one.name()) &&
             (&one == &module_ || (one.with_subfolders && one.holds(module_.path)));
    });
  }
  [[nodiscard]] bool in_source_tree() const { return source_.path.starts_with("src/"); }
  [[nodiscard]] bool is_public_header() const { return source_.path.starts_with(kPublicFolder); }
  [[nodiscard]] bool exists(const std::string& path) const {
    return std::ranges::find(sources_, path, &Source::path) != sources_.end();
  }

  const Table& table_;
  const std::vector<Source>& sources_;
  const Source& source_;
  const Module& module_;
};

/// A public header belongs to the module that owns it, any other file to that of its folder.
const Module* module_of(const Table& table, const Source& source) {
  if (!source.path.starts_with(kPublicFolder)) return table.module_of_folder(source.folder());
  return table.owner_of(source.path.substr(kPublicFolder.size() + 1));
}

void append(Words& words, Words more) {
  std::ranges::move(more, std::back_inserter(words));
}

}  // namespace

namespace {

/// What one module may include of others, and the verb for it.
struct Edge {
  Words Module::* below;
  const char* verb;
};

/// The modules that an edge leads to from `name`, from one to the next, until one comes again: that
/// is a cycle, told as the way round.
void find_cycles(const Table& table, const Edge& edge, const std::string& name, Words& way,
                 Words& violations) {
  if (const auto begin = std::ranges::find(way, name); begin != way.end()) {
    std::string text;
    for (auto at = begin; at != way.end(); ++at) text += *at + " -> ";
    if (*begin == *std::min_element(begin, way.end()))  // each once
      violations.push_back(std::string("docs/layers.md: modules ") + edge.verb +
                           " each other in a circle: " + text + name);
    return;
  }
  const auto module =
      std::ranges::find_if(table.modules, [&](const Module& m) { return m.name() == name; });
  if (module == table.modules.end()) return;
  way.push_back(name);
  for (const auto& below : (*module).*(edge.below))
    if (below != name) find_cycles(table, edge, below, way, violations);
  way.pop_back();
}

}  // namespace

Words cycles(const Table& table) {
  Words violations;
  for (const Edge& edge : {Edge{&Module::opens, "open"}, Edge{&Module::sees, "see"}})
    for (const Module& module : table.modules) {
      Words way;
      find_cycles(table, edge, module.name(), way, violations);
    }
  std::ranges::sort(violations);
  const auto again = std::ranges::unique(violations);
  violations.erase(again.begin(), again.end());
  return violations;
}

Words folders_without_a_module(const Table& table, const std::vector<Source>& sources) {
  Words violations;
  for (const auto& source : sources) {
    if (module_of(table, source) != nullptr) continue;
    violations.push_back(source.path + ": no row of docs/layers.md speaks of it");
  }
  return violations;
}

Words forbidden_includes(const Table& table, const std::vector<Source>& sources) {
  Words violations;
  for (const auto& source : sources) {
    const auto* module = module_of(table, source);
    if (module == nullptr) continue;
    const Judge judge(table, sources, source, *module);
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
    const auto most = source.path.starts_with(kPublicFolder) ? kPublicHeaderLines : kFileLines;
    if (source.lines() > most) {
      violations.push_back(source.path + ": " + std::to_string(source.lines()) +
                           " lines; a file has at most " + std::to_string(most));
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

Words crowded(std::string_view page, const std::vector<Source>& sources) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const auto& source : sources)
    ++counts[{source.folder(), source.is_test()     ? "tests"
                               : source.is_header() ? "headers"
                                                    : "sources"}];
  Words violations;
  for (const auto& [of, count] : counts) {
    const auto& [folder, kind] = of;
    const auto name = folder.starts_with("src/") ? folder.substr(4) : folder;
    const auto row = page.find("\n- `" + name + "`");
    const auto text = row == page.npos ? page.substr(0, 0) : page.substr(row + 1);
    if (count <= kFolderFiles || text.substr(0, text.find('\n')).find(kCrowdedReason) != page.npos)
      continue;
    violations.push_back(folder + ": " + std::to_string(count) + " " + kind +
                         "; a folder has at most " + std::to_string(kFolderFiles) +
                         " of a kind, or docs/layers.md says why");
  }
  return violations;
}

Words thread_starts(const std::vector<Source>& sources) {
  // A constructor's call, a variable with arguments, and a thread that a container makes.
  static const std::regex kStart(
      R"(std::j?thread( \w+)?[({]|emplace_back\(\[|pthread_create|std::async)");
  Words violations;
  for (const auto& source : sources) {
    const bool may = source.path.ends_with("base/os/worker_thread.hpp") ||
                     source.path.ends_with("base/os/close_elsewhere.cpp");
    if (may || source.is_test() || !source.path.starts_with("src/")) continue;
    const bool has_threads = source.text.find("std::vector<std::thread>") != source.text.npos;
    std::size_t line = 0;
    std::istringstream text(source.text);
    for (std::string words; std::getline(text, words);) {
      ++line;
      std::smatch found;
      if (!std::regex_search(words, found, kStart)) continue;
      if (found.str().starts_with("emplace_back") && !has_threads) continue;
      violations.push_back(source.path + ":" + std::to_string(line) +
                           ": a thread without start_thread(): it takes the program's signals");
    }
  }
  return violations;
}

Words old_words(std::string_view page, const std::vector<Source>& sources) {
  Words violations;
  for (const std::string& old : first_column_words(page))
    for (const auto& source : sources)
      for (const std::size_t line : lines_with_word(source.text, old))
        violations.push_back(source.path + ":" + std::to_string(line) + ": " + old +
                             ": docs/decisions/words.md has the word that took its place");
  return violations;
}

/// The component of a path below src/, or of a public header's owner; empty: it is of none.
static std::string component_of(std::string_view path) {
  if (!path.starts_with("src/")) return {};
  const auto end = path.find('/', 4);
  return std::string(path.substr(4, end == path.npos ? end : end - 4));
}

/// What files of a component include of another one that it does not see, by src/CMakeLists.txt.
/// The table of modules may allow more: <gantry/gantry.hpp> lies in the uppermost component.
static Words beyond_components(const std::string& cmake, const Table& table,
                               const std::vector<Source>& sources) {
  const std::regex declared(R"(gantry_component\((\w+)([^)]*)\))");
  std::map<std::string, Words> sees;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), declared), end; it != end; ++it) {
    std::istringstream words((*it)[2]);
    bool is_seen = false;
    for (std::string word; words >> word && word != "LIBRARIES"; is_seen |= word == "SEES")
      if (is_seen) sees[(*it)[1]].push_back(word);
    sees[(*it)[1]].push_back((*it)[1]);
  }
  Words violations;
  for (const Source& source : sources) {
    const auto mine = sees.find(component_of(source.path));
    if (mine == sees.end() || source.is_test()) continue;
    for (const Include& include : includes_of(source.text)) {
      const bool is_public = include.header.starts_with(kPublicPrefix);
      const Module* owner =
          is_public ? table.owner_of(include.header.substr(kPublicPrefix.size())) : nullptr;
      const std::string other = component_of(owner != nullptr ? owner->path
                                             : include.quoted ? "src/" + include.header
                                                              : "");
      if (sees.contains(other) && !contains(mine->second, other))
        violations.push_back(source.path + ":" + std::to_string(include.line) + ": " +
                             include.header + ": " + mine->first + " does not see the component " +
                             other);
    }
  }
  return violations;
}

Words check_tree(const std::string& root) {
  Words violations;
  const auto page = read_file((fs::path(root) / "docs/layers.md").string());
  const auto table = parse_table(page, violations);
  const auto sources =
      read_tree(root, {"src", "include", "tools", "bindings", "bench", "examples"});
  append(violations, cycles(table));
  append(violations, folders_without_a_module(table, sources));
  append(violations, forbidden_includes(table, sources));
  append(violations, beyond_components(read_file((fs::path(root) / "src/CMakeLists.txt").string()),
                                       table, sources));
  append(violations, oversized(sources));
  append(violations, thread_starts(sources));
  const auto tests = read_tree(root, {"tests"});
  append(violations, oversized(tests));
  for (const auto& all : {sources, tests}) append(violations, crowded(page, all));
  const auto words = read_file((fs::path(root) / "docs/decisions/words.md").string());
  std::vector<Source> texts =
      read_texts(root, {"src", "tests", "tools", "bindings", "bench", "examples", "docs"});
  std::erase_if(texts, [](const Source& one) {
    return one.path.starts_with("docs/decisions/") || one.path.starts_with("docs/results/");
  });
  for (const auto& all : {sources, tests, texts}) append(violations, old_words(words, all));
  return violations;
}

}  // namespace layers
