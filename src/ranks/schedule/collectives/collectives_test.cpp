// Property: a collective leaves at each rank what its name says, for any type, size and number of
// ranks, each time it is run. Method: small whole numbers, which all types add exactly, by threads
// as ranks; loops over elements say what has to come out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <fstream>
#include <gantry/collectives.hpp>

#include "core/base/half_float.hpp"
#include "core/base/test_effort.hpp"
#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using test::Via;

constexpr std::array kTypes = {
    DataType{DataType::floating, 32, 1},   DataType{DataType::signed_int, 64, 1},
    DataType{DataType::bfloat, 16, 1},     DataType{DataType::floating, 64, 1},
    DataType{DataType::signed_int, 32, 1}, DataType{DataType::floating, 16, 1}};
constexpr std::array kEvery = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                               CollectiveKind::all_reduce, CollectiveKind::all_to_all,
                               CollectiveKind::broadcast};
constexpr int kUntouched = 77;

/// What rank `rank` has at `at` in a run.
int value_of(unsigned rank, std::int64_t at, unsigned run) {
  return static_cast<int>((at * 7 + std::int64_t{rank} * 13 + std::int64_t{run} * 5) % 23) - 11;
}

template <class Number>
void put_number(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof number);
}
template <class Number>
Number number_at(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

/// Elements of any type, in a region or not.
class Elements {
 public:
  Elements(DataType type, std::int64_t size, bool in_region)
      : type_(type),
        bytes_(type.bits / 8),
        heap_(static_cast<std::size_t>(size) * bytes_ / sizeof(std::uint64_t) + 1) {
    if (in_region) region_ = Region::create(heap_.size() * sizeof(std::uint64_t), "test").value();
    tensor.data = region_ ? region_->data() : reinterpret_cast<std::byte*>(heap_.data());
    tensor.size = size;
    tensor.type = type;
    tensor.region = region_ ? &*region_ : nullptr;
  }
  void set(std::int64_t at, int value) {
    std::byte* const to = tensor.data + at * static_cast<std::int64_t>(bytes_);
    if (type_.code == DataType::signed_int)
      return bytes_ == 8 ? put_number<std::int64_t>(to, value)
                         : put_number<std::int32_t>(to, value);
    if (type_.code == DataType::bfloat)
      return put_number(to, bf16_of_float(static_cast<float>(value)));
    if (bytes_ == 2) return put_number(to, f16_of_float(static_cast<float>(value)));
    bytes_ == 8 ? put_number<double>(to, value) : put_number(to, static_cast<float>(value));
  }
  double get(std::int64_t at) const {
    const std::byte* const from = tensor.data + at * static_cast<std::int64_t>(bytes_);
    if (type_.code == DataType::signed_int)
      return bytes_ == 8 ? static_cast<double>(number_at<std::int64_t>(from))
                         : number_at<std::int32_t>(from);
    if (type_.code == DataType::bfloat) return float_of_bf16(number_at<std::uint16_t>(from));
    if (bytes_ == 2) return float_of_f16(number_at<std::uint16_t>(from));
    return bytes_ == 8 ? number_at<double>(from) : number_at<float>(from);
  }

  CollectiveTensor tensor;

 private:
  DataType type_;
  Bytes bytes_;
  std::vector<std::uint64_t> heap_;
  std::optional<Region> region_;
};

/// One collective as one rank sees it.
struct Sight {
  CollectiveKind kind = CollectiveKind::all_reduce;
  unsigned ranks = 1;
  unsigned rank = 0;
  std::int64_t size = 0;
  unsigned root = 0;

  std::int64_t border(unsigned piece) const { return size * piece / ranks; }
  std::int64_t result_size() const {
    std::int64_t most = 0;
    for (unsigned q = 0; q < ranks; ++q) most = std::max(most, border(q + 1) - border(q));
    return most * ranks;
  }
  int sum_at(std::int64_t at, unsigned run) const {
    int sum = 0;
    for (unsigned q = 0; q < ranks; ++q) sum += value_of(q, at, run);
    return sum;
  }
  unsigned owner_of(std::int64_t at) const {
    unsigned owner = 0;
    while (border(owner + 1) <= at) ++owner;
    return owner;
  }
  /// Of the tensor, or of the result of an all-to-all.
  int wanted(std::int64_t at, unsigned run) const {
    switch (kind) {
      case CollectiveKind::all_gather:
        return value_of(owner_of(at), at, run);
      case CollectiveKind::reduce_scatter:
        return owner_of(at) == rank ? sum_at(at, run) : value_of(rank, at, run);
      case CollectiveKind::all_reduce:
        return sum_at(at, run);
      case CollectiveKind::broadcast:
        return value_of(root, at, run);
      default:
        break;
    }
    const std::int64_t length = border(rank + 1) - border(rank);
    if (at >= length * ranks) return kUntouched;
    return value_of(static_cast<unsigned>(at / length), border(rank) + at % length, run);
  }
};

void run_and_compare(Group& group, const Sight& sight, DataType type, bool in_region,
                     const CollectiveOptions& options, unsigned runs) {
  const bool exchanges = sight.kind == CollectiveKind::all_to_all;
  Elements x(type, sight.size, in_region);
  Elements y(type, exchanges ? sight.result_size() : 0, in_region);
  const std::string what = std::string(to_string(sight.kind)) + ", rank " +
                           std::to_string(sight.rank) + " of " + std::to_string(sight.ranks) +
                           ", size " + std::to_string(sight.size);
  auto made = Collective::prepare(group, {sight.kind, x.tensor, y.tensor, sight.root}, options);
  ASSERT_TRUE(made) << what << ": " << to_string(made.error());
  for (unsigned run = 0; run < runs; ++run) {
    for (std::int64_t at = 0; at < sight.size; ++at) x.set(at, value_of(sight.rank, at, run));
    for (std::int64_t at = 0; at < y.tensor.size; ++at) y.set(at, kUntouched);
    const auto done = made->run();
    ASSERT_TRUE(done) << what << ": " << to_string(done.error());
    const Elements& result = exchanges ? y : x;
    std::int64_t wrong = 0;
    for (std::int64_t at = 0; at < result.tensor.size; ++at)
      wrong += result.get(at) == sight.wanted(at, run) ? 0 : 1;
    EXPECT_EQ(wrong, 0) << what << ", run " << run << ", " << made->choice().program;
  }
}

/// The sizes of ThreadSanitizer leave out some of each eight.
const std::int64_t kSizeStep = has_thread_sanitizer() ? 13 : kTestStride == 1 ? 1 : 7;

class CollectiveRuns : public testing::TestWithParam<Via> {};

TEST_P(CollectiveRuns, EverySizeAndTypeAtUpToFiveRanks) {
  for (unsigned ranks = 1; ranks <= 5; ++ranks)
    test::at_all_ranks(ranks, GetParam(), [&](Group& group) {
      for (const CollectiveKind kind : kEvery)
        for (std::int64_t size = 0; size <= 40; size += kSizeStep)
          run_and_compare(group,
                          {kind, ranks, group.rank(), size, static_cast<unsigned>(size) % ranks},
                          kTypes[static_cast<std::size_t>(size) % kTypes.size()], size % 4 < 2, {},
                          size % 8 == 0 ? 3 : 1);
    });
}

// Sizes at which the picked program, variant and chunks differ.
TEST_P(CollectiveRuns, LargeOnesOfEveryType) {
  for (const unsigned ranks : {2u, 3u})
    test::at_all_ranks(ranks, GetParam(), [&](Group& group) {
      for (const CollectiveKind kind : kEvery)
        for (const std::int64_t size : {9'001, 70'000, 600'011})
          for (const DataType type : kTypes)
            if (size < 600'000 ? kTestStride == 1 || type.bits == 32
                               : !has_thread_sanitizer() && type.bits == 32)
              run_and_compare(group, {kind, ranks, group.rank(), size, ranks - 1}, type,
                              type.code != DataType::bfloat, {}, 2);
    });
}

TEST_P(CollectiveRuns, EveryProgramAndVariantMayBeAskedFor) {
  const auto programs = list_collectives();
  ASSERT_TRUE(programs);
  for (const unsigned ranks : {2u, 4u})
    test::at_all_ranks(ranks, GetParam(), [&](Group& group) {
      for (const CollectiveProgram& program : *programs)
        for (const CollectiveKind kind : kEvery) {
          if (!program.name().starts_with(to_string(kind)) || program.name().ends_with("counts"))
            continue;
          for (const std::string& variant : program.variants())
            run_and_compare(
                group, {kind, ranks, group.rank(), has_thread_sanitizer() ? 2'003 : 20'003, 1},
                kTypes[0], true, {.program = program.name(), .variant = variant, .chunks = 3}, 3);
        }
    });
}

TEST_P(CollectiveRuns, CountsMayDiffer) {
  constexpr unsigned kRanks = 3;
  const std::vector<std::int64_t> counts = {2, 0, 5, 1, 3, 0, 0, 0, 4};
  test::at_all_ranks(kRanks, GetParam(), [&](Group& group) {
    const unsigned rank = group.rank();
    Elements x(kTypes[1], 9, true);
    Elements y(kTypes[1], 10, true);
    for (std::int64_t at = 0; at < 9; ++at)
      x.set(at, static_cast<int>(std::int64_t{100} * rank + at));
    for (std::int64_t at = 0; at < 10; ++at) y.set(at, kUntouched);
    const auto done = all_to_all(group, x.tensor, y.tensor, counts);
    ASSERT_TRUE(done) << to_string(done.error());
    const std::vector<std::vector<int>> wanted = {
        {0, 1, 100}, {101, 102, 103}, {2, 3, 4, 5, 6, 200, 201, 202, 203}};
    for (std::size_t at = 0; at < 10; ++at)
      EXPECT_EQ(y.get(static_cast<std::int64_t>(at)),
                at < wanted[rank].size() ? wanted[rank][at] : kUntouched)
          << "rank " << rank << ", element " << at;
  });
}

TEST_P(CollectiveRuns, OneCallIsEnough) {
  test::at_all_ranks(3, GetParam(), [&](Group& group) {
    const unsigned rank = group.rank();
    Elements x(kTypes[0], 7, false);
    const auto fill = [&] {
      for (std::int64_t at = 0; at < 7; ++at) x.set(at, value_of(rank, at, 0));
    };
    const auto compare = [&](CollectiveKind kind) {
      for (std::int64_t at = 0; at < 7; ++at)
        EXPECT_EQ(x.get(at), (Sight{kind, 3, rank, 7, 1}.wanted(at, 0))) << to_string(kind);
    };
    fill();
    ASSERT_TRUE(all_reduce(group, x.tensor));
    compare(CollectiveKind::all_reduce);
    fill();
    ASSERT_TRUE(all_gather(group, x.tensor));
    compare(CollectiveKind::all_gather);
    fill();
    ASSERT_TRUE(reduce_scatter(group, x.tensor));
    compare(CollectiveKind::reduce_scatter);
    fill();
    ASSERT_TRUE(broadcast(group, x.tensor, 1));
    compare(CollectiveKind::broadcast);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, CollectiveRuns, testing::Values(Via::stream, Via::shared),
                         [](const auto& of) {
                           return of.param == Via::stream ? "stream" : "shared";
                         });

// ---- ranks that do not agree, and calls that make no sense -----------------------------------

/// What each rank is told when the call differs by rank; every rank has to fail.
std::vector<Error> errors_of(unsigned ranks, const std::function<CollectiveCall(unsigned)>& call,
                             const std::function<CollectiveOptions(unsigned)>& options = {}) {
  std::vector<Error> errors(ranks);
  std::vector<std::int64_t> memory(std::size_t{1000} * ranks);
  std::barrier all_have_joined(ranks);
  test::at_all_ranks(ranks, Via::stream, [&](Group& group) {
    const unsigned rank = group.rank();
    CollectiveCall own = call(rank);
    own.tensor.data = reinterpret_cast<std::byte*>(memory.data() + std::size_t{1000} * rank);
    own.tensor.type = test::kPlanType;
    own.result.type = test::kPlanType;
    all_have_joined.arrive_and_wait();
    const auto made = Collective::prepare(group, own, options ? options(rank) : CollectiveOptions{},
                                          Deadline::after(std::chrono::seconds(60)));
    ASSERT_FALSE(made) << "rank " << rank;
    errors[rank] = made.error();
    EXPECT_FALSE(group.state());
    EXPECT_FALSE(all_reduce(group, own.tensor));
  });
  return errors;
}

CollectiveCall sum_of(std::int64_t size) {
  return {CollectiveKind::all_reduce, {nullptr, size}};
}

TEST(CollectiveErrors, RanksThatDifferEndWithOneLineEach) {
  const auto sizes = errors_of(3, [](unsigned rank) { return sum_of(rank == 1 ? 8 : 9); });
  for (const Error& error : sizes) {
    EXPECT_EQ(error.code, Code::invalid_argument);
    EXPECT_NE(error.message.find("'size 8 i64' at rank 1"), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
  }
  const auto roots = errors_of(2, [](unsigned rank) {
    return CollectiveCall{CollectiveKind::broadcast, {nullptr, 5}, {}, rank};
  });
  for (const Error& error : roots)
    EXPECT_NE(error.message.find("different plans: 'root 0' at rank 0, 'root 1' at rank 1"),
              std::string::npos)
        << error.message;
  const auto programs = errors_of(
      2, [](unsigned) { return sum_of(8); },
      [](unsigned rank) {
        return CollectiveOptions{.program = rank == 0 ? "all-reduce-ring" : "all-reduce-direct"};
      });
  for (const Error& error : programs)
    EXPECT_NE(error.message.find("have different plans"), std::string::npos) << error.message;
}

TEST(CollectiveErrors, WhatOneRankCannotDoIsToldToAll) {
  const auto errors = errors_of(
      3, [](unsigned) { return sum_of(8); },
      [](unsigned rank) { return CollectiveOptions{.program = rank == 2 ? "all-redcue" : ""}; });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::not_found);
    EXPECT_EQ(error.message, "rank 2, all-reduce: there is no collective 'all-redcue'");
  }
}

TEST(CollectiveErrors, CallsThatMakeNoSense) {
  const auto message = [](const CollectiveCall& call, const CollectiveOptions& options = {}) {
    return errors_of(
               1, [&](unsigned) { return call; }, [&](unsigned) { return options; })
        .front()
        .message;
  };
  EXPECT_EQ(message(sum_of(-1)), "rank 0, all-reduce: the tensor: -1 elements; 0 to 1099511627776");
  EXPECT_EQ(message({CollectiveKind::broadcast, {nullptr, 5}, {}, 1}),
            "rank 0, broadcast: root 1 of 1 ranks");
  EXPECT_EQ(message({CollectiveKind::all_to_all, {nullptr, 5}, {nullptr, 5}}),
            "rank 0, all-to-all: the result: 5 elements in no memory");
  std::int64_t one = 0;
  auto* const there = reinterpret_cast<std::byte*>(&one);
  EXPECT_EQ(message({CollectiveKind::all_to_all, {nullptr, 5}, {there, 1}}),
            "rank 0, all-to-all: the result has room for 1 elements; it takes 5");
  EXPECT_EQ(message({CollectiveKind::all_to_all, {nullptr, 5}, {there, 1}, 0, {1, 1}}),
            "rank 0, all-to-all: 2 counts for 1 ranks");
  EXPECT_EQ(message({CollectiveKind::all_to_all, {nullptr, 5}, {there, 1}, 0, {-1}}),
            "rank 0, all-to-all: a count of -1");
  EXPECT_EQ(message(sum_of(4), {.variant = "quick"}),
            "rank 0, all-reduce: all-reduce-direct: there is no variant 'quick'");
  EXPECT_EQ(message(sum_of(4), {.program = "all-to-all"}),
            "rank 0, all-reduce: all-to-all: rank 0: it wants more: y 0:4");
  const auto region = Region::create(64, "test");
  ASSERT_TRUE(region);
  EXPECT_EQ(message({CollectiveKind::all_reduce, {nullptr, 4, {}, &*region}}),
            "rank 0, all-reduce: the tensor: it does not lie in its region");
}

// ---- programs of a user ----------------------------------------------------------------------

constexpr std::string_view kByRank0 = R"(gantry-collective 1
name my-all-reduce
about Rank 0 gets everything, adds it, and hands it back.
tensor x 1, size
tensor t 1, size
for r in 0:ranks
  given x@r = X[r]
  wanted x@r = over q in 0:ranks X[q]
end
for r in 1:ranks
  get x@r[0:size] to t@0[0:size]
  reduce t@0[0:size] to x@0[0:size]
end
for r in 1:ranks
  put x@0[0:size] to x@r[0:size]
end
)";

std::string write_program(const std::string& name, std::string_view text) {
  const std::string path = testing::TempDir() + "/" + name + ".gcoll";
  std::ofstream(path) << text;
  return path;
}

TEST(CollectivePrograms, AUsersProgramIsLoadedWhileTheGroupRuns) {
  test::at_all_ranks(3, Via::shared, [&](Group& group) {
    run_and_compare(group, {CollectiveKind::all_reduce, 3, group.rank(), 100}, kTypes[0], true, {},
                    1);
    const std::string path = write_program("mine" + std::to_string(group.rank()), kByRank0);
    run_and_compare(group, {CollectiveKind::all_reduce, 3, group.rank(), 100}, kTypes[0], true,
                    {.program = path}, 3);
  });
}

void expect_refused_by_all(const std::string& path, const std::string& what) {
  for (const Error& error : errors_of(
           3, [](unsigned) { return sum_of(8); },
           [&](unsigned) { return CollectiveOptions{.program = path}; }))
    EXPECT_THAT(error.message, testing::EndsWith(", all-reduce: " + path + ": " + what));
}

TEST(CollectivePrograms, WrongOnesAreRefusedByTheirFile) {
  std::string text(kByRank0);
  text.replace(text.find("reduce t"), 6, "copy");
  expect_refused_by_all(write_program("unproved", text),
                        "x@0 0:1,0:8 is wanted to have X_0 0,0; it has X_2 0,0");
  text = kByRank0;
  for (const auto& [all, some] : {std::pair{"over q in 0:ranks", "over q in 0:2"},
                                  std::pair{"for r in 1:ranks\n  get", "for r in 1:2\n  get"}})
    text.replace(text.find(all), std::strlen(all), some);
  expect_refused_by_all(
      write_program("less", text),
      "rank 0: element 0 is x@0[0] + x@1[0] and should be x@0[0] + x@1[0] + x@2[0]");
}

}  // namespace
}  // namespace gantry
