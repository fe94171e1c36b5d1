#pragma once  // channel/test_fan_out.hpp: a producer with consumers that a test adds.

#include <optional>

#include "core/channel/test_support.hpp"

namespace gantry::test {

/// A channel of four consumers in a folder of its own; tests change options_ first.
class FanOutFixture : public testing::Test {
 protected:
  FanOutFixture() { options_.consumers = 4; }
  Producer& out() {
    if (!out_) out_.emplace(*make_producer("frames", options_));
    return *out_;
  }
  Consumer join(SlowConsumer policy = SlowConsumer::block, unsigned depth = 0) {
    out();
    ConsumerOptions options = consumer_options(options_);
    options.when_slow = policy;
    options.depth = depth;
    return *Consumer::open("frames", options, soon());
  }

  ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

}  // namespace gantry::test
