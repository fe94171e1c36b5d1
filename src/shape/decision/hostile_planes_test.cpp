#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "shape/decision/test_decisions.hpp"

// Planes from a peer that lies. Property: whatever bytes come, however few, and whatever is asked,
// a decision ends, reads nothing outside (tools that watch memory see that), counts no byte twice,
// and answers with indices that exist; only bounds that contradict the values are an error.
namespace gantry {
namespace {

using namespace test;
using shape::Element;

PlanedElements random_elements(Random& random) {
  constexpr Element kAny[] = {Element::u8,  Element::i16, Element::i32,   Element::f16,
                              Element::f32, Element::f64, Element::e4m3fn};
  PlanedElements elements;
  elements.type = shape::facts_of(kAny[random() % std::size(kAny)]).type;
  elements.count = static_cast<std::int64_t>(1 + below(random, 200));
  elements.planes.unit = random() % 2 == 0 ? Planes::Unit::bytes : Planes::Unit::bits;
  elements.planes.block = static_cast<std::int64_t>(8 * below(random, 12));
  elements.planes.bounds_group = static_cast<std::uint16_t>(random() % 2 * below(random, 40));
  return elements;
}

/// Random bytes, or few kinds of them, or true planes with some bits the other way round.
Memory random_planes(Random& random, const PlanedElements& elements) {
  Memory planes(*elements.bytes());
  const unsigned mask = random() % 2 == 0 ? 0xffu : 0x81u;
  for (std::byte& each : planes) each = static_cast<std::byte>(random() & mask);
  if (random() % 2 == 0) {
    const Element element = *shape::element_of(elements.type);
    const auto layout = *shape::PlaneLayout::make(element, elements.count, elements.planes);
    Memory dense(layout.dense_bytes());
    std::copy_n(planes.begin(), std::min(dense.size(), planes.size()), dense.begin());
    make_planes(layout, planes.data(), 0, planes.size(), dense.data());
    for (std::size_t flips = below(random, 6); flips > 0; --flips)
      planes[below(random, planes.size())] ^= static_cast<std::byte>(1u << random() % 8);
  }
  planes.resize(random() % 3 == 0 ? below(random, planes.size() + 1) : planes.size());
  planes.shrink_to_fit();
  return planes;
}

/// Rows of nearest() of which some share a byte, which counts for each.
bool shares_bytes(const PlanedElements& elements, const Decision& question) {
  return elements.planes.unit == Planes::Unit::bits && question.parts().query.size() % 8 != 0;
}

/// There are as many indices as were asked for, each exists, and none comes twice.
void expect_possible(const Decision& question, std::size_t count,
                     const std::vector<std::size_t>& indices) {
  using Kind = detail::DecisionParts::Kind;
  const detail::DecisionParts& parts = question.parts();
  const bool is_ranked = parts.kind == Kind::top || parts.kind == Kind::nearest;
  const bool is_of_ranges = parts.has_ranges && parts.kind != Kind::above;
  std::size_t first = 0, end = count;
  if (is_of_ranges) end = parts.ranges.size();
  if (parts.kind == Kind::nearest) end = count / parts.query.size();
  if (parts.kind == Kind::above && parts.has_ranges)
    first = parts.ranges[0].first, end = parts.ranges[0].end();
  ASSERT_EQ(indices.size(), is_ranked ? parts.k : indices.size());
  for (const std::size_t index : indices) ASSERT_TRUE(index >= first && index < end) << index;
  std::vector<std::size_t> sorted = indices;
  std::ranges::sort(sorted);
  ASSERT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << "an index comes twice";
  ASSERT_EQ(indices, is_ranked ? indices : sorted);
}

TEST(HostilePlanes, NeverLeadOutsideAndEveryDecisionEnds) {
  Random random(21);
  int answers = 0, contradictions = 0;
  for (int round = 0; round < 40000; ++round) {
    const PlanedElements elements = random_elements(random);
    const Memory planes = random_planes(random, elements);
    std::vector<double> values(static_cast<std::size_t>(elements.count));
    for (double& each : values) each = static_cast<double>(random() % 7) - 3;
    const Decision question = random_question(random, values);
    DecideOptions options;
    if (random() % 2 == 0) options.budget_bytes = below(random, planes.size() + 1);
    if (random() % 2 == 0) options.bounds = BoundsUse::trusted;
    const Result<Decided> decided = decide(planes, elements, question, options);
    answers += decided.has_value();
    contradictions += !decided;
    if (!decided) {
      ASSERT_EQ(decided.error().code, Code::peer_misbehaved) << to_string(decided.error());
      ASSERT_NE(decided.error().message.find("bounds"), std::string::npos)
          << decided.error().message;
      ASSERT_NE(elements.planes.bounds_group, 0);
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(expect_possible(question, values.size(), decided->indices));
    ASSERT_LE(decided->bytes_read, options.budget_bytes);
    ASSERT_TRUE(decided->bytes_read <= planes.size() || shares_bytes(elements, question));
  }
  EXPECT_GT(answers, 10000);
  EXPECT_GT(contradictions, 1000);
}

// Many enough that the second byte is read of the largest alone, and that of some is missing. What
// is proven is what a scan of all values answers, whatever the missing bytes are.
TEST(HostilePlanes, CountEachByteOnceWhereTheyEnd) {
  Random random(23);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(200 + below(random, 200));
    for (float& each : values) each = 1 + static_cast<float>(below(random, 100)) / 128;
    Sample sample = sample_of(Element::f32, values, {Planes::Unit::bytes, 0, 0});
    const Memory whole = sample.planes;
    sample.planes.resize(values.size() + below(random, values.size()));
    const Decided decided = *decide(sample.planes, sample.elements, Decision::top(3));
    ASSERT_LE(decided.bytes_read, sample.planes.size()) << round;
    const auto right = scan(values_of(sample), Decision::top(3));
    ASSERT_NO_FATAL_FAILURE(expect_possible(Decision::top(3), values.size(), decided.indices));
    ASSERT_TRUE(!decided.proven || decided.indices == right) << round;
    sample.planes = whole;
    const Decided all = *decide(sample.planes, sample.elements, Decision::top(3));
    ASSERT_TRUE(all.proven && all.indices == right) << round;
  }
}

// By a peer that owns them. Each way of a decision looks at some bytes more than once.
TEST(HostilePlanes, MayChangeWhileTheyAreRead) {
  Random random(22);
  std::vector<float> values(4096);
  for (float& each : values) each = hard_value(random, 1, 0);
  for (const std::uint16_t group : {std::uint16_t{0}, std::uint16_t{8}}) {
    Sample sample = sample_of(Element::f32, values, {Planes::Unit::bytes, 0, group});
    std::atomic<bool> is_over = false;
    std::thread peer([&] {
      for (unsigned value = 0; !is_over.load(std::memory_order_relaxed); ++value)
        for (std::byte& each : sample.planes)
          std::atomic_ref(each).store(static_cast<std::byte>(value % 2 * 0xc1),
                                      std::memory_order_relaxed);
    });
    for (int round = 0; round < 2000; ++round) {
      const Decision question =
          round % 2 == 0 ? Decision::top(3) : Decision::nearest(std::vector<float>(16, 1.0f), 3);
      const Result<Decided> decided =
          decide(sample.planes, sample.elements, question, {.bounds = BoundsUse::trusted});
      if (!decided) continue;  // bounds that contradict the values
      ASSERT_NO_FATAL_FAILURE(expect_possible(question, values.size(), decided->indices));
    }
    is_over.store(true, std::memory_order_relaxed);
    peer.join();
  }
}

}  // namespace
}  // namespace gantry
