// The text of programs: what it means, and what each wrong line is told, when it is read or when it
// is expanded. Hostile texts end with one line, in bounded time and memory.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <gantry/collectives.hpp>

#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string program_of(std::string_view lines) {
  return "gantry-collective 1\nname test\ntensor x 1, 100\n" + std::string(lines);
}

Result<Plan> plan_from(const std::string& text, const CollectiveShape& shape = {}) {
  auto program = parse_collective(text);
  if (!program) return tl::unexpected(program.error());
  return expand(*program, shape);
}

/// What is said to a program whose fourth line this is; one line.
std::string told(std::string_view lines, const CollectiveShape& shape = {.ranks = 3, .size = 7}) {
  const auto plan = plan_from(program_of(lines), shape);
  if (plan) return "nothing";
  const std::string text = to_string(plan.error());
  return text.find('\n') == std::string::npos ? text : "more than one line: " + text;
}

/// What an expression comes to, by way of a tensor's size.
std::int64_t value(std::string_view expression,
                   const CollectiveShape& shape = {.ranks = 4, .size = 10}) {
  const auto plan = plan_from(
      "gantry-collective 1\nname test\nlet id(n) = n\nlet add(a, b) = a + b\n"
      "let twice(n) = add(n, n)\ntensor x 1, 1000 + (" +
          std::string(expression) + ")\n",
      shape);
  EXPECT_TRUE(plan) << expression << ": " << to_string(plan.error());
  return plan ? plan->tensors[0].cols - 1000 : -12345;
}

TEST(CollectiveText, ComputesAsItIsWritten) {
  EXPECT_EQ(value("1 + 2 * 3 - 4"), 3);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("10 - 3 - 2"), 5);
  EXPECT_EQ(value("- - 3 + -2"), 1);
  EXPECT_EQ(value("ranks*10+size"), 50);
  EXPECT_EQ(value("100 / 10 / 5"), 2);
  for (const std::int64_t a : {-7, -6, -1, 0, 1, 6, 7})
    for (const std::int64_t b : {-3, -1, 1, 3}) {
      // The greatest multiple of b that a reaches, searched for.
      std::int64_t quotient = -100;
      for (std::int64_t q = -100; q <= 100; ++q)
        if (b > 0 ? q * b <= a && a < (q + 1) * b : q * b >= a && a > (q + 1) * b) quotient = q;
      const std::string both = "(" + std::to_string(a) + ") # (" + std::to_string(b) + ")";
      std::string text = both;
      text[text.find('#')] = '/';
      EXPECT_EQ(value(text), quotient) << text;
      text[text.find('/')] = '%';
      EXPECT_EQ(value(text), a - quotient * b) << text;
    }
  EXPECT_EQ(value("min(3, -2) + max(1, size)"), 8);
  EXPECT_EQ(value("sum(i in 0:ranks, i * i)"), 14);
  EXPECT_EQ(value("max(i in 0:ranks, i % 3)"), 2);
  EXPECT_EQ(value("min(i in 1:ranks, 10 / i)"), 3);
  EXPECT_EQ(value("sum(i in 0:3, sum(j in 0:i, 10 * i + j))"), 10 + 20 + 21);
  EXPECT_EQ(value("sum(i in 5:2, 1)"), 0);
  EXPECT_EQ(value("twice(twice(3) + id(1))"), 14);
  EXPECT_EQ(value("add(add(1, 2), add(3, add(4, 5)))"), 15);
  EXPECT_EQ(value("-9223372036854775807 - 1 + 9223372036854775807"), -1);
}

TEST(CollectiveText, ComparesAndDecides) {
  EXPECT_EQ(value("(1 < 2) + (2 < 1) * 10 + (2 <= 2) * 100"), 101);
  EXPECT_EQ(value("(1 > 2) + (3 >= 3) * 10 + (3 == 3) * 100 - (3 != 3)"), 110);
  EXPECT_EQ(value("not 0 + 1"), 0);
  EXPECT_EQ(value("(not 5) + (not 0) * 10"), 10);
  EXPECT_EQ(value("1 < 2 and 2 < 3 or 1 / 0 == 1"), 1);
  EXPECT_EQ(value("0 and 1 / 0"), 0) << "what is ruled out is not evaluated";
  EXPECT_EQ(value("5 and 7"), 1);
  EXPECT_EQ(value("0 or 7"), 1);
  EXPECT_EQ(value("0 or 0"), 0);
}

