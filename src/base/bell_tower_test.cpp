#include "base/bell_tower.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <functional>

#include "base/event.hpp"

namespace gantry {
namespace {

bool rings(const BellTower& tower) {
  return would_pass(tower.descriptor(), POLLIN);
}

class Tower : public testing::Test {
 protected:
  Tower() {
    EXPECT_TRUE(tower_.hang(first_.bell));
    EXPECT_TRUE(tower_.hang(second_.bell));
  }
  BellTower tower_ = *BellTower::make();
  Bell::Made first_ = *Bell::make();
  Bell::Made second_ = *Bell::make();
};

TEST_F(Tower, HearsEachBellAndItself) {
  for (const auto& ring : std::initializer_list<std::function<void()>>{
           [&] { tower_.ring(); }, [&] { first_.pull.ring(); }, [&] { second_.pull.ring(); }}) {
    EXPECT_FALSE(rings(tower_));
    ring();
    EXPECT_TRUE(rings(tower_));
    tower_.drain();
    EXPECT_FALSE(rings(tower_));
  }
}

TEST_F(Tower, DoesNotGoOnRingingForABellThatIsGone) {
  first_.pull.ring();
  first_.pull.reset();
  tower_.drain();  // the ring
  tower_.drain();  // the end
  EXPECT_FALSE(rings(tower_));
  second_.pull.ring();
  EXPECT_TRUE(rings(tower_));
}

TEST_F(Tower, HearsABellNoMoreThatWasTakenDown) {
  first_.pull.ring();
  first_.bell.reset();
  EXPECT_FALSE(rings(tower_));
}

// The copy shares the epoll with us, and takes nothing out of it.
TEST_F(Tower, StandsWhenAForkedCopyOfItEnds) {
  const pid_t child = ::fork();
  if (child == 0) {
    first_.bell.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  first_.pull.ring();
  EXPECT_TRUE(rings(tower_));
}

}  // namespace
}  // namespace gantry
