// Costs as text and as fitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/test_effort.hpp"
#include "ranks/schedule/cost/costs.hpp"

namespace gantry {
namespace {

ScheduleCosts some_costs() {
  ScheduleCosts costs;
  costs.name = "here";
  costs.product = {1234.5, 1e11 / 3, 1.5, 2.25, 17, 3e9};
  costs.copy = {10, 5e9};
  costs.reduce = {20, 4e9};
  costs.topology = Topology::switched;
  costs.link = {6000, 0.1};
  costs.links = {{0, 1, {1, 2}}, {1, 0, {3, 4.5e-2}}};
  costs.port_bytes_per_s = 7e8;
  costs.cpus = 2.5;
  costs.cpu_s_per_byte = 1e-10;
  costs.beside_transfers = 1.1;
  costs.cpu_s_per_transfer = 2e-6;
  costs.cpu_s_per_row = 3e-7;
  return costs;
}

TEST(ScheduleCosts, ReadBackToTheBit) {
  for (const ScheduleCosts& costs :
       {some_costs(), ScheduleCosts{}, *published_costs("published/mi300x-8")}) {
    const auto read = parse_costs(to_text(costs));
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(*read, costs);
  }
}

/// The first line that begins so becomes another one.
std::string changed(const std::string& key, const std::string& line) {
  std::string text = to_text(some_costs());
  const std::size_t at = text.find("\n" + key) + 1;
  text.replace(at, text.find('\n', at) - at, line);
  return text;
}

TEST(ScheduleCosts, RefusesWhatIsNone) {
  const auto said = [](const std::string& text) {
    const auto read = parse_costs(text);
    return read ? std::string("read") : to_string(read.error());
  };
  EXPECT_EQ(said(""), "no costs; they begin with 'gantry-costs 1'");
  EXPECT_EQ(said("gantry-costs 2\n"),
            "line 1: no costs of this version; the first line is 'gantry-costs 1'");
  EXPECT_EQ(said("gantry-costs 1\n"), "'product-start-ns' is missing");
  EXPECT_EQ(said(changed("cpus", "cpus")), "line 17: 'cpus': its value is missing");
  EXPECT_EQ(said(changed("cpus", "cpus many")), "line 17: 'many' is not a number");
  EXPECT_EQ(said(changed("cpus", "cpus 1 2")), "line 17: unexpected '2' after the statement");
  EXPECT_EQ(said(changed("cpus", "cpus nan")), "CPUs is nan; 0 to 1000000");
  EXPECT_EQ(said(changed("cpus", "cpus -1")), "CPUs is -1; 0 to 1000000");
  EXPECT_EQ(said(changed("cpus", "gpus 1")), "line 17: unknown key 'gpus'");
  EXPECT_EQ(said(changed("cpus", "copy-start-ns 1")), "line 17: 'copy-start-ns' is set already");
  EXPECT_EQ(said(changed("topology", "topology ring")),
            "line 3: unknown topology 'ring'; mesh or switch");
  EXPECT_EQ(said(changed("link-bytes-per-s", "link-bytes-per-s 0")),
            "rate of a link is 0; 0.001 to 1e+30");
  EXPECT_EQ(said(changed("link-bytes-per-s", "link-bytes-per-s inf")),
            "rate of a link is inf; 0.001 to 1e+30");
  EXPECT_EQ(said(changed("link 0", "link 0 1 1")), "line 22: a number is missing");
  EXPECT_EQ(said(changed("link 0", "link 1 0 1 1")), "line 23: link 1 0 is set already");
  EXPECT_EQ(said(changed("link 0", "link 2 2 1 1")), "a link from rank 2 to itself");
  EXPECT_EQ(said(changed("link 0", "link 0 99999 1 1")),
            "line 22: link 0 99999: ranks must be below 4096");
  EXPECT_EQ(said(changed("name", "name a\tb")),
            "line 2: unexpected character: printable ASCII only");
  EXPECT_EQ(to_string(published_costs("mine").error()),
            "there are no costs 'mine'; published/mi300x-8, or a file");
}

TEST(ScheduleCosts, TextsOfBeforeHaveNoCpuTimeOfRows) {
  std::string text = to_text(some_costs());
  for (const char* const key : {"\ncpu-s-per-transfer", "\ncpu-s-per-row"}) {
    const std::size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    text.erase(at, text.find('\n', at + 1) - at);
  }
  const auto read = parse_costs(text);
  ASSERT_TRUE(read) << to_string(read.error());
  ScheduleCosts before = some_costs();
  before.cpu_s_per_transfer = before.cpu_s_per_row = 0;
  EXPECT_EQ(*read, before);
  EXPECT_EQ(to_string(parse_costs(changed("cpu-s-per-row", "cpu-s-per-row -1")).error()),
            "CPU time of a row is -1; 0 to 1000");
}

TEST(ScheduleCosts, AProductTakesWhatTheFormulaSays) {
  const ProductCosts costs{2000, 1e9, 10, 20, 30, 4e6};
  EXPECT_DOUBLE_EQ(seconds_of_product(costs, 100, 200, 300, false, 4),
                   2e-6 + 2 * 100 * 200 * 300 / 1e9 * 1.1 * 1.1 * 1.1);
  EXPECT_DOUBLE_EQ(seconds_of_product(costs, 100, 200, 300, true, 4),
                   2e-6 + 2 * 100 * 200 * 300 / 1e9 * 1.1 * 1.1 * 1.1 + 2 * 100 * 200 * 4 / 4e6);
  EXPECT_DOUBLE_EQ(seconds_of_product(costs, 100, 0, 300, true, 4), 2e-6);
}

TEST(ScheduleCosts, AFitFindsWhatMadeTheSamples) {
  const ProductCosts truth{5000, 2e11, 24, 6, 90, 8e9};
  std::mt19937_64 random(test_seed(3));
  std::vector<ProductSample> samples;
  for (int i = 0; i < 60; ++i) {
    const auto size = [&] { return std::int64_t{1} << (4 + random() % 8); };
    ProductSample one{size(), size(), size(), i % 3 == 0, 0};
    one.seconds = seconds_of_product(truth, static_cast<double>(one.m), static_cast<double>(one.n),
                                     static_cast<double>(one.k), one.adds, 4);
    samples.push_back(one);
  }
  const auto fit = fit_products(samples, 4);
  ASSERT_TRUE(fit) << to_string(fit.error());
  EXPECT_LT(fit->error, 0.01);
  for (const ProductSample& one : samples)
    EXPECT_NEAR(
        seconds_of_product(fit->costs, static_cast<double>(one.m), static_cast<double>(one.n),
                           static_cast<double>(one.k), one.adds, 4) /
            one.seconds,
        1, 0.05);
  EXPECT_NEAR(fit->costs.flops_per_s / truth.flops_per_s, 1, 0.05);
}

// All have the same n; adding takes no time, as far as noise tells.
TEST(ScheduleCosts, AFitSaysNothingOfWhatSamplesDoNotTell) {
  const ProductCosts truth{5000, 2e11, 24, 0, 90, 1e30};
  std::mt19937_64 random(test_seed(4));
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  std::vector<ProductSample> samples;
  for (const std::int64_t m : {16, 64, 256, 1024})
    for (const std::int64_t k : {32, 256, 2048})
      for (const bool adds : {false, true}) {
        ProductSample one{m, 512, k, adds, 0};
        one.seconds =
            noise(random) * (adds ? 0.99 : 1) *
            seconds_of_product(truth, static_cast<double>(m), 512, static_cast<double>(k), adds, 4);
        samples.push_back(one);
      }
  const auto fit = fit_products(samples, 4);
  ASSERT_TRUE(fit) << to_string(fit.error());
  EXPECT_LT(fit->error, 0.05);
  EXPECT_EQ(fit->costs.n_knee, 0);
  // Its traffic is a hundredth of the product for which that is most.
  double most = 0;
  for (const ProductSample& one : samples)
    if (one.adds)
      most = std::max(most, 2 * static_cast<double>(one.m) * 512 * 4 /
                                fit->costs.adding_bytes_per_s / one.seconds);
  EXPECT_DOUBLE_EQ(most, 0.01);
  std::erase_if(samples, [](const ProductSample& one) { return one.adds; });
  EXPECT_EQ(fit_products(samples, 4)->costs.adding_bytes_per_s, ProductCosts{}.adding_bytes_per_s);
}

// Times of tiny products are mostly noise; whatever they are, what is made of them reads back.
TEST(ScheduleCosts, AFitOfNoiseStaysWithinWhatCostsMayBe) {
  std::mt19937_64 random(test_seed(5));
  std::uniform_real_distribution<double> noise(1e-7, 1e-4);
  for (int i = 0; i < 200; ++i) {
    std::vector<ProductSample> samples;
    for (const std::int64_t m : {1, 2, 3})
      for (const std::int64_t k : {1, 2}) samples.push_back({m, 1, k, k == 1, noise(random)});
    const auto fit = fit_products(samples, 4);
    if (!fit) continue;  // nothing explains them
    ScheduleCosts costs;
    costs.product = fit->costs;
    const auto read = parse_costs(to_text(costs));
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(*read, costs);
  }
}

TEST(ScheduleCosts, AFitRefusesSamplesThatSayNothing) {
  const ProductSample good{4, 4, 4, false, 1e-6};
  const auto refused = [&](std::vector<ProductSample> samples) {
    const auto fit = fit_products(samples, 4);
    return fit ? std::string() : fit.error().message;
  };
  EXPECT_EQ(refused({good, good, good}), "3 measured products");
  ProductSample bad = good;
  bad.seconds = 0;
  EXPECT_EQ(refused({good, good, good, bad}), "a product of 4 x 4 x 4 in 0 s");
  bad.seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refused({good, good, good, bad}), "");
  EXPECT_EQ(refused({good, good, good, good}), "");  // one size: some rate explains it
}

TEST(ScheduleCosts, QuoteNoMoreThanTheBeginningOfAWord) {
  const std::string word(1 << 20, 'x');
  for (const std::string& line : {word, word + " 1", "topology " + word, "cpus " + word,
                                  "link " + word + " 1 1 1", word + " 1 2"})
    EXPECT_LT(parse_costs("gantry-costs 1\n" + line + "\n").error().message.size(), 200u)
        << line.substr(0, 30);
  EXPECT_LT(published_costs(word).error().message.size(), 200u);
}

}  // namespace
}  // namespace gantry
