#include "table.hpp"

#include <algorithm>
#include <sstream>

namespace layers {

namespace {

constexpr std::string_view kModulesHead = "| module |";
constexpr std::string_view kOutsidesHead = "| outside header |";
constexpr std::string_view kSubfolders = "/**";
constexpr std::string_view kSource = "src/";

Words split_cells(std::string_view row) {
  Words cells;
  std::size_t begin = 1;
  for (auto end = row.find('|', begin); end != row.npos; end = row.find('|', begin)) {
    cells.emplace_back(row.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

/// What stands between backticks: the rest of a cell is prose.
Words code_words(std::string_view cell) {
  Words words;
  for (auto begin = cell.find('`'); begin != cell.npos; begin = cell.find('`')) {
    const auto end = cell.find('`', begin + 1);
    if (end == cell.npos) break;
    words.emplace_back(cell.substr(begin + 1, end - begin - 1));
    cell.remove_prefix(end + 1);
  }
  return words;
}

Module parse_module(const std::vector<Words>& cells) {
  Module module{cells[0].front(), false, cells[1], cells[2], cells[3], cells[4]};
  if (module.path.ends_with(kSubfolders)) {
    module.path.resize(module.path.size() - kSubfolders.size());
    module.with_subfolders = true;
  }
  return module;
}

/// Reads the table's rows into `rows`; `columns` is how many cells each must have.
std::vector<std::vector<Words>> rows_of(std::string_view markdown, std::string_view head,
                                        std::size_t columns, Words& problems) {
  std::vector<std::vector<Words>> rows;
  std::istringstream lines{std::string(markdown)};
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(head))
      inside = true;
    else if (!line.starts_with('|'))
      inside = false;
    else if (inside && !line.starts_with("|---")) {
      std::vector<Words> row;
      for (const auto& cell : split_cells(line)) row.push_back(code_words(cell));
      if (row.size() == columns && !row[0].empty())
        rows.push_back(std::move(row));
      else
        problems.push_back("docs/layers.md: cannot read the row: " + line);
    }
  }
  if (rows.empty()) problems.push_back("docs/layers.md: no table begins with " + std::string(head));
  return rows;
}

void check_names(const Table& table, const Words& names, const std::string& where,
                 Words& problems) {
  for (const auto& name : names) {
    const auto is_it = [&](const Module& module) { return module.name() == name; };
    if (std::ranges::none_of(table.modules, is_it)) {
      problems.push_back("docs/layers.md: " + where + " names an unknown module: ");
      problems.back() += name;
    }
  }
}

}  // namespace

std::string Module::name() const {
  return path.starts_with(kSource) ? path.substr(kSource.size()) : path;
}

bool Module::holds(std::string_view folder) const {
  return folder == path || (with_subfolders && folder.starts_with(path + "/"));
}

const Module* Table::module_of_folder(std::string_view folder) const {
  const Module* nearest = nullptr;
  for (const Module& one : modules)
    if (one.holds(folder) && (nearest == nullptr || one.path.size() > nearest->path.size()))
      nearest = &one;
  return nearest;
}

const Module* Table::owner_of(std::string_view public_header) const {
  const auto found = std::ranges::find_if(
      modules, [&](const Module& r) { return contains(r.public_headers, public_header); });
  return found == modules.end() ? nullptr : &*found;
}

const Outside* Table::outside(std::string_view header) const {
  const auto begins = [&](const std::string& prefix) { return header.starts_with(prefix); };
  const auto found = std::ranges::find_if(
      outsides, [&](const Outside& o) { return std::ranges::any_of(o.prefixes, begins); });
  return found == outsides.end() ? nullptr : &*found;
}

Table parse_table(std::string_view markdown, Words& problems) {
  Table table;
  for (const auto& row : rows_of(markdown, kModulesHead, 5, problems)) {
    table.modules.push_back(parse_module(row));
  }
  for (const auto& row : rows_of(markdown, kOutsidesHead, 2, problems)) {
    table.outsides.push_back({row[0], row[1]});
  }
  for (const auto& module : table.modules) {
    for (const auto* names : {&module.sees, &module.opens, &module.tests_open}) {
      check_names(table, *names, module.name(), problems);
    }
  }
  for (const auto& outside : table.outsides) {
    auto names = outside.modules;
    for (const auto* word : {Outside::kEverywhere, Outside::kTests, Outside::kHeaders}) {
      std::erase(names, word);
    }
    check_names(table, names, outside.prefixes.front(), problems);
  }
  return table;
}

Words first_column_words(std::string_view markdown) {
  Words words;
  std::istringstream lines{std::string(markdown)};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('|'))
      for (auto& word : code_words(split_cells(line).front())) words.push_back(std::move(word));
  return words;
}

bool contains(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace layers
