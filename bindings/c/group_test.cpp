// Groups and collectives through group.h: ranks that are threads here.
#include <gantry/group.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

class Groups : public Ends {
 protected:
  void at_all_ranks(unsigned ranks, const std::function<void(gantry_group*&, unsigned)>& body) {
    gantry_runtime* const shared = runtime();
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        gantry_group_options options{};
        options.size = sizeof options;
        options.name = "ranks";
        options.rank = rank;
        options.ranks = ranks;
        gantry_group* group = nullptr;
        ASSERT_OK(gantry_group_join(shared, &options, kPatienceNs, &group));
        body(group, rank);
        gantry_free(group);
      });
    for (std::thread& thread : threads) thread.join();
  }
  static gantry_collective_call call_on(std::uint32_t kind, std::vector<float>& data) {
    gantry_collective_call call{};
    call.size = sizeof call;
    call.kind = kind;
    call.data = data.data();
    call.elements = static_cast<std::int64_t>(data.size());
    call.type_code = GANTRY_FLOAT;
    call.type_bits = 32;
    return call;
  }
  static void run(gantry_group* group, const gantry_collective_call& call, int times = 1) {
    gantry_collective* made = nullptr;
    ASSERT_OK(gantry_collective_prepare(group, &call, kPatienceNs, &made));
    EXPECT_NE(std::string(gantry_collective_choice(made)), "");
    for (int i = 0; i < times; ++i) ASSERT_OK(gantry_collective_run(made, kPatienceNs));
    gantry_free(made);
  }
};

TEST_F(Groups, EachCollectiveLeavesWhatItSays) {
  constexpr unsigned kRanks = 3;
  at_all_ranks(kRanks, [&](gantry_group* group, unsigned rank) {
    std::uint32_t own = 9, ranks = 9;
    ASSERT_OK(gantry_group_place(group, &own, &ranks));
    EXPECT_EQ(own, rank);
    EXPECT_EQ(ranks, kRanks);
    const auto mine = static_cast<float>(rank + 1);
    std::vector<float> data(6, mine);
    run(group, call_on(GANTRY_ALL_REDUCE, data), 2);
    EXPECT_EQ(data, std::vector<float>(6, 18)) << "a sum of sums";
    data = {mine, mine, mine, mine, mine, mine};
    run(group, call_on(GANTRY_ALL_GATHER, data));
    EXPECT_EQ(data, (std::vector<float>{1, 1, 2, 2, 3, 3}));
    data = {mine, mine, mine, mine, mine, mine};
    run(group, call_on(GANTRY_REDUCE_SCATTER, data));
    EXPECT_EQ(data[2 * rank], 6);
    EXPECT_EQ(data[2 * rank + 1], 6);
    data = {mine, mine};
    gantry_collective_call call = call_on(GANTRY_BROADCAST, data);
    call.root = 2;
    run(group, call);
    EXPECT_EQ(data, (std::vector<float>{3, 3}));
    data = {mine, mine + 10, mine + 20};
    std::vector<float> result(3);
    call = call_on(GANTRY_ALL_TO_ALL, data);
    call.result = result.data();
    call.result_elements = 3;
    run(group, call);
    const float column = 10 * static_cast<float>(rank);
    EXPECT_EQ(result, (std::vector<float>{1 + column, 2 + column, 3 + column}));
    // Rank r has r elements for each rank.
    const std::int64_t counts[] = {0, 0, 0, 1, 1, 1, 2, 2, 2};
    data.assign(6, mine);
    result.assign(6, -1);
    call = call_on(GANTRY_ALL_TO_ALL, data);
    call.result = result.data();
    call.result_elements = 6;
    call.counts = counts;
    run(group, call);
    EXPECT_EQ(result, (std::vector<float>{2, 3, 3, -1, -1, -1}));
  });
}

TEST_F(Groups, ACollectiveMayOutliveItsGroup) {
  at_all_ranks(2, [&](gantry_group* group, unsigned rank) {
    std::vector<float> data(1000, static_cast<float>(rank));
    const auto call = call_on(GANTRY_ALL_REDUCE, data);
    gantry_collective* made = nullptr;
    ASSERT_OK(gantry_collective_prepare(group, &call, kPatienceNs, &made));
    // The group's handle goes with the body's end; what it stands for stays.
    ASSERT_OK(gantry_collective_run(made, kPatienceNs));
    EXPECT_EQ(data, std::vector<float>(1000, 1));
    gantry_free(made);
  });
}