TEST(CollectiveText, TakesItsParameters) {
  const CollectiveShape shape{
      .ranks = 3, .size = 4, .chunks = 5, .root = 2, .counts = {6, 7}, .variant = "second"};
  const auto plan = plan_from(R"(gantry-collective 1
name takes-all
about It does # nothing,
about but says so.
variants first, second, third
counts 2
lanes 1 + variant
tensor x ranks * 1000 + size * 100 + chunks * 10 + root, counts[0] * 10 + counts[1]
tensor y variant == second, variant == first
)",
                              shape);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->tensors[0].rows, 3452);
  EXPECT_EQ(plan->tensors[0].cols, 67);
  EXPECT_EQ(plan->tensors[1].rows, 1);
  EXPECT_EQ(plan->tensors[1].cols, 0);
  EXPECT_EQ(plan->lanes, 2u);
  EXPECT_EQ(plan->about, "takes-all: ranks 3, size 4 f32, chunks 5, root 2, second");
  const auto program = parse_collective("gantry-collective 1\nabout a # b\nabout c\nname n-1 # no");
  ASSERT_TRUE(program) << to_string(program.error());
  EXPECT_EQ(program->about(), "a # b c");
  EXPECT_EQ(program->name(), "n-1");
  EXPECT_TRUE(program->variants().empty());
}

