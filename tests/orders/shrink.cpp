#include "orders/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orders/places.hpp"

namespace gantry::orders {
namespace {

using Plan = std::vector<Decision>;

Plan sorted(Plan plan) {
  std::stable_sort(plan.begin(), plan.end(), [](const Decision& left, const Decision& right) {
    return left.thread != right.thread ? left.thread < right.thread : left.step < right.step;
  });
  return plan;
}

// What two failures have in common that are one: words without numbers.
std::string class_of(const std::string& failure) {
  std::string words;
  for (const char one : failure.substr(0, failure.find('\n')))
    if (one < '0' || one > '9') words += one;
  return words.substr(0, 70);
}

class Shrinker {
 public:
  Shrinker(Theatre& theatre, const Settings& settings, const std::string& failure,
           unsigned most_runs)
      : theatre_(theatre), settings_(settings), wanted_(class_of(failure)), left_(most_runs) {
    settings_.strategy = Strategy::plan;
    settings_.blows = settings_.refusals = 0;
  }

  bool fails(const oracle::Scenario& scenario, const Plan& plan) {
    if (left_ == 0) return false;
    --left_;
    outcome_ = theatre_.play(scenario, settings_, sorted(plan), true);
    return class_of(outcome_.failure) == wanted_;
  }
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] bool has_runs() const noexcept { return left_ != 0; }

  // Takes parts out, first halves, in the end single decisions.
  Plan fewer(const oracle::Scenario& scenario, Plan plan) {
    for (std::size_t part = std::max<std::size_t>(1, plan.size() / 2); has_runs();) {
      bool has_shrunk = false;
      for (std::size_t from = 0; from < plan.size() && has_runs();) {
        Plan rest(plan.begin(), plan.begin() + static_cast<std::ptrdiff_t>(from));
        const std::size_t to = std::min(plan.size(), from + part);
        rest.insert(rest.end(), plan.begin() + static_cast<std::ptrdiff_t>(to), plan.end());
        if (fails(scenario, rest)) {
          plan = std::move(rest);
          has_shrunk = true;
        } else {
          from += part;
        }
      }
      if (part == 1 && !has_shrunk) break;
      if (!has_shrunk || part > 1) part = std::max<std::size_t>(1, part / 2);
    }
    return plan;
  }

  void simpler(oracle::Scenario& scenario, const Plan& plan) {
    const auto try_it = [&](auto change) {
      oracle::Scenario smaller = scenario;
      change(smaller);
      if (!fails(smaller, plan)) return false;
      scenario = std::move(smaller);
      return true;
    };
    if (scenario.roles.size() > 2) {
      for (std::size_t i = scenario.roles.size(); i-- > 1 && scenario.roles.size() > 2;)
        try_it([i](oracle::Scenario& it) {
          it.roles.erase(it.roles.begin() + static_cast<std::ptrdiff_t>(i));
        });
    }
    for (std::size_t i = 0; i < scenario.roles.size(); ++i) {
      while (scenario.roles[i].messages > 1 &&
             try_it([i](oracle::Scenario& it) { it.roles[i].messages /= 2; })) {
      }
      while (scenario.roles[i].messages > 1 &&
             try_it([i](oracle::Scenario& it) { --it.roles[i].messages; })) {
      }
    }
  }

 private:
  Theatre& theatre_;
  Settings settings_;
  std::string wanted_;
  unsigned left_;
  Outcome outcome_;
};

std::string our_own(const std::string& line) {
  for (const char* const folder : {"/src/", "/include/gantry/", "/tests/"})
    if (const std::size_t at = line.rfind(folder); at != line.npos) return line.substr(at + 1);
  return {};
}

}  // namespace

Failing shrink(Theatre& theatre, const oracle::Scenario& scenario, const Settings& settings,
               unsigned most_runs) {
  Failing it{scenario, settings, {}, theatre.play(scenario, settings, {}, true)};
  if (it.outcome.failure.empty()) return it;
  Plan plan;
  for (const Decision& one : it.outcome.decisions)
    if (!one.is_usual) plan.push_back(one);
  Shrinker shrinker(theatre, settings, it.outcome.failure, most_runs);
  if (!shrinker.fails(it.scenario, plan)) {
    it.outcome.failure =
        "not by its decisions alone: " + difference(it.outcome, shrinker.outcome());
    return it;
  }
  plan = shrinker.fewer(it.scenario, std::move(plan));
  shrinker.simpler(it.scenario, plan);
  plan = shrinker.fewer(it.scenario, std::move(plan));
  Shrinker last(theatre, settings, it.outcome.failure, 1);
  last.fails(it.scenario, plan);
  it.settings = last.settings();
  it.plan = sorted(plan);
  it.outcome = last.outcome();
  return it;
}

std::string with_places(const std::string& text) {
  std::vector<std::uint64_t> places;
  for (std::size_t at = 0; (at = text.find("@0x", at)) != text.npos; at += 3)
    places.push_back(std::stoull(text.substr(at + 3), nullptr, 16));
  const auto lines = lines_of(places, our_own);
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find("@0x", from)) != text.npos;) {
    std::size_t used = 0;
    const std::uint64_t place = std::stoull(text.substr(at + 3), &used, 16);
    result += text.substr(from, at - from);
    const auto found = lines.find(place);
    result += found == lines.end() || found->second.empty() ? "the C library" : found->second;
    from = at + 3 + used;
  }
  return result + text.substr(from);
}

std::string difference(const Outcome& one, const Outcome& other) {
  std::string text = fmt::format("it does not replay: {} choices and {:#x}, then {} and {:#x}\n",
                                 one.choices, one.trace, other.choices, other.trace);
  const auto [left, right] = std::mismatch(
      one.decisions.begin(), one.decisions.end(), other.decisions.begin(), other.decisions.end(),
      [](const Decision& a, const Decision& b) {
        return a.at == b.at && a.thread == b.thread && a.next == b.next && a.place == b.place;
      });
  for (const auto& [it, decisions] :
       {std::pair(left, &one.decisions), std::pair(right, &other.decisions)})
    for (auto at = it - std::min<std::ptrdiff_t>(2, it - decisions->begin());
         at != decisions->end() && at < it + 1; ++at)
      text +=
          fmt::format("  at {} thread {} in step {}, @{:#x} ({}): next is {}\n", at->at, at->thread,
                      at->step, at->place, at->what == nullptr ? "" : at->what, at->next);
  return with_places(text);
}

std::string tell(const Failing& failing) {
  std::string text = describe(failing.scenario);
  text += fmt::format("{} decisions beside the usual order; {} switches in all:\n",
                      failing.plan.size(), failing.outcome.switches);
  for (const Decision& one : failing.outcome.decisions) {
    const std::string who = name_of_thread(failing.scenario, one.thread);
    text += fmt::format("{:>8}  {} at step {}, @{:#x}", one.at, who, one.step, one.place);
    if (one.what != nullptr) text += fmt::format(" ({})", one.what);
    if (one.fault != Fault::none)
      text += fmt::format(" {}", kFaultNames[static_cast<int>(one.fault)]);
    if (one.kind == Kind::block) text += " cannot go on";
    if (one.next != one.thread)
      text += fmt::format("; {}{}", one.is_usual ? "next is " : "NOW RUNS ",
                          name_of_thread(failing.scenario, one.next));
    text += "\n";
  }
  return with_places(text + failing.outcome.failure + failing.outcome.waits);
}

}  // namespace gantry::orders
