// Programs with a small mistake: for some shape the check refuses what they expand to, and what it
// lets pass comes out right. The mistakes are made everywhere in the texts of the programs.
#include <gtest/gtest.h>

#include <regex>

#include "ranks/schedule/program/script.hpp"
#include "ranks/schedule/program/test_collectives.hpp"

namespace gantry {
namespace {

using test::Random;

struct Mutant {
  std::string text;
  std::string what;
};

/// Steps and their loops, not what is given, wanted or said; nor which lane it is, where a line
/// says nothing else: any lane will do.
bool is_mutable(const std::string& line) {
  static const std::regex fixed(
      R"(^\s*(given|wanted|about|name|tensor|require|counts|let l =|#).*)");
  return !line.empty() && !std::regex_match(line, fixed);
}

/// The line with each match replaced, one at a time.
std::vector<std::string> each_replaced(const std::string& line, const char* pattern,
                                       const char* by) {
  std::vector<std::string> all;
  const std::regex expression(pattern);
  for (auto at = std::sregex_iterator(line.begin(), line.end(), expression);
       at != std::sregex_iterator(); ++at)
    all.push_back(line.substr(0, static_cast<std::size_t>(at->position())) + at->format(by) +
                  at->suffix().str());
  return all;
}

std::vector<std::string> mistakes_in(const std::string& line) {
  std::vector<std::string> all;
  const auto add = [&](const char* pattern, const char* by) {
    for (std::string& one : each_replaced(line, pattern, by)) all.push_back(std::move(one));
  };
  if (line.find(" after ") != std::string::npos) {
    add(" after .*", "");                                                  // it does not wait
    add(R"( after [^\[]+\[[^\]]*\]( if [^,]*)?, )", " after ");            // less: the first one
    add(R"((\]( if [^,\]]*)?), [a-z_]+\[[^\]]*\]( if [^,\]]*)?$)", "$1");  // less: the last one
  }
  add(R"(^\s*([a-z_]+\[.*\]: )?(reduce|copy) .*)", "");
  add(R"(\(([a-z]) \+ 1\) % ranks)", "($1 + 2) % ranks");
  add(R"(\(([a-z0-9 +-]+)\) % ranks)", "(1 + $1) % ranks");
  add(R"(in 0:ranks - 1)", "in 0:ranks - 2");
  add(R"(in 1:ranks)", "in 2:ranks");
  add(R"(in 0:chunks)", "in 1:chunks");
  add(R"(\[([a-z]):([a-z])\] to)", "[$1 - ($1 > 0):$2 - ($1 > 0)] to");  // shifted by one
  add(R"(\[a:b\] to)", "[a:b - 1] to");
  add(R"( reduce )", " copy ");
  add(R"(s > 0)", "s > 1");
  return all;
}

std::vector<Mutant> mutants_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<Mutant> mutants;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_mutable(lines[i])) continue;
    for (const std::string& mistake : mistakes_in(lines[i])) {
      Mutant mutant;
      for (std::size_t j = 0; j < lines.size(); ++j)
        mutant.text += (i == j ? mistake : lines[j]) + '\n';
      mutant.what = "line " + std::to_string(i + 1) + ": " + lines[i] + " -> " + mistake;
      mutants.push_back(std::move(mutant));
    }
  }
  return mutants;
}

/// For how many shapes it is refused. Where it passes it has to come out right.
int refusals_of(const CollectiveProgram& program, const std::string& what, Random& random) {
  int refused = 0;
  for (const std::string& variant : program.variants())
    for (const unsigned ranks : {2u, 3u, 5u})
      for (const std::int64_t size : {3, 11, 17})
        for (const std::int64_t chunks : {1, 3}) {
          CollectiveShape shape = test::shape_for(program.name(), ranks, size, chunks, random);
          shape.variant = variant;
          shape.root = ranks - 1;
          const auto plan = expand(program, shape);
          if (!plan || !check_plan(*plan)) {
            ++refused;
            continue;
          }
          for (int order = 0; order < 3; ++order) {
            test::PlanRunner runner(*plan, random);
            EXPECT_TRUE(runner.run() && runner.has_what_is_wanted()) << what << to_text(*plan);
          }
        }
  return refused;
}

TEST(CollectiveMutants, AreRefused) {
  Random random(5);
  int count = 0;
  for (const std::string_view text : collective::builtin_programs()) {
    const auto original = parse_collective(text);
    ASSERT_TRUE(original);
    EXPECT_EQ(refusals_of(*original, original->name(), random), 0) << original->name();
    for (const Mutant& mutant : mutants_of(std::string(text))) {
      const auto program = parse_collective(mutant.text);
      ++count;
      if (!program) continue;  // a label without a step
      EXPECT_GT(refusals_of(*program, mutant.what, random), 0)
          << original->name() << ", " << mutant.what;
    }
  }
  EXPECT_GT(count, 150);
  RecordProperty("mutants", count);
}

}  // namespace
}  // namespace gantry
