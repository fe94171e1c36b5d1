// attack_bench: what an attack takes of the throughput of others; see README.md.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <deque>
#include <gantry/call.hpp>
#include <optional>
#include <stdexcept>

#include "attack/honest.hpp"
#include "attack/processes.hpp"
#include "attack/worlds.hpp"
#include "core/base/os/cpu.hpp"

namespace gantry::attack {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr double kLeast = 0.9;
constexpr unsigned kSlots = 4;         // of every channel: replies, too
constexpr milliseconds kSettles{50};   // unmeasured, after an attack ended
constexpr milliseconds kBegins{2000};  // at most, until enough blows have fallen
constexpr std::array<std::string_view, 3> kTargetNames{"producer", "inbox", "server"};

struct Options {
  unsigned rounds = 5;
  milliseconds time{300};
  std::string only;
};

// ---- who may run where ---------------------------------------------------------------------

struct Halves {
  std::vector<int> honest, attackers;
};

Halves divide_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("sched_getaffinity");
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  if (all.size() < 2)
    throw std::runtime_error("one CPU: attackers cannot have one that honest ones do not need");
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  return {{all.begin(), middle}, {middle, all.end()}};
}

// ---- in an attacker's place ----------------------------------------------------------------

void do_nothing(const std::string&) {
  note_blow();
  for (;;) ::pause();
}
void spin(const std::string&) {
  note_blow();
  for (;;) cpu_relax();
}

// Those that are let in and do what they may, as much of it as they can.

void read_all(const std::string& directory) {
  ConsumerOptions options;
  options.directory = directory;
  options.when_slow = SlowConsumer::drop_newest;
  auto consumer = Consumer::open("frames", options, test::soon());
  note_blow();
  while (consumer->receive()) continue;
}
void send_on(const std::string& directory) {
  ProducerOptions options;
  options.directory = directory;
  auto sender = Producer::connect("frames", options, engine(), test::soon());
  note_blow();
  for (std::uint64_t number = 0; sender->send(payload_of(number)); ++number) continue;
}
void call_on(const std::string& directory) {
  ClientOptions options;
  options.directory = directory;
  options.slots = kSlots;  // who asks for more replies than have room is hung up on
  auto client = Client::connect("frames", options, engine(), test::soon());
  note_blow();
  std::deque<PendingReply> pending;
  for (std::uint64_t number = 0;; ++number) {
    auto call = client->call_async(payload_of(number), {.type = 1});
    if (!call) return;
    pending.push_back(std::move(*call));
    if (pending.size() < options.slots) continue;
    if (!pending.front().wait()) return;
    pending.pop_front();
  }
}

constexpr std::array kPeers{
    Attack{"(an honest reader more)", Target::producer, read_all},
    Attack{"(an honest sender more)", Target::inbox, send_on},
    Attack{"(an honest client more)", Target::server, call_on},
};

// ---- a row ---------------------------------------------------------------------------------

struct Figures {
  double messages_a_second = 0;
  double cpu_us_a_message = 0;  // of all threads of the honest process
};

double cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

Figures measure(World& world, milliseconds time) {
  const double cpu = cpu_us();
  const auto started = Clock::now();
  const auto messages = static_cast<double>(world.pump(time));
  const std::chrono::duration<double> took = Clock::now() - started;
  return {messages / took.count(), (cpu_us() - cpu) / messages};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// In a process of its own, written for the driver.
struct Row {
  double quiet = 0, share = 0, least = 0, most = 0, cpu = 0, blows_a_second = 0;
};

/// Quiet, attacked, quiet, ...: each attacked time is compared with the quiet ones around it.
Row compare(const Attack& attack, World& world, std::deque<Attacker>& attackers,
            milliseconds time) {
  std::vector<double> quiet, shares, cpu, blows;
  Figures before = measure(world, time);
  while (!attackers.empty()) {
    attackers.front().begin();
    const auto latest = Clock::now() + kBegins;
    while (attackers.front().blows() < attack.blows && Clock::now() < latest)
      world.pump(milliseconds(5));
    if (attackers.front().blows() == 0) throw std::runtime_error("nobody attacks");
    const unsigned blows_before = attackers.front().blows();
    const auto started = Clock::now();
    const Figures during = measure(world, time);
    const std::chrono::duration<double> took = Clock::now() - started;
    blows.push_back((attackers.front().blows() - blows_before) / took.count());
    if (attackers.front().has_ended()) throw std::runtime_error("the attack ended by itself");
    attackers.pop_front();
    world.pump(kSettles);
    const Figures after = measure(world, time);
    const auto share = [&](double Figures::* of) {
      return 2 * during.*of / (before.*of + after.*of);
    };
    quiet.push_back(before.messages_a_second);
    shares.push_back(share(&Figures::messages_a_second));
    cpu.push_back(share(&Figures::cpu_us_a_message));
    before = after;
  }
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  return {median(quiet), median(shares), *least, *most, median(cpu), median(blows)};
}

Row play(const Attack& attack, const Options& options, const Halves& halves) {
  const test::ScratchDirectory directory;
  ProducerOptions channel = test::options_in(directory);
  channel.slots = kSlots;
  channel.consumers = 16;
  channel.spin = std::chrono::nanoseconds(0);
  std::deque<Attacker> attackers;
  for (unsigned i = 0; i < options.rounds; ++i)
    attackers.emplace_back(attack, channel.directory, halves.attackers);
  run_on(halves.attackers);  // the acceptors' threads start with the ends
  const auto world = make_world(attack.target, channel);
  run_on(halves.honest);
  world->pump(kSettles);
  const Row row = compare(attack, *world, attackers, options.time);
  world->end();
  return row;
}

// ---- the table -----------------------------------------------------------------------------

std::string name_of(const Attack& attack) {
  return fmt::format("{} {}", kTargetNames[static_cast<std::size_t>(attack.target)], attack.name);
}

/// In a process of its own: the attackers are forked before there are threads.
Row play_elsewhere(const Attack& attack, const Options& options, const Halves& halves) {
  Row* const shared = new (map_shared(sizeof(Row))) Row;
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      *shared = play(attack, options, halves);
    } catch (const std::exception& trouble) {
      fmt::print(stderr, "attack_bench: {}: {}\n", name_of(attack), trouble.what());
    }
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  const Row row = *shared;
  unmap_shared(shared, sizeof(Row));
  return row;
}

