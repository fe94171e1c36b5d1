#pragma once  // schedule/collective/scopes.hpp: which names an expression may use.

#include <map>

#include "schedule/collective/script.hpp"

namespace gantry::collective {

struct Symbol {
  enum Kind : std::uint8_t { variable, constant, function };
  Kind kind = variable;
  std::uint32_t index = 0;  ///< A variable's slot, a function's number, a constant's value.
};

/// The names that are known, block by block. A name is never hidden by another one.
class Scopes {
 public:
  Scopes() : blocks_(1) {}

  void open() { blocks_.emplace_back(); }
  void close() { blocks_.pop_back(); }
  [[nodiscard]] std::size_t depth() const noexcept { return blocks_.size(); }
  /// Errors: `invalid_argument`: it is known already.
  [[nodiscard]] Result<void> declare(std::string_view name, Symbol symbol);
  [[nodiscard]] Result<Symbol> find(std::string_view name) const;

 private:
  std::vector<std::map<std::string, Symbol, std::less<>>> blocks_;
};

}  // namespace gantry::collective
