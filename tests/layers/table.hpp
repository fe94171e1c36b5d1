#pragma once  // layers/table.hpp: the tables of docs/layers.md, which say who may include what.

#include <string>
#include <string_view>
#include <vector>

namespace layers {

using Words = std::vector<std::string>;

/// One row of the table of modules. Modules are named by their path, without the leading `src/`.
struct Module {
  std::string path;              ///< From the root of the tree: "src/core/engine/inline".
  bool with_subfolders = false;  ///< Written `path/**`.
  Words public_headers;          ///< Below include/gantry/: "engine.hpp".
  Words sees;                    ///< Modules whose public headers it may include.
  Words opens;                   ///< Modules whose private headers it may include.
  Words tests_open;              ///< The same, for its test files in addition.

  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool holds(std::string_view folder) const;
};

/// One row of the table of outside headers: neither ours nor the language's nor the system's.
struct Outside {
  static constexpr const char* kEverywhere = "everywhere";
  static constexpr const char* kTests = "tests";
  static constexpr const char* kHeaders = "headers";  ///< In headers below src/, too.

  Words prefixes;  ///< "zmq.h", "opencv2/".
  Words modules;   ///< Modules by name, or one of the words above.
};

struct Table {
  std::vector<Module> modules;
  std::vector<Outside> outsides;

  [[nodiscard]] const Module* module_of_folder(std::string_view folder) const;
  [[nodiscard]] const Module* owner_of(std::string_view public_header) const;
  [[nodiscard]] const Outside* outside(std::string_view header) const;
};

/// Reads both tables. What is wrong with them is added to `problems`.
[[nodiscard]] Table parse_table(std::string_view markdown, Words& problems);

/// Of every table of a page: what stands between backticks in its first column.
[[nodiscard]] Words first_column_words(std::string_view markdown);

[[nodiscard]] bool contains(const Words& words, std::string_view word);

}  // namespace layers
