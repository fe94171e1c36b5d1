#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"
#include "schedule/collective/expander.hpp"
#include "schedule/collective/reader.hpp"
#include "schedule/plan_shape.hpp"
#include "schedule/quote.hpp"

namespace gantry {
namespace {

Result<void> check_collective_shape(const collective::Script& script,
                                    const CollectiveShape& shape) {
  const auto wrong = [&](std::string what, std::string hint = {}) {
    return fail(Code::invalid_argument, std::move(what), std::move(hint));
  };
  if (shape.ranks == 0 || shape.ranks > kMostRanks)
    return wrong(fmt::format("a group of {} ranks; 1 to {}", shape.ranks, kMostRanks));
  if (shape.size < 0 || shape.size > kMostRows)
    return wrong(fmt::format("size {}; 0 to {}", shape.size, kMostRows));
  if (shape.chunks < 1 || shape.chunks > collective::kMostChunks)
    return wrong(fmt::format("{} chunks; 1 to {}", shape.chunks, collective::kMostChunks));
  if (shape.root >= shape.ranks)
    return wrong(fmt::format("root {} of a group of {}", shape.root, shape.ranks));
  if (name_of(shape.type).empty())
    return wrong("a type that no plan may have", "f64, f32, f16, bf16, i32 or i64");
  for (const std::int64_t count : shape.counts)
    if (count < 0 || count > kMostRows) return wrong(fmt::format("a count of {}", count));
  if (!shape.variant.empty() &&
      std::ranges::find(script.variants, shape.variant) == script.variants.end())
    return wrong("there is no variant " + quote(shape.variant),
                 script.variants.empty() ? "it has none"
                                         : fmt::format("{}", fmt::join(script.variants, ", ")));
  return {};
}

std::string about_of(const collective::Script& script, const CollectiveShape& shape) {
  std::string text =
      fmt::format("{}: ranks {}, size {} {}, chunks {}, root {}", script.name, shape.ranks,
                  shape.size, name_of(shape.type), shape.chunks, shape.root);
  if (!script.variants.empty())
    text += fmt::format(", {}", shape.variant.empty() ? script.variants.front() : shape.variant);
  return text;
}

}  // namespace

const std::string& CollectiveProgram::name() const noexcept {
  return script_->name;
}
const std::string& CollectiveProgram::about() const noexcept {
  return script_->about;
}
const std::vector<std::string>& CollectiveProgram::variants() const noexcept {
  return script_->variants;
}

Result<CollectiveProgram> parse_collective(std::string_view text) {
  return guarded([&]() -> Result<CollectiveProgram> {
    GANTRY_ASSIGN(collective::Script script, collective::Reader().read(text));
    return CollectiveProgram(std::make_shared<const collective::Script>(std::move(script)));
  });
}

Result<Plan> expand(const CollectiveProgram& program, const CollectiveShape& shape) {
  return guarded([&]() -> Result<Plan> {
    const collective::Script& script = *program.script_;
    GANTRY_TRY(check_collective_shape(script, shape));
    collective::Expander expander(script, shape);
    GANTRY_ASSIGN(Plan plan, expander.run());
    plan.about = about_of(script, shape);
    if (auto fine = check_shape(plan); !fine)
      return tl::unexpected(expander.with_line(std::move(fine).error()));
    return plan;
  });
}

}  // namespace gantry
