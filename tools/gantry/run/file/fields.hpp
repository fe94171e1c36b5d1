#pragma once  // tools/gantry/run/file/fields.hpp: the keys of one table, with their types checked.

#include <optional>

#include "run/file/document.hpp"

namespace gantry::run {

/// Reads one table of the document. A plain view: document and source must outlive it. Every error
/// gives the place, and names the value as "stages.decode.command".
class Fields {
 public:
  Fields(const Source& source, std::string name, Position at, const Node& table)
      : source_(&source), name_(std::move(name)), at_(at), table_(&table) {}

  /// Notes each key beyond `known`, with the nearest known one. True: there is none.
  [[nodiscard]] bool allow_only(const std::vector<std::string>& known, Mistakes& mistakes) const;

  /// Null when there is no such key.
  [[nodiscard]] const Entry* find(std::string_view key) const noexcept;
  [[nodiscard]] Result<const Entry*> find(std::string_view key, Node::Kind kind) const;

  [[nodiscard]] Result<Text> text(std::string_view key) const;  ///< Required.
  /// A whole number between `least` and `most`; `otherwise` if the key is missing.
  [[nodiscard]] Result<unsigned> number(std::string_view key, unsigned least, unsigned most,
                                        unsigned otherwise) const;
  /// A list of strings; required, and not empty.
  [[nodiscard]] Result<std::vector<Text>> texts(std::string_view key) const;

  [[nodiscard]] Error error(std::string_view key, Position at, std::string_view why,
                            std::string hint = {}) const;
  [[nodiscard]] Error missing(std::string_view key, std::string hint) const;
  [[nodiscard]] Error wrong_type(const Entry& entry, std::string_view wanted) const;

 private:
  [[nodiscard]] std::string qualified(std::string_view key) const;
  const Source* source_;
  std::string name_;  // empty for the whole file
  Position at_;
  const Node* table_;
};

}  // namespace gantry::run
