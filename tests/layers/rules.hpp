#pragma once  // layers/rules.hpp: what docs/layers.md forbids, found in a tree.

#include "source.hpp"
#include "table.hpp"

namespace layers {

inline constexpr std::size_t kFileLines = 700;
inline constexpr std::size_t kPublicHeaderLines = 1000;  ///< Few headers, each about one thing.
inline constexpr std::size_t kFunctionLines = 60;
inline constexpr std::size_t kFolderFiles = 30;  ///< Of a kind: headers, sources, tests.
/// What the purpose of a module on docs/layers.md says where it has more.
inline constexpr std::string_view kCrowdedReason = "more than 30 files";

/// Each returns one line per violation, beginning with the file and, where there is one, the line.
[[nodiscard]] Words folders_without_a_module(const Table& table,
                                             const std::vector<Source>& sources);
[[nodiscard]] Words cycles(const Table& table);
[[nodiscard]] Words forbidden_includes(const Table& table, const std::vector<Source>& sources);
[[nodiscard]] Words oversized(const std::vector<Source>& sources);
/// Folders with too many files of a kind, of which `page` does not say why.
[[nodiscard]] Words crowded(std::string_view page, const std::vector<Source>& sources);
/// Threads that the library starts without start_thread(), with the program's signals open.
[[nodiscard]] Words thread_starts(const std::vector<Source>& sources);
/// Words of docs/decisions/words.md that were given up.
[[nodiscard]] Words old_words(std::string_view page, const std::vector<Source>& sources);

/// All of it: the tables below `root`/docs held against the tree at `root`.
[[nodiscard]] Words check_tree(const std::string& root);

}  // namespace layers