TEST_F(Groups, OptionsThatCannotBeAreRefused) {
  const auto join = [&](const std::function<void(gantry_group_options&)>& spoil) {
    gantry_group_options options{};
    options.size = sizeof options;
    options.name = "ranks";
    options.ranks = 1;
    spoil(options);
    gantry_group* group = reinterpret_cast<gantry_group*>(&options);
    const gantry_code code = gantry_group_join(runtime(), &options, 0, &group);
    EXPECT_EQ(group, nullptr);
    return code;
  };
  EXPECT_EQ(join([](auto& one) { one.rank = 1; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(join([](auto& one) { one.ranks = 100'000; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(join([](auto& one) { one.stall_ns = -5; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(join([](auto& one) { one.size = 3; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(join([](auto& one) { one.ranks = 2; }), GANTRY_TIMED_OUT);
  for (const char* const name : {static_cast<const char*>(nullptr), "", ".", "../x", "a b"})
    for (const unsigned ranks : {1u, 2u}) {
      EXPECT_EQ(join([&](auto& one) {
                  one.name = name;
                  one.ranks = ranks;
                }),
                GANTRY_INVALID_ARGUMENT);
      EXPECT_NE(std::string(gantry_last_error()->message).find("rank 0: channel name '"),
                std::string::npos);
    }
}

TEST_F(Groups, CallsThatCannotBeAreRefused) {
  gantry_group* group = nullptr;
  EXPECT_EQ(gantry_group_join(runtime(), nullptr, 0, &group), GANTRY_NOT_FOUND)
      << "nobody launched it";
  EXPECT_EQ(gantry_group_join(nullptr, nullptr, 0, &group), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_collective_run(nullptr, 0), GANTRY_INVALID_ARGUMENT);
  EXPECT_STREQ(gantry_collective_choice(nullptr), "");
  std::string message;
  const auto refused = [&](const std::function<void(gantry_collective_call&)>& spoil) {
    gantry_code code = GANTRY_OK;
    at_all_ranks(1, [&](gantry_group* alone, unsigned) {
      std::vector<float> data(4);
      gantry_collective_call call = call_on(GANTRY_ALL_REDUCE, data);
      spoil(call);
      gantry_collective* made = nullptr;
      code = gantry_collective_prepare(alone, &call, kPatienceNs, &made);
      EXPECT_EQ(made, nullptr);
      message = gantry_last_error()->message;  // of this thread
    });
    return code;
  };
  EXPECT_EQ(refused([](auto& one) { one.kind = 5; }), GANTRY_INVALID_ARGUMENT);
  const auto type_refused = [&](std::uint8_t code, std::uint8_t bits) {
    EXPECT_EQ(refused([&](auto& one) {
                one.type_code = code;
                one.type_bits = bits;
              }),
              GANTRY_INVALID_ARGUMENT);
    return message;
  };
  const std::string none = "collectives have no elements of type ";
  EXPECT_EQ(type_refused(GANTRY_UINT, 32), none + "uint32");
  EXPECT_EQ(type_refused(GANTRY_FLOAT, 8), none + "float8");
  EXPECT_EQ(type_refused(GANTRY_BFLOAT, 32), none + "bfloat32");
  EXPECT_EQ(type_refused(6, 8), none + "bool");
  EXPECT_EQ(type_refused(77, 8), none + "type code 77 of 8 bits");
  EXPECT_EQ(refused([](auto& one) { one.elements = -1; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& one) { one.program = "no such"; }), GANTRY_NOT_FOUND);
  EXPECT_EQ(refused([](auto& one) { one.result = one.data; }), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& one) {
              one.kind = GANTRY_BROADCAST;
              one.root = 1;
            }),
            GANTRY_INVALID_ARGUMENT);
}

// The others of a group hear of a rank that cannot make a call, or has left with a collective kept.
TEST_F(Groups, NobodyWaitsForARankThatLeft) {
  using Way = std::function<void(gantry_group*&, gantry_collective*, gantry_collective_call)>;
  const Way ways[] = {
      [](auto*& group, auto*, auto) {
        gantry_free(group);
        group = nullptr;
      },
      [](auto*&, auto* made, auto) {
        EXPECT_EQ(gantry_collective_run(made, -2), GANTRY_INVALID_ARGUMENT);
        EXPECT_EQ(gantry_collective_run(made, kPatienceNs), GANTRY_CLOSED);
      },
      [](auto*& group, auto*, auto call) {
        gantry_collective* none = nullptr;
        EXPECT_EQ(gantry_collective_prepare(group, &call, -2, &none), GANTRY_INVALID_ARGUMENT);
      },
      [](auto*& group, auto*, auto) {
        gantry_collective* none = nullptr;
        EXPECT_EQ(gantry_collective_prepare(group, nullptr, 0, &none), GANTRY_INVALID_ARGUMENT);
      }};
  for (const Way& leave : ways) {
    std::promise<void> heard;
    std::barrier prepared(2);
    at_all_ranks(2, [&](gantry_group*& group, unsigned rank) {
      std::vector<float> data(1000, 1);
      const auto call = call_on(GANTRY_ALL_REDUCE, data);
      gantry_collective* made = nullptr;
      ASSERT_OK(gantry_collective_prepare(group, &call, kPatienceNs, &made));
      prepared.arrive_and_wait();
      if (rank == 0) {
        leave(group, made, call);
        heard.get_future().wait();
      } else {
        EXPECT_EQ(gantry_collective_run(made, kPatienceNs), GANTRY_PEER_GONE);
        heard.set_value();
      }
      gantry_free(made);
    });
  }
}

// The parent's group goes on when its child has freed the handles that it inherited.
TEST_F(Groups, AChildHasNone) {
  at_all_ranks(1, [](gantry_group* group, unsigned) {
    std::vector<float> data(4, 1);
    const auto call = call_on(GANTRY_ALL_REDUCE, data);
    gantry_collective* made = nullptr;
    ASSERT_OK(gantry_collective_prepare(group, &call, kPatienceNs, &made));
    const pid_t child = ::fork();
    if (child == 0) {
      std::uint32_t rank = 0, ranks = 0;
      const bool is_refused = gantry_group_place(group, &rank, &ranks) == GANTRY_UNSUPPORTED &&
                              gantry_collective_run(made, 0) == GANTRY_UNSUPPORTED;
      gantry_free(made);
      gantry_free(group);
      ::_exit(is_refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_OK(gantry_collective_run(made, kPatienceNs));
    gantry_free(made);
  });
}

}  // namespace
}  // namespace gantry::c::test
