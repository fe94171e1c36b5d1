#include "core/base/event.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(Event, IsDrained) {
  const Fd event = *make_event();
  ring(event.get());
  ring(event.get());
  EXPECT_TRUE(would_pass(event.get(), POLLIN));
  drain(event.get());
  EXPECT_FALSE(would_pass(event.get(), POLLIN));
  drain(event.get());
}

TEST(Event, ThatIsFullIsRungInVain) {
  const Fd event = *make_event();
  ASSERT_EQ(::eventfd_write(event.get(), ~std::uint64_t{0} - 1), 0);
  ring(event.get());
  EXPECT_TRUE(would_pass(event.get(), POLLIN));
  drain(event.get());
  EXPECT_FALSE(would_pass(event.get(), POLLIN));
}

}  // namespace
}  // namespace gantry
