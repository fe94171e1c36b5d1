#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gantry/memory.hpp>
#include <thread>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/memory/fake_registrar_test.hpp"

// What devices know of a pool's memory: whole slabs, once, and a refusal hurts nobody else.
namespace gantry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PoolRegistrar : public testing::Test {
 protected:
  Pool pool(When registration = When::at_growth) {
    return *Pool::create({.slab_bytes = kMiB,
                          .budget_bytes = 4 * kMiB,
                          .registrars = {first_, second_},
                          .registration = registration});
  }
  std::shared_ptr<FakeRegistrar> first_ = FakeRegistrar::create({.name = "first"});
  std::shared_ptr<FakeRegistrar> second_ = FakeRegistrar::create({.name = "second"});
};

TEST_F(PoolRegistrar, AKeyIsTheSlabsAndTheOffsetInIt) {
  Pool mine = pool();
  const auto low = mine.allocate(5000);
  const auto high = mine.allocate(200'000);
  ASSERT_TRUE(low && high);
  ASSERT_EQ(low->slab(), high->slab());
  for (const auto& registrar : {first_, second_}) {
    const auto one = low->key_for(*registrar);
    const auto other = high->key_for(*registrar);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->key, other->key);
    EXPECT_EQ(one->remote_key, ~one->key);
    EXPECT_EQ(one->offset, low->offset());
    EXPECT_EQ(other->offset, high->offset());
    EXPECT_EQ(registrar->report().bytes, kMiB);
  }
}

TEST_F(PoolRegistrar, ComingAndGoingRegistersNothing) {
  Pool mine = pool();
  for (int i = 0; i < 1000; ++i) {
    const auto block = mine.allocate(i % 7 == 0 ? 700'000 : 10'000);
    ASSERT_TRUE(block);
    ASSERT_TRUE(block->key_for(*first_));
  }
  EXPECT_EQ(first_->report().made, 1u);
  EXPECT_EQ(first_->live(), 1u);
  EXPECT_EQ(mine.trim(), kMiB);
  EXPECT_EQ(first_->live(), 0u);
  EXPECT_EQ(first_->wrong(), 0u);
}

TEST_F(PoolRegistrar, OnDemandOnlyWhoIsAskedForIsTold) {
  Pool mine = pool(When::on_demand);
  const auto block = mine.allocate(1000);
  ASSERT_TRUE(block);
  EXPECT_EQ(first_->live() + second_->live(), 0u);
  const auto key = block->key_for(*first_);
  ASSERT_TRUE(key);
  EXPECT_EQ(block->key_for(*first_)->key, key->key);
  EXPECT_EQ(first_->report().made, 1u);
  EXPECT_EQ(second_->live(), 0u);
}

TEST_F(PoolRegistrar, ManyThreadsThatAskAtOnceRegisterOnce) {
  Pool mine = pool(When::on_demand);
  const auto block = mine.allocate(1000);
  ASSERT_TRUE(block);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(block->key_for(*first_)); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(first_->report().made, 1u);
  EXPECT_EQ(first_->report().reused, 0u);
}

