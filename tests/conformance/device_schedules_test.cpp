#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <gantry/gemm.hpp>

#include "core/base/test_effort.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device_suite.hpp"
#include "ranks/schedule/product/test_sharded.hpp"
#include "ranks/schedule/run/plan_run.hpp"

// Any way of overlapping a sharded product's data with its computation, computed by each device:
// the bits of exact sums.
namespace gantry {
namespace {

using DeviceSchedules = DeviceConformance;
INSTANTIATE_TEST_SUITE_P(Devices, DeviceSchedules, testing::ValuesIn(kDevices), device_name);

// A device whose memory is its own is worth more of them than what stands in for it here.
int schedules_for(const DeviceCase& device) {
  return (device.name == std::string_view("cuda") ? 2000 : 80) / kTestStride;
}

// Products that wait for nobody but for what they need, beside the copies of what moves.
TEST_P(DeviceSchedules, AnyOneGivesExactSums) {
  const auto library = open_gemm(device_);
  ASSERT_TRUE(library) << to_string(library.error());
  test::Random random(22);
  for (int i = schedules_for(GetParam()); i > 0 && !HasFailure(); --i) {
    const OverlapOperator op = test::random_operator(random);
    ShardedProductOptions options;
    options.schedule = test::random_schedule(op, random);
    options.device = device_;
    options.device_gemm = *library;
    test::at_all_ranks(op.ranks, test::Via::shared, [&](Group& group) {
      auto product = ShardedProduct::prepare(group, op, options);
      ASSERT_TRUE(product) << to_string(product.error());
      for (int run = 0; run < 2; ++run) test::run_and_compare(*product, op, group.rank());
    });
  }
}

// As a library for products in host memory.
TEST_P(DeviceSchedules, AnyOneGivesExactSumsByProductsOfTheHost) {
  const auto library = open_gemm(device_);
  ASSERT_TRUE(library) << to_string(library.error());
  test::Random random(21);
  for (int i = schedules_for(GetParam()); i > 0 && !HasFailure(); --i) {
    const OverlapOperator op = test::random_operator(random);
    ShardedProductOptions options;
    options.schedule = test::random_schedule(op, random);
    test::at_all_ranks(op.ranks, test::Via::shared, [&](Group& group) {
      ShardedProductOptions own = options;  // each rank has a queue
      const auto gemm = make_host_gemm(device_, *library);
      ASSERT_TRUE(gemm) << to_string(gemm.error());
      own.gemm = *gemm;
      auto product = ShardedProduct::prepare(group, op, own);
      ASSERT_TRUE(product) << to_string(product.error());
      test::run_and_compare(*product, op, group.rank());
    });
  }
}

// ---- memory of the device ----------------------------------------------------------------------

/// An all-gather of whole numbers into a product whose b and c lie on the device.
class OnDevice {
 public:
  static constexpr std::int64_t kRows = 16;  // and columns, and depth
  static constexpr DataType kType{DataType::floating, 32, 1};
  static Plan plan() {
    const OverlapOperator op{OverlapKind::all_gather_gemm, kRows, kRows, kRows, kType, 2};
    return *make_plan(op, {.pattern = SchedulePattern::ring, .chunks = 2});
  }
  static float a(std::int64_t row, std::int64_t col) {
    return static_cast<float>((row * 5 + col) % 7);
  }
  static float b(std::int64_t row, std::int64_t col) {
    return static_cast<float>((row + col * 3) % 5);
  }
};

TEST_P(DeviceSchedules, TensorsMayLieOnTheDevice) {
  constexpr std::int64_t kAll = OnDevice::kRows, kOwn = kAll / 2;
  const auto library = open_gemm(device_);
  ASSERT_TRUE(library) << to_string(library.error());
  test::at_all_ranks(2, test::Via::shared, [&](Group& group) {
    const Plan plan = OnDevice::plan();
    const std::int64_t first = group.rank() * kOwn;
    std::vector<float> b(kAll * kOwn), c(kAll * kOwn);
    for (std::int64_t i = 0; i < kAll; ++i)
      for (std::int64_t j = 0; j < kOwn; ++j)
        b[static_cast<std::size_t>(i * kOwn + j)] = OnDevice::b(i, first + j);
    const Bytes bytes = b.size() * sizeof(float);
    const DeviceBuffer on_device[] = {buffer(bytes), buffer(bytes)};
    ASSERT_TRUE(in_->copy_in(on_device[0], 0, std::as_bytes(std::span(b)))->wait());
    const PlanMemory own[] = {{}, {.buffer = &on_device[0]}, {.buffer = &on_device[1]}};
    const PlanBuffers buffers = *PlanBuffers::make(plan, group.rank(), own);
    auto* const a = reinterpret_cast<float*>(buffers.tensors[0].data);
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors,
                                          {.device = device_, .device_gemm = *library});
    ASSERT_TRUE(executor) << to_string(executor.error());
    for (int run = 0; run < 3; ++run) {
      for (std::int64_t i = 0; i < kAll; ++i)
        for (std::int64_t j = 0; j < kAll; ++j)
          a[i * kAll + j] = i / kOwn == group.rank() ? OnDevice::a(i + run, j) : -1;
      const auto ran = executor->run();
      ASSERT_TRUE(ran) << to_string(ran.error());
      ASSERT_TRUE(out_->copy_out(on_device[1], 0, std::as_writable_bytes(std::span(c)))->wait());
      for (std::int64_t i = 0; i < kAll; ++i)
        for (std::int64_t j = 0; j < kOwn; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < kAll; ++k)
            sum += OnDevice::a(i + run, k) * OnDevice::b(k, first + j);
          ASSERT_EQ(c[static_cast<std::size_t>(i * kOwn + j)], sum) << i << ' ' << j;
        }
    }
  });
}

