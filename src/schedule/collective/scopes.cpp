#include "schedule/collective/scopes.hpp"

#include <fmt/format.h>

#include "base/result.hpp"

namespace gantry::collective {

Result<void> Scopes::declare(std::string_view name, Symbol symbol) {
  if (find(name)) return fail(Code::invalid_argument, fmt::format("there is a '{}' already", name));
  blocks_.back().emplace(name, symbol);
  return {};
}

Result<Symbol> Scopes::find(std::string_view name) const {
  for (const auto& block : blocks_)
    if (const auto at = block.find(name); at != block.end()) return at->second;
  constexpr std::size_t kMostShown = 200;  // characters
  std::string known;
  for (const auto& block : blocks_)
    for (const auto& entry : block)
      if (known.size() < kMostShown) known += (known.empty() ? "" : ", ") + entry.first;
  return fail(Code::invalid_argument, fmt::format("there is no '{}' here", name),
              "known here: " + known);
}

}  // namespace gantry::collective
