#pragma once  // tools/gantry/run/file/document.hpp: a TOML file as a tree in file order, with
              // positions.

#include <gantry/types.hpp>
#include <vector>

namespace gantry::run {

/// A place in the file; both count from 1.
struct Position {
  unsigned line = 1;
  unsigned column = 1;
};

/// A text and its place.
struct Text {
  std::string value;
  Position at;
};

struct Entry;

/// One value of the document.
struct Node {
  enum class Kind { table, array, string, integer, real, boolean, other };
  Kind kind = Kind::other;
  Position at;
  std::string text;            ///< A string's value; other scalars as they are written.
  std::int64_t integer = 0;    ///< For `integer`.
  std::vector<Entry> entries;  ///< A table's keys in the order of the file; an array's items.

  [[nodiscard]] bool is_scalar() const noexcept {
    return kind != Kind::table && kind != Kind::array && kind != Kind::other;
  }
};

struct Entry {
  std::string key;  ///< Empty in arrays.
  Position at;      ///< Of the key.
  Node value;
};

[[nodiscard]] std::string_view to_string(Node::Kind kind) noexcept;

/// The file that errors name.
struct Source {
  std::string path;    ///< As the person wrote it.
  std::string folder;  ///< Absolute; the meaning of {here} and of a leading "./".

  /// "PATH:line:column: what: why".
  [[nodiscard]] Error error(Position at, std::string_view what, std::string_view why,
                            std::string hint = {}) const;
};

/// What is wrong with a file, in the order in which it was found.
class Mistakes {
 public:
  /// Notes the error, if there is one. True: there is none.
  template <class T>
  bool note(const Result<T>& read) {
    if (!read) all_.push_back(read.error());
    return read.has_value();
  }
  [[nodiscard]] const std::vector<Error>& all() const noexcept { return all_; }
  [[nodiscard]] Result<void> first() const {
    if (all_.empty()) return {};
    return tl::unexpected(all_.front());
  }

 private:
  std::vector<Error> all_;
};

/// Errors: `invalid_argument` with the place at which `text` is not TOML.
[[nodiscard]] Result<Node> parse_document(std::string_view text, const Source& source);

}  // namespace gantry::run