TEST_P(DeviceSchedules, TensorsThatMoveMayNotLieOnTheDevice) {
  const DeviceBuffer large = buffer(4096), small = buffer(64);
  const auto refused = [&](unsigned tensor, PlanMemory memory, std::shared_ptr<Device> device) {
    std::string why;
    test::at_all_ranks(2, test::Via::shared, [&](Group& group) {
      const Plan plan = OnDevice::plan();
      PlanBuffers buffers = *PlanBuffers::make(plan, group.rank());
      if (group.rank() == 0) buffers.tensors[tensor] = memory;
      const auto made = PlanExecutor::prepare(group, plan, buffers.tensors, {.device = device});
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code, Code::invalid_argument);
      if (group.rank() == 1) why = made.error().message;
    });
    return why;
  };
  EXPECT_EQ(refused(0, {.buffer = &large}, device_),
            "rank 0, tensor a: it lies on the device, and not only products touch it");
  EXPECT_EQ(refused(1, {.buffer = &small}, device_), "rank 0, tensor b: its buffer is too small");
  const auto other = *make_cpu_device();
  const auto elsewhere = other->allocate(4096).value();
  EXPECT_EQ(refused(1, {.buffer = &elsewhere}, device_),
            fmt::format("rank 0, tensor b: {}: copy-in: the buffer is another device's",
                        device_->facts().name));
  EXPECT_EQ(refused(1, {.buffer = &large}, nullptr),
            "rank 0, tensor b: it lies on a device, and products are computed by the host");
}

// The first product behind a device that is given up is the step at which all are told that the
// rank failed: at the latest when they run again.
TEST_P(DeviceSchedules, ADeviceThatIsGoneIsAFailureOfItsRank) {
  std::barrier both_have_run(2);
  test::at_all_ranks(2, test::Via::shared, [&](Group& group) {
    const Plan plan = OnDevice::plan();
    const PlanBuffers buffers = *PlanBuffers::make(plan, group.rank());
    auto executor = PlanExecutor::prepare(group, plan, buffers.tensors,
                                          {.device = group.rank() == 0 ? device_ : nullptr});
    ASSERT_TRUE(executor) << to_string(executor.error());
    ASSERT_TRUE(executor->run());
    both_have_run.arrive_and_wait();
    if (group.rank() == 0) device_->abandon("the test's");
    auto ran = executor->run();
    if (group.rank() == 1 && ran) ran = executor->run();
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::device_lost) << to_string(ran.error());
    EXPECT_EQ(ran.error().message.rfind("rank 0: step ", 0), 0u) << ran.error().message;
    EXPECT_NE(ran.error().message.find("(gemm, rank 0)"), std::string::npos) << ran.error().message;
  });
}