TEST_F(PoolRegistrar, ARefusedSlabServesAllTheSameAndTheReasonIsKept) {
  for (const When when : {When::at_growth, When::on_demand}) {
    first_->fail_at(2, Code::out_of_memory);
    Pool mine = pool(when);
    std::vector<Block> blocks;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(*mine.allocate(900'000));
      EXPECT_TRUE(blocks.back().key_for(*second_)) << "the other device is not concerned";
      EXPECT_EQ(blocks.back().key_for(*first_).has_value(), i != 1) << i;
    }
    const auto refused = blocks[1].key_for(*first_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::out_of_memory);
    EXPECT_THAT(refused.error().message, HasSubstr("as scripted"));
    EXPECT_EQ(refused.error().hint, "change the script");
    EXPECT_THAT(mine.report().registration_errors, ElementsAre(HasSubstr("slab 2: ")));
    EXPECT_EQ(mine.report().registrars.at(0).failed, when == When::at_growth ? 1u : 2u);
  }
  EXPECT_EQ(first_->live(), 0u);
}

TEST_F(PoolRegistrar, OnlyWhatIsRefusedNowIsReported) {
  Pool mine = pool(When::on_demand);
  first_->fail_at(1, Code::system, 1000);
  for (int i = 0; i < 10; ++i) {
    const auto block = mine.allocate(1000);
    ASSERT_TRUE(block);
    EXPECT_FALSE(block->key_for(*first_));
    EXPECT_FALSE(block->key_for(*first_));
    EXPECT_EQ(mine.report().registration_errors.size(), 1u);
  }
  mine.trim();
  EXPECT_TRUE(mine.report().registration_errors.empty());
}

// Somebody unmapped memory without dropping its registration; a slab comes to lie where it was.
TEST_F(PoolRegistrar, AStaleRegistrationIsNotTakenForTheSlabs) {
  Pool mine = pool(When::on_demand);
  const auto block = mine.allocate(1000);
  ASSERT_TRUE(block);
  const auto stale = first_->register_memory(block->bytes());
  ASSERT_TRUE(stale);
  const auto key = block->key_for(*first_);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Code::already_exists);
  EXPECT_THAT(key.error().message, HasSubstr("unmapped"));
}

TEST_F(PoolRegistrar, TheSameOneTwiceIsAMistake) {
  EXPECT_EQ(Pool::create({.registrars = {first_, second_, first_}}).error().code,
            Code::invalid_argument);
}

TEST_F(PoolRegistrar, ItsBudgetEndsWhatItKnowsNotWhatThereIs) {
  const auto tight = FakeRegistrar::create({.limits = {.budget_bytes = kMiB}, .name = "tight"});
  Pool mine = *Pool::create({.slab_bytes = kMiB, .registrars = {tight}});
  const auto first = mine.allocate(900'000);
  const auto second = mine.allocate(900'000);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->key_for(*tight));
  EXPECT_EQ(second->key_for(*tight).error().code, Code::out_of_memory);
}

TEST_F(PoolRegistrar, OneThatIsNotThePoolsIsRefused) {
  Pool mine = pool();
  const auto block = mine.allocate(1000);
  ASSERT_TRUE(block);
  const auto stranger = FakeRegistrar::create({.name = "stranger"});
  const auto key = block->key_for(*stranger);
  EXPECT_EQ(key.error().code, Code::invalid_argument);
  EXPECT_THAT(key.error().message, HasSubstr("stranger"));
  EXPECT_EQ(Block().key_for(*first_).error().code, Code::invalid_argument);
}

TEST_F(PoolRegistrar, AForkedChildHasNoKeys) {
  Pool mine = pool();
  auto block = mine.allocate(1000);
  ASSERT_TRUE(block && block->key_for(*first_));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto key = block->key_for(*first_);
    const bool refused = !key && key.error().code == Code::invalid_argument;
    *block = Block();
    ::_exit(refused && !mine.allocate(1000) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(block->key_for(*first_));
}

// ---- what the system refuses ---------------------------------------------------------------

TEST(PoolLimits, WithoutADescriptorToSpareThereIsNoNewSlabAndNothingIsLost) {
  Pool pool = *Pool::create({.slab_bytes = kMiB});
  const auto first = pool.allocate(900'000);
  ASSERT_TRUE(first);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = pool.allocate(900'000);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("ulimit -n"));
  EXPECT_EQ(pool.report().slabs, 1u);
  EXPECT_TRUE(pool.allocate(900'000));
}

TEST(PoolLimits, PrivateMemoryNeedsNoDescriptorAndGivesNone) {
  Pool pool = *Pool::create({.slab_bytes = kMiB, .region = {.shareable = false}});
  const auto block = pool.allocate(1000);
  ASSERT_TRUE(block);
  EXPECT_FALSE(pool.is_shareable());
  EXPECT_EQ(pool.slab(block->slab())->descriptor(), -1);
}

}  // namespace
}  // namespace gantry
