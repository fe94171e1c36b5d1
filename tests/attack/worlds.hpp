#pragma once  // attack/worlds.hpp: who is attacked, and what must go on there meanwhile.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attack/attackers.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

namespace gantry::attack {

/// A call that has a deadline. It may succeed before.
struct TimedCall {
  std::string_view name;
  std::function<void(Deadline)> make;
  std::function<void()> prepare{};  ///< Before each, untimed; may be empty.
  bool is_last = false;             ///< It is made once: it ends something.
};

/// The end that has the name "frames", in this process, and an honest peer of it.
class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  /// So many messages between the honest ends, byte by byte. Empty: all arrived.
  virtual std::string exchange(unsigned count) = 0;
  /// Another honest peer comes and goes.
  virtual Result<void> join(Deadline deadline) = 0;
  /// Messages between the honest ends for so long, as many as they can. The answer: how many.
  virtual std::uint64_t pump(std::chrono::nanoseconds time) = 0;
  /// Every kind of call with a deadline that the ends have, mostly such as cannot succeed. To be
  /// made in this order.
  virtual std::vector<TimedCall> timed_calls() = 0;
  /// Looks once whether that peer has been seen to come, or to go.
  virtual bool has_peer(int pid) = 0;
  /// Ends the end that is attacked.
  virtual void end() = 0;
};

[[nodiscard]] std::unique_ptr<World> make_world(Target target, const ProducerOptions& options);
[[nodiscard]] std::unique_ptr<World> make_producer_world(const ProducerOptions& options);
[[nodiscard]] std::unique_ptr<World> make_inbox_world(const ProducerOptions& options);
[[nodiscard]] std::unique_ptr<World> make_server_world(const ProducerOptions& options);

/// In a process of its own: an honest peer that comes and stays until it is killed.
void be_honest(Target target, const ProducerOptions& options, const test::Child& child);

}  // namespace gantry::attack