// ---- steps in any order -----------------------------------------------------------------------

constexpr std::int64_t kSide = 24;
constexpr unsigned kHostTensors = 4;
constexpr unsigned kTensors = 6;  // the last ones lie on the device, for products alone
const DataType kWhole{DataType::signed_int, 32, 1};

using Matrix = std::vector<std::uint32_t>;  // kSide x kSide; sums and products wrap around

bool overlap(const PlanPlace& one, const PlanPlace& other) {
  const PlanRect &a = one.rect, &b = other.rect;
  return one.tensor == other.tensor && a.row < b.row + b.rows && b.row < a.row + a.rows &&
         a.col < b.col + b.cols && b.col < a.col + a.cols;
}

/// Whether one of them writes where the other one reads or writes.
bool touch(const PlanStep& one, const PlanStep& other) {
  const auto writes_for = [](const PlanStep& from, const PlanStep& to) {
    if (overlap(from.to, to.to)) return true;
    if (to.verb == PlanVerb::fill) return false;
    return overlap(from.to, to.from) || (to.verb == PlanVerb::gemm && overlap(from.to, to.other));
  };
  return writes_for(one, other) || writes_for(other, one);
}

/// Steps of one rank, each behind those that it needs or that need what it writes over; in chains
/// behind the one before.
Plan random_steps(test::Random& random, unsigned count) {
  Plan plan{.ranks = 1, .lanes = 3};
  for (unsigned i = 0; i < kTensors; ++i)
    plan.tensors.push_back({fmt::format("t{}", i), kSide, kSide, kWhole});
  const auto below = [&](std::int64_t end) { return test::pick(random, 0, end - 1); };
  const bool is_chain = below(2) == 0;
  const auto place = [&](unsigned tensor, std::int64_t rows, std::int64_t cols) {
    const auto from = [&](std::int64_t size) {
      return is_chain ? below(kSide - size + 1) : below(2) * (kSide / 2);
    };
    return PlanPlace{0, tensor, {from(rows), from(cols), rows, cols}};
  };
  const auto other_than = [&](unsigned tensors, std::initializer_list<unsigned> taken) {
    for (;;)
      if (const auto one = static_cast<unsigned>(below(tensors));
          std::ranges::count(taken, one) == 0)
        return one;
  };
  // Few sizes and places, so that many steps meet in one.
  const auto size = [&] { return test::pick(random, 0, 3) * (kSide / 6); };
  for (unsigned i = 0; i < count; ++i) {
    PlanStep step;
    const std::int64_t m = size(), n = size(), k = size();
    if (below(10) < 6) {
      step.verb = PlanVerb::gemm;
      const unsigned to = other_than(kTensors, {});
      step.to = place(to, m, n);
      step.from = place(other_than(kTensors, {to}), m, k);
      step.other = place(other_than(kTensors, {to}), k, n);
      step.adds = below(2) == 0;
      const PlanStep* const last = plan.steps.empty() ? nullptr : &plan.steps.back();
      if (last != nullptr && last->verb == PlanVerb::gemm && below(3) == 0) {  // a chain of sums
        step = *last;
        step.after.clear();
        step.adds = true;
      }
    } else {
      step.verb = std::array{PlanVerb::copy, PlanVerb::reduce, PlanVerb::fill}.at(
          static_cast<std::size_t>(below(3)));
      const unsigned to = other_than(kHostTensors, {});
      step.to = place(to, m, n);
      step.from = place(other_than(kHostTensors, {to}), m, n);
    }
    step.lane = static_cast<unsigned>(below(plan.lanes));
    for (unsigned j = 0; j < i; ++j)
      if (is_chain ? j + 1 == i : touch(plan.steps[j], step)) step.after.push_back(j);
    plan.steps.push_back(step);
  }
  return plan;
}