/// Prints it. True: it could be measured, and others keep that much.
bool is_kept(const Attack& attack, const Row& row, double least) {
  const bool good = row.quiet > 0 && row.share >= least;
  fmt::print("{:<47} {:>9.0f} {:>6.2f}  {:>5.2f} to {:<5.2f} {:>6.2f} {:>8.0f}  {:>6.2f}{}\n",
             name_of(attack), row.quiet, row.share, row.least, row.most, row.cpu,
             row.blows_a_second, least, good ? "" : "  BELOW");
  std::fflush(stdout);
  return good;
}

/// Strangers are to take nothing; who was let in, no more than an honest one would.
unsigned play_all(const Options& options, const Halves& halves) {
  const auto is_wanted = [&](const Attack& attack) {
    return name_of(attack).find(options.only) != std::string::npos;
  };
  unsigned below = 0;
  for (const Attack& control : {Attack{"(nobody)", Target::producer, do_nothing},
                                Attack{"(a process that spins)", Target::producer, spin}})
    if (!is_kept(control, play_elsewhere(control, options, halves), kLeast)) ++below;
  std::array<double, kPeers.size()> shares{};
  for (const Attack& peer : kPeers) {
    const Row row = play_elsewhere(peer, options, halves);
    shares[static_cast<std::size_t>(peer.target)] = std::min(row.share, 1.0);
    if (!is_kept(peer, row, 0)) ++below;
  }
  for (const std::span<const Attack> some : {all_attacks(), paced_attacks()})
    for (const Attack& attack : some) {
      if (!is_wanted(attack)) continue;
      const double share = attack.is_admitted ? shares[static_cast<std::size_t>(attack.target)] : 1;
      if (!is_kept(attack, play_elsewhere(attack, options, halves), kLeast * share)) ++below;
    }
  return below;
}

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view word = words[i];
    if (word == "--rounds")
      options.rounds = static_cast<unsigned>(std::stoul(words[i + 1]));
    else if (word == "--ms")
      options.time = milliseconds(std::stoul(words[i + 1]));
    else if (word == "--only")
      options.only = words[i + 1];
    else
      throw std::runtime_error(fmt::format("{} is unknown", word));
  }
  if (options.rounds == 0 || count % 2 == 0)
    throw std::runtime_error("usage: attack_bench [--rounds N] [--ms TIME] [--only WORD]");
  return options;
}

int main_of(int count, char** words) {
  const Options options = read_options(count, words);
  const Halves halves = divide_cpus();
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  fmt::print("{} CPUs for the honest ends, {} for attackers; {} rounds of {} ms\n",
             halves.honest.size(), halves.attackers.size(), options.rounds, options.time.count());
  fmt::print("{:<47} {:>9} {:>6}  {:^14} {:>6} {:>8}  {:>6}\n", "attack", "quiet/s", "keeps",
             "rounds", "cpu", "blows/s", "least");
  std::fflush(stdout);
  const unsigned below = play_all(options, halves);
  fmt::print("{} below\n", below);
  return below == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gantry::attack

int main(int count, char** words) {
  try {
    return gantry::attack::main_of(count, words);
  } catch (const std::exception& trouble) {
    fmt::print(stderr, "attack_bench: {}\n", trouble.what());
    return 2;
  }
}
