#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/result.hpp"
#include "schedule/cost/costs.hpp"
#include "schedule/plan.hpp"
#include "schedule/quote.hpp"

// Costs as text: docs/formats/costs.md.
namespace gantry {
namespace {

constexpr std::string_view kMagic = "gantry-costs 1";
constexpr std::size_t kLongestText = std::size_t{64} << 20;
constexpr std::size_t kLongestWord = 256;

/// A line with one number.
struct Field {
  std::string_view key;
  double& (*of)(ScheduleCosts&);
  bool is_later = false;  // texts of before do not have it
};
constexpr std::array kFields = {
    Field{"product-start-ns", [](auto& c) -> double& { return c.product.start_ns; }},
    Field{"product-flops-per-s", [](auto& c) -> double& { return c.product.flops_per_s; }},
    Field{"product-m-knee", [](auto& c) -> double& { return c.product.m_knee; }},
    Field{"product-n-knee", [](auto& c) -> double& { return c.product.n_knee; }},
    Field{"product-k-knee", [](auto& c) -> double& { return c.product.k_knee; }},
    Field{"adding-bytes-per-s", [](auto& c) -> double& { return c.product.adding_bytes_per_s; }},
    Field{"copy-start-ns", [](auto& c) -> double& { return c.copy.start_ns; }},
    Field{"copy-bytes-per-s", [](auto& c) -> double& { return c.copy.bytes_per_s; }},
    Field{"reduce-start-ns", [](auto& c) -> double& { return c.reduce.start_ns; }},
    Field{"reduce-bytes-per-s", [](auto& c) -> double& { return c.reduce.bytes_per_s; }},
    Field{"link-start-ns", [](auto& c) -> double& { return c.link.start_ns; }},
    Field{"link-bytes-per-s", [](auto& c) -> double& { return c.link.bytes_per_s; }},
    Field{"port-bytes-per-s", [](auto& c) -> double& { return c.port_bytes_per_s; }},
    Field{"cpus", [](auto& c) -> double& { return c.cpus; }},
    Field{"cpu-s-per-byte", [](auto& c) -> double& { return c.cpu_s_per_byte; }},
    Field{"beside-transfers", [](auto& c) -> double& { return c.beside_transfers; }},
    Field{"cpu-s-per-transfer", [](auto& c) -> double& { return c.cpu_s_per_transfer; }, true},
    Field{"cpu-s-per-row", [](auto& c) -> double& { return c.cpu_s_per_row; }, true},
};

template <class Number>
Result<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && !word.empty()) return value;
  return fail(Code::invalid_argument, quote(word) + " is no number here");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

class CostsReader {
 public:
  Result<ScheduleCosts> read(std::string_view text) {
    for (unsigned number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      auto read = read_line(text.substr(0, end), number == 1);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (read) continue;
      Error error = std::move(read).error();
      error.message = fmt::format("line {}: {}", number, error.message);
      return tl::unexpected(std::move(error));
    }
    if (seen_.empty())
      return fail(Code::invalid_argument, "no costs", fmt::format("they begin with '{}'", kMagic));
    for (const Field& field : kFields)
      if (!field.is_later && !seen_.contains(field.key))
        return fail(Code::invalid_argument, fmt::format("'{}' is missing", field.key));
    GANTRY_TRY(check_costs(costs_));
    return std::move(costs_);
  }

 private:
  Result<void> read_line(std::string_view line, bool is_first) {
    if (is_first) {
      if (line != kMagic) return tl::unexpected(wrong_first_line("costs", line, kMagic));
      seen_.insert(kMagic);
      return {};
    }
    GANTRY_TRY(check_line_end(line));
    if (std::ranges::any_of(line, [](char c) { return c < ' ' || c > '~'; }))
      return fail(Code::invalid_argument, "a character that is not printable ASCII");
    const auto words = words_of(line.substr(0, line.find('#')));
    return words.empty() ? Result<void>{} : read_words(words);
  }
  Result<void> read_words(const std::vector<std::string_view>& words) {
    if (words[0] == "link") return read_link(words);
    if (words.size() != 2) return fail(Code::invalid_argument, quote(words[0]) + " has one value");
    if (!seen_.insert(words[0]).second)
      return fail(Code::invalid_argument, quote(words[0]) + " stands there twice");
    if (words[0] == "name") {
      if (words[1].size() > kLongestWord) return fail(Code::invalid_argument, "a name too long");
      costs_.name = words[1];
      return {};
    }
    if (words[0] == "topology") return read_topology(words[1]);
    for (const Field& field : kFields) {
      if (field.key != words[0]) continue;
      GANTRY_ASSIGN(field.of(costs_), number_of<double>(words[1]));
      return {};
    }
    return fail(Code::invalid_argument, quote(words[0]) + " is nothing that costs say");
  }
  Result<void> read_topology(std::string_view word) {
    if (word != "mesh" && word != "switch")
      return fail(Code::invalid_argument, quote(word) + " is no topology", "mesh or switch");
    costs_.topology = word == "mesh" ? Topology::mesh : Topology::switched;
    return {};
  }
  Result<void> read_link(const std::vector<std::string_view>& words) {
    if (words.size() != 5)
      return fail(Code::invalid_argument, "a link has two ranks, a start and a rate");
    LinkCosts link;
    GANTRY_ASSIGN(link.from, number_of<unsigned>(words[1]));
    GANTRY_ASSIGN(link.to, number_of<unsigned>(words[2]));
    GANTRY_ASSIGN(link.costs.start_ns, number_of<double>(words[3]));
    GANTRY_ASSIGN(link.costs.bytes_per_s, number_of<double>(words[4]));
    if (link.from >= kMostRanks || link.to >= kMostRanks)
      return fail(Code::invalid_argument, fmt::format("a link beyond {} ranks", kMostRanks));
    if (!pairs_.emplace(link.from, link.to).second)
      return fail(Code::invalid_argument,
                  fmt::format("link {} {} stands there twice", link.from, link.to));
    costs_.links.push_back(link);
    return {};
  }

  ScheduleCosts costs_;
  std::set<std::string_view> seen_;
  std::set<std::pair<unsigned, unsigned>> pairs_;
};

}  // namespace

Result<ScheduleCosts> parse_costs(std::string_view text) {
  return guarded([&]() -> Result<ScheduleCosts> {
    if (text.size() > kLongestText)
      return fail(Code::too_large, fmt::format("costs of {} bytes", text.size()));
    return CostsReader().read(text);
  });
}

std::string to_text(const ScheduleCosts& costs) {
  std::string text = fmt::format("{}\nname {}\ntopology {}\n", kMagic, costs.name,
                                 costs.topology == Topology::mesh ? "mesh" : "switch");
  ScheduleCosts copy = costs;
  for (const Field& field : kFields) text += fmt::format("{} {}\n", field.key, field.of(copy));
  for (const LinkCosts& link : costs.links)
    text += fmt::format("link {} {} {} {}\n", link.from, link.to, link.costs.start_ns,
                        link.costs.bytes_per_s);
  return text;
}

}  // namespace gantry
