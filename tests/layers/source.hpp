#pragma once  // layers/source.hpp: source files as the rules see them: includes and functions.

#include <string>
#include <string_view>
#include <vector>

namespace layers {

struct Include {
  std::size_t line = 0;  ///< From 1.
  bool quoted = false;   ///< "x" rather than <x>.
  std::string header;
};

struct Function {
  std::size_t line = 0;   ///< Where its signature begins, from 1.
  std::size_t lines = 0;  ///< From there to its closing brace.
};

/// A file of the tree. `path` is relative to the root, with forward slashes.
struct Source {
  std::string path;
  std::string text;

  [[nodiscard]] std::string folder() const;
  [[nodiscard]] bool is_header() const { return !path.ends_with(".cpp"); }
  [[nodiscard]] bool is_test()
      const;  ///< x_test.cpp, and x_test.hpp or test_x.hpp that such share.
  [[nodiscard]] std::size_t lines() const;
};

/// The whole file; empty when it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);

/// Every C and C++ file below `root`/`folder` for each of `folders`, sorted by path.
[[nodiscard]] std::vector<Source> read_tree(const std::string& root,
                                            const std::vector<std::string>& folders);

/// The same of texts: documentation, models, settings, scripts in Python.
[[nodiscard]] std::vector<Source> read_texts(const std::string& root,
                                             const std::vector<std::string>& folders);

[[nodiscard]] std::vector<Include> includes_of(std::string_view text);

/// The lines, from 1, with `word` in them as a whole word; prose counts.
[[nodiscard]] std::vector<std::size_t> lines_with_word(std::string_view text,
                                                       std::string_view word);

/// The functions at namespace or class level, test cases included. Matches braces; it does not
/// parse C++, and needs no more than that to count lines.
[[nodiscard]] std::vector<Function> functions_of(std::string_view text);

}  // namespace layers
