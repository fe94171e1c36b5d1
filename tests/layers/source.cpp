#include "source.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace layers {

namespace fs = std::filesystem;

namespace {

bool is_source(const fs::path& path) {
  const auto extension = path.extension();
  constexpr std::array kExtensions{".cpp", ".hpp", ".h",   ".c",  ".cc",
                                   ".cxx", ".hh",  ".ipp", ".inl"};
  return std::ranges::find(kExtensions, extension) != kExtensions.end();
}

/// What people read, and what no compiler of ours does.
bool is_text(const fs::path& path) {
  const auto extension = path.extension();
  return extension == ".md" || extension == ".pml" || extension == ".txt" || extension == ".toml" ||
         extension == ".py";
}

std::string_view trim_left(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view{} : text.substr(begin);
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string Source::folder() const {
  return path.substr(0, path.rfind('/'));
}

bool Source::is_test() const {
  const auto name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.find("_test.") != name.npos || name.starts_with("test_");
}

std::size_t Source::lines() const {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

namespace {

std::vector<Source> read_files(const std::string& root, const std::vector<std::string>& folders,
                               bool (*is_wanted)(const fs::path&)) {
  std::vector<Source> sources;
  for (const auto& folder : folders) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder, none)) {
      if (!entry.is_regular_file() || !is_wanted(entry.path())) continue;
      sources.push_back(
          {fs::relative(entry.path(), root).generic_string(), read_file(entry.path().string())});
    }
  }
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

}  // namespace

std::vector<Source> read_tree(const std::string& root, const std::vector<std::string>& folders) {
  auto sources = read_files(root, folders, is_source);
  // A public header that was renamed: two lines, for one version.
  std::erase_if(sources, [](const Source& source) {
    return source.lines() <= 3 &&
           source.text.find(": the old name of gantry/") != std::string::npos;
  });
  return sources;
}

std::vector<Source> read_texts(const std::string& root, const std::vector<std::string>& folders) {
  return read_files(root, folders, is_text);
}

std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> includes;
  std::istringstream lines{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto rest = trim_left(line);
    if (!rest.starts_with('#')) continue;
    rest = trim_left(rest.substr(1));
    if (!rest.starts_with("include")) continue;
    rest = trim_left(rest.substr(std::string_view("include").size()));
    if (!rest.starts_with('"') && !rest.starts_with('<')) continue;
    const bool quoted = rest.front() == '"';
    const auto end = rest.find(quoted ? '"' : '>', 1);
    includes.push_back({number, quoted, std::string(rest.substr(1, end - 1))});
  }
  return includes;
}

}  // namespace layers