void do_one_by_one(const Plan& plan, std::vector<Matrix>& tensors) {
  const auto at = [&](const PlanPlace& place, std::int64_t i, std::int64_t j) -> std::uint32_t& {
    return tensors[place.tensor]
                  [static_cast<std::size_t>((place.rect.row + i) * kSide + place.rect.col + j)];
  };
  for (const PlanStep& step : plan.steps)
    for (std::int64_t i = 0; i < step.to.rect.rows; ++i)
      for (std::int64_t j = 0; j < step.to.rect.cols; ++j) {
        std::uint32_t& cell = at(step.to, i, j);
        if (step.verb == PlanVerb::fill || step.verb == PlanVerb::copy || !step.adds)
          if (step.verb != PlanVerb::reduce) cell = 0;
        if (step.verb == PlanVerb::copy || step.verb == PlanVerb::reduce)
          cell += at(step.from, i, j);
        for (std::int64_t k = 0; step.verb == PlanVerb::gemm && k < step.from.rect.cols; ++k)
          cell += at(step.from, i, k) * at(step.other, k, j);
      }
}

ByteSpan bytes_of(Matrix& matrix) {
  return std::as_writable_bytes(std::span(matrix));
}

TEST_P(DeviceSchedules, StepsOfTheHostAndOfTheDeviceSeeEachOther) {
  const auto library = open_gemm(device_);
  ASSERT_TRUE(library) << to_string(library.error());
  if (!(*library)->takes(kWhole)) GTEST_SKIP() << "no products of whole numbers";
  test::Random random(23);
  for (int tries = schedules_for(GetParam()); tries > 0 && !HasFailure(); --tries) {
    const Plan plan = random_steps(random, 40);
    std::vector<Matrix> is(kTensors, Matrix(kSide * kSide));
    for (Matrix& matrix : is)
      for (std::uint32_t& cell : matrix) cell = static_cast<std::uint32_t>(random());
    std::vector<Matrix> should = is;
    std::vector<DeviceBuffer> buffers;
    std::vector<PlanMemory> memory;
    for (unsigned i = 0; i < kTensors; ++i) {
      if (i < kHostTensors) {
        memory.push_back({reinterpret_cast<std::byte*>(is[i].data())});
      } else {
        buffers.push_back(buffer(bytes_of(is[i]).size()));
        ASSERT_TRUE(in_->copy_in(buffers.back(), 0, bytes_of(is[i]))->wait());
      }
    }
    for (const DeviceBuffer& one : buffers) memory.push_back({.buffer = &one});
    test::at_all_ranks(1, test::Via::stream, [&](Group& group) {
      PreparedPlan prepared{plan, 0, RankScript(plan, 0, true), PlanPlaces(plan)};
      prepared.places = *PlanPlaces::of(prepared.plan, 0, memory);
      RankComputing computing;
      computing.ended = *EndedSteps::make();
      computing.host = *HostSteps::start(prepared.plan, prepared.places, nullptr, *computing.ended);
      computing.device = *DeviceSteps::start(prepared.plan, 0, prepared.places, device_, *library,
                                             *computing.ended);
      for (int run = 0; run < 2; ++run) {
        do_one_by_one(plan, should);
        const auto ran = run_plan(prepared, group.impl(), computing, Deadline::never());
        ASSERT_TRUE(ran) << to_string(ran.error());
      }
    });
    for (unsigned i = kHostTensors; i < kTensors; ++i)
      ASSERT_TRUE(out_->copy_out(buffers[i - kHostTensors], 0, bytes_of(is[i]))->wait());
    ASSERT_EQ(is, should) << to_text(plan);
  }
}

}  // namespace
}  // namespace gantry