TEST(CollectiveText, SumsSlicesOfCounts) {
  const auto sum = [](const std::string& slice) -> std::string {
    const CollectiveShape shape{.counts = {1, 20, 300, 4000, 50'000}};
    const auto plan = plan_from(
        "gantry-collective 1\nname sums\ncounts 5\ntensor x 1, counts[" + slice + "]\n", shape);
    return plan ? std::to_string(plan->tensors[0].cols) : to_string(plan.error());
  };
  EXPECT_EQ(sum("3"), "4000");
  EXPECT_EQ(sum("0:5"), "54321");
  EXPECT_EQ(sum("1:4"), "4320");
  EXPECT_EQ(sum("1:5:2"), "4020");
  EXPECT_EQ(sum("0:5:2"), "50301");
  EXPECT_EQ(sum("4:5:9223372036854775807"), "50000");
  EXPECT_EQ(sum("2:2"), "0");
  EXPECT_EQ(sum("9:1"), "0") << "as a loop from 9 to 1";
  EXPECT_THAT(sum("1:7:2"), HasSubstr("line 4: counts[5] where there are 5 counts"));
  EXPECT_THAT(sum("0:6"), HasSubstr("line 4: counts[5] where there are 5 counts"));
  EXPECT_THAT(sum("1:2:"), HasSubstr("unexpected ']' where an expression belongs"));
}

TEST(CollectiveText, BecomesThePlanThatIsWrittenOut) {
  const auto made = plan_from(R"(gantry-collective 1
name everything
lanes 2
tensor a 2, size   # a sign that begins a remark
tensor b size, 2
tensor c 2, 2
given a@0 = A(0, 1) + over k in 0:2 Y[k,1](k, -k)
given b@0[0:1,0:2] = 0
given b@0[0:0,0:2] = B
wanted c@0 = A*B[2](0, 0, 0:size)
for i in 0:3
  put a@0[i:max(i, size)] to a@1[i:max(i, size)] lane 1
  if i == 1
    mark[i]: signal 0 to 1 after late[2] if i > 0, over j in 0:3 late[j] if j != 2 and j != i
  else
    late[i]: fill b@0
  end
end
none: copy a@0[0:0] to a@0[1:1]
gemm a@0 by b@0 to c@0 adding lane 1 - 1 after mark[1] if 0, none
reduce a@0[0:1,0:2] to c@0[1:2,0:2]
get a@1[0:1,0:2] to a@0[0:1,0:2] lane 1 after mark[1]
barrier 1
)",
                              {.ranks = 2, .size = 2});
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_EQ(to_text(*made), R"(gantry-plan 1
about everything: ranks 2, size 2 f32, chunks 1, root 0
ranks 2
lanes 2
tensor a 2 2 f32
tensor b 2 2 f32
tensor c 2 2 f32
given a@0 0:2,0:2 = A 0,1 + Y_0_1 0,0 + Y_1_1 1,-1
given b@0 0:1,0:2 = 0
wanted c@0 0:2,0:2 = A*B_2 0,0 0:2
put 0/1 a@0 0:2,0:2 to a@1 0:2,0:2
fill 0/0 b@0 0:2,0:2
put 0/1 a@0 0:2,1:2 to a@1 0:2,1:2
signal 0/0 to 1 after 1 4
fill 0/0 b@0 0:2,0:2
gemm 0/0 a@0 0:2,0:2 by b@0 0:2,0:2 to c@0 0:2,0:2 adding
reduce 0/0 a@0 0:1,0:2 to c@0 1:2,0:2
get 0/1 a@1 0:1,0:2 to a@0 0:1,0:2 after 3
barrier 1/0
)");
}

struct WrongLine {
  std::string_view line;
  std::string_view what;
};
constexpr WrongLine kWrongLines[] = {
    {"name again", "it has a name already"},
    {"chunks 3", "unknown statement 'chunks'"},
    {"move x@0 to x@1", "unknown statement 'move'"},
    {"to x@0", "unknown statement 'to'"},
    {"5", "unknown statement '5'"},
    {"let a", "'=' is missing"},
    {"let a = ", "an expression is missing"},
    {"let a = 1 2", "unexpected '2' after the statement"},
    {"let a = b", "there is no 'b' here"},
    {"let a = a", "there is no 'a' here"},
    {"let ranks = 3", "there is a 'ranks' already"},
    {"let put = 3", "'put' is not the name of a value"},
    {"let a = 1 < 2 < 3", "two comparisons in a row"},
    {"let a = (1", "')' is missing"},
    {"let a = 1)", "unexpected ')' after the statement"},
    {"let a = 9223372036854775808", "number '9223372036854775808': at most 9223372036854775807"},
    {"let a = 1 & 2", "unexpected character '&'"},
    {"let a = \t1", "unexpected byte 0x09"},
    {"let a = \xc3\xa4", "unexpected byte 0xc3"},
    {"let f() = 1", "')' is not the name of a parameter"},
    {"let f(a,b,c,d,e) = 1", "more than 4 parameters"},
    {"let f(a, a) = 1", "there is a 'a' already"},
    {"let f(a) = f(a)", "there is no 'f' here"},
    {"let f(a) = a\nlet b = f", "line 5: '(' is missing"},
    {"let f(a) = a\nlet b = f(1, 2)", "line 5: unexpected ',' where ')' belongs"},
    {"let a = counts", "'[' is missing"},
    {"let a = sum(1, 2)", "'1' is not the name of a variable"},
    {"tensor x 1, 2", "there is a tensor 'x' already"},
    {"tensor y 1 2", "unexpected '2' where ',' belongs"},
    {"if 1\ntensor y 1, 2\nend", "line 5: 'tensor' within a for or an if"},
    {"lanes 2\nlanes 2", "line 5: it says its lanes already"},
    {"variants a, a", "there is a 'a' already"},
    {"variants a\nvariants b", "line 5: it has variants already"},
    {"for i in 0:3", "line 4: its end is missing"},
    {"end", "'end' without a 'for' or an 'if'"},
    {"else", "'else' without an 'if'"},
    {"for i in 0:3\nelse\nend", "line 5: 'else' without an 'if'"},
    {"if 1\nelse\nelse\nend", "line 6: 'else' without an 'if'"},
    {"for i in 0:3\nend\nlet a = i", "line 6: there is no 'i' here"},
    {"if 1\nlet a = 1\nelse\nlet b = a\nend", "line 7: there is no 'a' here"},
    {"for i 0:3", "unexpected '0' where 'in' belongs"},
    {"given y@0 = 0", "there is no tensor 'y'"},
    {"given x[0:1] = 0", "unexpected '[' where '@' belongs"},
    {"given x@0[0] = 0", "unexpected ']' where ':' belongs"},
    {"given x@0", "'=' is missing"},
    {"given x@0 = A_1", "the name of a matrix has no '_'"},
    {"given x@0 = A*B", "'(' is missing"},
    {"given x@0 = A(1)", "unexpected ')' where ',' belongs"},
    {"given x@0 = A B", "unexpected 'B' after the statement"},
    {"given x@0 = A[1,2,3,4]", "more than 3 indexes"},
    {"put x@0 x@1", "unexpected 'x' where 'to' belongs"},
    {"put x@0 to x@1 after", "the name of step is missing"},
    {"put x@0 to x@1 after a", "line 4: no step is labelled 'a'"},
    {"a: put x@0 to x@1\nput x@0 to x@1 after a[1]",
     "line 5: 'a' has 1 indexes here and 0 in line 4"},
    {"a: b: put x@0 to x@1", "unknown statement 'b'"},
};

TEST(CollectiveText, SaysOfEachWrongLineWhatIsWrong) {
  for (const auto& [line, what] : kWrongLines) {
    const std::string said = told(line);
    EXPECT_THAT(said, HasSubstr(what)) << line;
    EXPECT_THAT(said, StartsWith("line ")) << line;
  }
  EXPECT_THAT(told(std::string(5000, 'a')), StartsWith("line 4: 5000 characters, beyond 4096"));
  EXPECT_THAT(told(std::string(65, 'a')), StartsWith("line 4: a name of 65 letters, beyond 64"));
  const auto refusal = [](std::string_view text) { return parse_collective(text).error().message; };
  EXPECT_EQ(refusal(""), "line 1: no collective of this version");
  EXPECT_THAT(parse_collective("gantry-collective 1\nlet a = rnks").error().hint,
              AllOf(StartsWith("known here: "), HasSubstr("ranks")));
  EXPECT_EQ(refusal("gantry-collective 2\n"), "line 1: no collective of this version");
  EXPECT_EQ(refusal("gantry-collective 1\r\n"), "line 1: it ends in a carriage return");
  EXPECT_EQ(refusal("gantry-plan 1\n"), "line 1: this is a plan, no collective");
  EXPECT_EQ(refusal("gantry-collective 1\n"), "line 1: the program has no name");
  EXPECT_EQ(refusal("gantry-collective 1\nname A\n"), "line 2: 'A' is not the name of a program");
  EXPECT_EQ(refusal("gantry-collective 1\nabout \x1b[2J\n"),
            "line 2: unexpected control character");
}

TEST(CollectiveText, SaysOfEachWrongExpansionWhatIsWrong) {
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"let a = size / (ranks - 3)", "7 / 0: division by zero"},
           {"let a = size % 0", "7 % 0: division by zero"},
           {"let a = 9223372036854775807 + 1", "9223372036854775807 + 1 is beyond all numbers"},
           {"let a = -9223372036854775807 - 2", "-9223372036854775807 - 2 is beyond all numbers"},
           {"let a = 4294967296 * 4294967296", "4294967296 * 4294967296 is beyond"},
           {"let a = (-9223372036854775807 - 1) / -1", "0 - -9223372036854775808 is beyond"},
           {"let a = -(-9223372036854775807 - 1)", "is beyond all numbers"},
           {"let a = sum(i in 0:3, 9223372036854775807)", "is beyond all numbers"},
           {"let a = counts[0]", "counts[0] where there are 0 counts"},
           {"let a = counts[0:1]", "counts[0] where there are 0 counts"},
           {"let a = counts[-9223372036854775807:9223372036854775807]", "where there are 0 counts"},
           {"let a = counts[0:9:0]", "counts[0:9:0]"},
           {"let a = min(i in 3:3, i)", "the least or greatest of nothing: 3:3"},
           {"counts ranks", "0 counts where it takes 3"},
           {"require size > 7", "it requires what does not hold for 3 ranks and size 7"},
           {"lanes 0", "lanes 0: 1 to 64"},
           {"lanes 65", "lanes 65: 1 to 64"},
           {"tensor y 1, -1", "tensor y of 1 x -1"},
           {"tensor y 1099511627777, 1", "tensor y of 1099511627777 x 1"},
           {"given x@3 = X", "rank 3: 0 to 2"},
           {"given x@-1 = X", "rank -1: 0 to 2"},
           {"given x@0[90:101] = X", "90:101 of x, which has 0:100"},
           {"given x@0[5:4] = X", "5:4 of x"},
           {"given x@0[-1:4] = X", "-1:4 of x"},
           {"given x@0 = X[-1]", "X[-1] names no matrix"},
           {"fill x@0 lane 1", "lane 1: the program has lane 0 only"},
           {"fill x@0 lane -1", "lane -1: the program has lane 0 only"},
           {"copy x@0[0:1] to x@0[3:3]", "it moves something to an empty place"},
           {"a: fill x@0\nfor i in 0:1\na: fill x@1\nend", "there is a a already"},
           {"for i in 0:2\na[i / 2,i]: fill x@0\nend\nfill x@0 after a[1,1]",
            "line 7: it is after a[1,1], which there is not"},
           {"for i in 0:2\na[0,i / 2]: fill x@0\nend", "line 5: there is a a[0,0] already"}}) {
    const std::string said = told(line);
    EXPECT_THAT(said, HasSubstr(what)) << line;
    EXPECT_THAT(said, StartsWith("line ")) << line;
  }
  // What the plan's own check of its shape says, of the line that made the step.
  EXPECT_THAT(told("put x@0 to x@0"), StartsWith("line 4: step 0 (put, rank 0): "));
  EXPECT_THAT(told("fill x@0\nfor i in 0:2\nfill x@1\nput x@i to x@0\nend"),
              StartsWith("line 7: step 2 (put, rank 0): "));
  EXPECT_THAT(told("copy x@0[0:2] to x@0[3:4]"), HasSubstr("1 x 2 into 1 x 1"));
}

