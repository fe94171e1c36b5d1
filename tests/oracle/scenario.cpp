#include "oracle/scenario.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace gantry::oracle {
namespace {

constexpr Bytes kKiB = 1024;
constexpr std::array<Bytes, 9> kBorders{0,         1,         64,         65,     4 * kKiB,
                                        16 * kKiB, 32 * kKiB, 256 * kKiB, 4 << 20};

ProducerOptions draw_options(Dice& dice) {
  ProducerOptions options;
  options.slots = static_cast<unsigned>(dice.any_of<std::uint64_t>({1, 2, 3, 4, 8, 16, 64}));
  options.bytes_in_flight = dice.chance(20) ? dice.between(1, 1 << 20) : 0;
  options.pool.slab_bytes = dice.any_of<Bytes>({64 * kKiB, 1 << 20, 8 << 20, 64 << 20});
  options.pool.budget_bytes = dice.chance(20) ? dice.between(1 << 20, 24 << 20) : 0;
  options.copy_threads = static_cast<unsigned>(dice.up_to(2));
  options.spin = std::chrono::nanoseconds(dice.any_of<int>({0, 0, 2'000, 50'000}));
  options.mode =
      dice.any_of({SendMode::automatic, SendMode::whole, SendMode::pipelined, SendMode::streamed});
  options.consumers = 4;
  const unsigned most = std::min(options.slots, ProducerOptions::kMaxSlots - options.slots);
  options.history = dice.chance(20) ? static_cast<unsigned>(dice.up_to(most)) : 0;
  return options;
}

/// Writes one scenario.
class Pen {
 public:
  Pen(Scenario& scenario, bool kills) : it_(scenario), dice_(scenario.seed, 1), kills_(kills) {}

  void write() {
    it_.theme = theme_of(it_.seed);
    it_.options = draw_options(dice_);
    it_.engine = dice_.any_of<const char*>({"inline", "auto", "thread"});
    it_.largest = dice_.any_of<Bytes>({65, 4097, 40 * kKiB, 300 * kKiB, (4 << 20) + 1});
    it_.is_streamed_mostly = dice_.chance(25);
    switch (it_.theme) {
      case Theme::any:
        return write_any();
      case Theme::cut:
        return write_cut();
      case Theme::relay:
        return write_relay();
      case Theme::fork:
        return write_fork();
      case Theme::successor:
        return write_successor();
      case Theme::halfway:
        return write_halfway();
      case Theme::inbox:
        return write_inbox();
      case Theme::calls:
        return write_calls();
      case Theme::queue:
        return write_queue();
      case Theme::looks:
        return write_looks();
      case Theme::late:
        return write_late();
    }
  }

 private:
  /// Few where they are large, so that a scenario takes some tenths of a second.
  unsigned draw_messages() {
    const Bytes most = std::clamp<Bytes>((48 << 20) / (it_.largest + 1), 12, 600);
    return static_cast<unsigned>(dice_.between(most / 3, most));
  }
  Role& add(Play play, unsigned stream = 0, unsigned channel = 0) {
    Role& role = it_.roles.emplace_back();
    role.play = play;
    role.stream = stream;
    role.channel = channel;
    role.hurried = dice_.chance(30) ? static_cast<unsigned>(dice_.up_to(50)) : 0;
    return role;
  }
  Role& add_producer() {
    Role& role = add(Play::produce);
    role.messages = draw_messages();
    role.drops_handle = dice_.chance(20);
    return role;
  }
  Role& add_consumer(unsigned channel = 0) {
    Role& role = add(Play::consume, 0, channel);
    role.take = dice_.any_of({Take::whole, Take::early, Take::copied, Take::any});
    role.holds = static_cast<unsigned>(dice_.up_to(6));
    role.lags_us = dice_.chance(40) ? dice_.up_to(1000) : 0;
    role.leaves = dice_.chance(30) ? static_cast<unsigned>(dice_.up_to(60)) : 0;
    role.starts_us = dice_.chance(30) ? dice_.up_to(30'000) : 0;
    return role;
  }
  void draw_policy(Role& role) {
    if (dice_.chance(50)) return;
    role.policy = dice_.any_of(
        {SlowConsumer::drop_newest, SlowConsumer::disconnect, SlowConsumer::drop_oldest});
    role.depth = static_cast<unsigned>(dice_.up_to(it_.options.slots));
  }
  void strike(unsigned role, unsigned most) {
    const auto count = dice_.up_to(most);
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool kills = kills_ && dice_.chance(60);
      const std::uint64_t at = dice_.between(500, 500 << dice_.up_to(9));
      it_.blows.push_back({at, role, kills ? SIGKILL : SIGSTOP, dice_.between(200, 60'000)});
    }
  }
  void strike_anybody(unsigned most) {
    for (unsigned role = 0; role < it_.roles.size(); ++role) strike(role, most);
  }
  void starve_somebody() {
    Role& role = it_.roles[dice_.up_to(it_.roles.size() - 1)];
    if (dice_.chance(50))
      role.max_descriptors = static_cast<unsigned>(dice_.between(30, 60));
    else
      role.max_more_memory = dice_.between(8, 256) << 20;
  }

  void write_any() {
    add_producer();
    const auto readers = dice_.between(1, 4);
    it_.options.consumers = static_cast<unsigned>(readers);
    for (std::uint64_t i = 0; i < readers; ++i) draw_policy(add_consumer());
    strike_anybody(2);
    if (dice_.chance(25)) starve_somebody();
  }
  // Unread messages, a cut, and slots that are used again: few slots, readers that lag.
  void write_cut() {
    it_.largest = dice_.any_of<Bytes>({1000, 4097, 40 * kKiB});
    it_.options.history = 0;
    it_.options.slots = static_cast<unsigned>(dice_.between(2, 8));
    Role& producer = add_producer();
    producer.messages = std::max(producer.messages, 300u);
    it_.options.consumers = 4;
    const auto readers = dice_.between(1, 3);
    for (std::uint64_t i = 0; i < readers; ++i) {
      Role& role = add_consumer();
      role.policy = SlowConsumer::disconnect;
      role.depth = static_cast<unsigned>(dice_.between(1, it_.options.slots));
      role.lags_us = dice_.between(50, 500);
    }
    if (dice_.chance(50)) add_consumer();
    if (dice_.chance(30)) strike_anybody(1);
  }
  // Relays that end, in an orderly way or not, while what they passed on is held downstream.
  void write_relay() {
    it_.largest = dice_.any_of<Bytes>({4097, 40 * kKiB, 300 * kKiB});
    it_.options.history = 0;
    it_.options.slots = static_cast<unsigned>(dice_.between(2, 16));
    Role& producer = add_producer();
    producer.messages = std::max(producer.messages, 200u);
    producer.drops_handle = false;
    producer.lives = 1;
    Role& relay = add(Play::relay);
    relay.messages = static_cast<unsigned>(dice_.between(3, 60));
    it_.options.consumers = dice_.chance(40) ? 2 : 1;
    if (it_.options.consumers == 2) add_consumer();
    const auto readers = dice_.between(1, 2);
    for (std::uint64_t i = 0; i < readers; ++i) {
      Role& role = add_consumer(1);
      role.holds = static_cast<unsigned>(dice_.between(1, 12));
      role.take = Take::whole;
    }
    strike(1, 4);
    if (dice_.chance(40)) strike(static_cast<unsigned>(it_.roles.size()) - 1, 2);
  }
  // Copies of the process drop their handles while the original goes on.
  void write_fork() {
    if (dice_.chance(50)) return write_forked_client();
    Role& producer = add_producer();
    producer.forks = static_cast<unsigned>(dice_.between(1, 3));
    producer.messages = std::max(producer.messages, 100u);
    producer.lives = 1;
    const auto readers = dice_.between(1, 2);
    it_.options.consumers = static_cast<unsigned>(readers);
    for (std::uint64_t i = 0; i < readers; ++i) add_consumer().leaves = 0;
  }
  void write_forked_client() {
    it_.largest = std::min<Bytes>(it_.largest, 40 * kKiB);
    add(Play::serve);
    for (unsigned i = 0; i < 2; ++i) {
      Role& role = add(Play::call, i);
      role.messages = 100;
      role.hurried = 0;
      role.forks = 2;
      role.lives = 1;
    }
  }
  void write_successor() {
    it_.options.consumers = 1;
    it_.options.history = 0;
    it_.is_streamed_mostly = dice_.chance(60);
    if (it_.is_streamed_mostly) it_.largest = 130 * kKiB;
    add_producer();
    Role& role = add_consumer();
    role.leaves = static_cast<unsigned>(dice_.between(50, 300));
    role.starts_us = 0;
    if (dice_.chance(40)) strike_anybody(3);
  }
  // Deadlines that pass inside a message.
  void write_halfway() {
    it_.is_streamed_mostly = dice_.chance(70);
    it_.largest = dice_.any_of<Bytes>({300 * kKiB, (4 << 20) + 1});
    it_.options.bytes_in_flight = 0;
    it_.options.pool.budget_bytes = 0;
    add_producer();
    it_.options.consumers = 1;
    Role& role = add_consumer();
    role.take = Take::any;
    role.hurried = static_cast<unsigned>(dice_.between(30, 90));
    strike(0, 3);
  }
  void write_inbox() {
    add(Play::inbox).holds = static_cast<unsigned>(dice_.up_to(8));
    const auto senders = dice_.between(1, 4);
    for (std::uint64_t i = 0; i < senders; ++i) {
      Role& role = add(Play::deliver, static_cast<unsigned>(i));
      role.messages = draw_messages() / static_cast<unsigned>(senders) + 4;
      role.drops_handle = dice_.chance(20);
      role.starts_us = dice_.up_to(10'000);
    }
    strike_anybody(2);
  }
  void write_calls() {
    it_.largest = std::min<Bytes>(it_.largest, 300 * kKiB);
    add(Play::serve).lags_us = dice_.chance(30) ? dice_.up_to(300) : 0;
    const auto clients = dice_.between(1, 4);
    for (std::uint64_t i = 0; i < clients; ++i) {
      Role& role = add(Play::call, static_cast<unsigned>(i));
      role.messages = static_cast<unsigned>(dice_.between(30, 200));
    }
    strike_anybody(2);
  }

  // Workers that die or leave with items in hand.
  void write_queue() {
    it_.largest = std::min<Bytes>(it_.largest, 40 * kKiB);
    it_.options.bytes_in_flight = it_.options.pool.budget_bytes = 0;
    it_.options.history = 0;
    add(Play::keep).lives = 1;
    const auto putters = dice_.between(1, 3), workers = dice_.between(1, 3);
    for (std::uint64_t i = 0; i < putters; ++i)
      add(Play::put, static_cast<unsigned>(i)).messages = draw_messages();
    for (std::uint64_t i = 0; i < workers; ++i) {
      Role& role = add(Play::work);
      role.holds = static_cast<unsigned>(dice_.up_to(6));
      role.is_by_hand = dice_.chance(60);
      role.lags_us = dice_.chance(40) ? dice_.up_to(1000) : 0;
      role.leaves = dice_.chance(40) ? static_cast<unsigned>(dice_.up_to(60)) : 0;
    }
    strike_anybody(2);
  }
  // Readers that look where messages lie, beside some that keep them.
  void write_looks() {
    it_.largest = dice_.any_of<Bytes>({65, 4097, 4097, 40 * kKiB});
    it_.options.history = 0;
    add_producer();
    const auto readers = dice_.between(1, 4);
    it_.options.consumers = static_cast<unsigned>(readers);
    for (std::uint64_t i = 0; i < readers; ++i) {
      Role& role = add_consumer();
      if (i == 0 || dice_.chance(60)) role.take = Take::looked;
    }
    if (dice_.chance(50)) strike_anybody(2);
  }
  // Readers that join late, leave and come again, where a history is kept.
  void write_late() {
    it_.options.slots = static_cast<unsigned>(dice_.between(1, 16));
    it_.options.history = static_cast<unsigned>(dice_.between(1, it_.options.slots));
    add_producer();
    const auto readers = dice_.between(2, 4);
    it_.options.consumers = static_cast<unsigned>(readers);
    for (std::uint64_t i = 0; i < readers; ++i) {
      Role& role = add_consumer();
      role.leaves = static_cast<unsigned>(dice_.between(10, 100));
      role.starts_us = dice_.up_to(30'000);
      if (dice_.chance(30)) role.take = Take::looked;
      if (dice_.chance(30)) draw_policy(role);
    }
    if (dice_.chance(40)) strike_anybody(1);
  }

  Scenario& it_;
  Dice dice_;
  const bool kills_;
};

}  // namespace

Theme theme_of(std::uint64_t seed) noexcept {
  constexpr std::array kLater{Theme::queue, Theme::looks, Theme::late,  Theme::queue,
                              Theme::looks, Theme::late,  Theme::queue, Theme::queue};
  return seed / 8 % 5 == 4 ? kLater[seed % 8] : static_cast<Theme>(seed % 8);
}

Bytes Scenario::size_of(Id id) const noexcept {
  Dice dice(seed, 2, id.pack());
  if (is_streamed_mostly && dice.chance(70))
    return dice.between(std::min<Bytes>(largest, 33 * kKiB), largest);
  if (dice.chance(50)) {
    const Bytes border = kBorders[dice.up_to(kBorders.size() - 1)];
    const Bytes size = border + dice.up_to(2) - (border == 0 ? 0 : 1);
    if (size <= largest) return size;
  }
  return dice.up_to(dice.chance(50) ? std::min<Bytes>(largest, 4096) : largest);
}

bool Scenario::is_starved() const noexcept {
  return std::any_of(roles.begin(), roles.end(), [](const Role& role) {
    return role.max_descriptors != 0 || role.max_more_memory != 0;
  });
}

Scenario draw(std::uint64_t seed, bool kills) {
  Scenario scenario;
  scenario.seed = seed;
  Pen(scenario, kills).write();
  return scenario;
}

std::string describe(const Scenario& scenario) {
  const ProducerOptions& options = scenario.options;
  std::string text = fmt::format(
      "scenario {} ({}): slots {}, bytes in flight {}, slab {}, budget {}, copy threads {}, spin "
      "{} "
      "ns, mode {}{}, consumers {}, history {}, engine {}, largest {}\n",
      scenario.seed, kThemeNames[static_cast<std::size_t>(scenario.theme)], options.slots,
      options.bytes_in_flight, options.pool.slab_bytes, options.pool.budget_bytes,
      options.copy_threads, options.spin.count(), to_string(options.mode),
      scenario.is_streamed_mostly ? " (mostly streamed)" : "", options.consumers, options.history,
      scenario.engine, scenario.largest);
  for (std::size_t i = 0; i < scenario.roles.size(); ++i) {
    const Role& role = scenario.roles[i];
    text += fmt::format(
        "  role {}: {} on {}, stream {}, messages {}, hurried {} %, forks {}, policy {}, depth {}, "
        "take {}, holds {}{}, lags {} us, leaves {} of 1000, descriptors {}, memory {}\n",
        i, kPlayNames[static_cast<std::size_t>(role.play)], role.channel, role.stream,
        role.messages, role.hurried, role.forks, to_string(role.policy), role.depth,
        static_cast<int>(role.take), role.holds, role.is_by_hand ? " by hand" : "", role.lags_us,
        role.leaves, role.max_descriptors, role.max_more_memory);
  }
  for (const Blow& blow : scenario.blows)
    text += fmt::format("  after {} us role {} gets signal {} for {} us\n", blow.at_us, blow.role,
                        blow.signal, blow.lasts_us);
  return text;
}

}  // namespace gantry::oracle