TEST(CollectiveText, RefusesShapesThatAreNone) {
  for (const auto& [shape, what] : std::vector<std::pair<CollectiveShape, std::string>>{
           {{.ranks = 0}, "a group of 0 ranks; 1 to 4096"},
           {{.ranks = 4097}, "a group of 4097 ranks"},
           {{.size = -1}, "size -1; 0 to"},
           {{.size = (std::int64_t{1} << 40) + 1}, "size 1099511627777"},
           {{.type = {}}, "a type that no plan may have"},
           {{.chunks = 0}, "0 chunks; 1 to 65536"},
           {{.chunks = 65537}, "65537 chunks"},
           {{.ranks = 2, .root = 2}, "root 2 of a group of 2"},
           {{.counts = {1}}, "it takes no counts"},
           {{.counts = {-1}}, "a count of -1"},
           {{.variant = "fast"}, "there is no variant 'fast'; it has none"}})
    EXPECT_THAT(told("let a = 1", shape), HasSubstr(what));
}

// ---- hostile texts ---------------------------------------------------------------------------

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(CollectiveText, EndsWithALineWhateverItIsGiven) {
  for (const auto& [lines, what] : std::vector<std::pair<std::string, std::string>>{
           {std::string(10 << 20, 'a'), "a program of 10485806 bytes, beyond 262144"},
           {"let a = " + repeated("(", 2000) + "1", "nested too deep"},
           {"let a = " + repeated("-", 4000) + "1", "nested too deep"},
           {"let a = " + repeated("not ", 1000) + "1", "nested too deep"},
           {"let a = 1" + repeated(" + 1", 500), "nested too deep"},
           {"let a = " + repeated("counts[", 500) + "1", "nested too deep"},
           {repeated("if 1\n", 17), "line 20: more than 16 blocks within each other"},
           {repeated("let a = 1\n", 2), "line 5: there is a 'a' already"},
           {repeated("require 1\n", 4097), "more than 4096 statements"},
           {"for i in 0:~\nend", "line 4: it takes more than"},
           {"for i in 0:~\nfor j in 0:~\nend\nend", "it takes more than"},
           {"let a = sum(i in 0:~, 0)", "it takes more than"},
           {"let a = max(i in 0:~, sum(j in 0:~, 0))", "it takes more than"},
           {"given x@0 = over i in 0:~ X[i]", "more than 1048576 terms"},
           {"for i in 0:~\ngiven x@0[0:1] = 0\nend", "more than 1048576 values"},
           {"for i in 0:~\nfill x@0\nend", "more than 1048576 steps"},
           {"for i in 0:~\na[i]: fill x@0[0:0]\nend", "more than 1048576 labels"},
           {"a: fill x@0\nfill x@0 after over i in 0:~ a", "more than 2097152 waits"},
           {"a: fill x@0\nfill x@0 after over i in 0:~ a if 0", "it takes more than"}}) {
    std::string text = lines;
    for (std::size_t at = 0; (at = text.find('~')) != std::string::npos;)
      text.replace(at, 1, "9223372036854775807");
    const std::string said = told(text);
    EXPECT_THAT(said, HasSubstr(what));
    EXPECT_LT(said.size(), 300u) << what;
  }
  // Each function calls the one before it, once or twice.
  std::string doubling = "let f0(n) = n\n";
  for (int i = 1; i < 60; ++i)
    doubling += fmt::format("let f{0}(n) = f{1}(n) + f{1}(n)\n", i, i - 1);
  EXPECT_THAT(told(doubling + "let a = f59(0)"), HasSubstr("it takes more than"));
  std::string chain = "let f0(n) = n\n";
  for (int i = 1; i < 1000; ++i) chain += fmt::format("let f{}(n) = f{}(n)\n", i, i - 1);
  EXPECT_THAT(told(chain), HasSubstr("nested too deep"));
}

TEST(CollectiveText, QuotesNoMoreThanTheBeginningOfAWord) {
  const std::string digits(4000, '9');
  for (const std::string& line : {"name " + std::string(4000, 'x'), "let a = " + digits})
    EXPECT_LT(parse_collective("gantry-collective 1\n" + line + "\n").error().message.size(), 200u)
        << line.substr(0, 30);
  EXPECT_LT(load_collective(std::string(1 << 20, 'x')).error().message.size(), 200u);
}

}  // namespace
}  // namespace gantry
