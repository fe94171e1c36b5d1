#include "attack/processes.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>

#include "support/forked_failures.hpp"

namespace gantry::attack {
namespace {

constexpr int kBeatMs = 2;
constexpr std::chrono::milliseconds kStill{10};

}  // namespace

void* map_shared(std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return at;
}
void unmap_shared(void* at, std::size_t bytes) noexcept {
  ::munmap(at, bytes);
}

void await(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_acquire)) ::poll(nullptr, 0, 1);
}

std::chrono::nanoseconds waited_for_cpu() {
  std::ifstream schedstat("/proc/thread-self/schedstat");
  std::int64_t ran_ns = 0, waited_ns = 0;
  schedstat >> ran_ns >> waited_ns;
  return std::chrono::nanoseconds(waited_ns);
}

void run_on(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  EXPECT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

Attacker::Attacker(const Attack& attack, const std::string& directory, const std::vector<int>& cpus)
    : child_([&](const test::Child&) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (test::expect_in_vain != nullptr) test::expect_in_vain();
        std::freopen("/dev/null", "w", stdout);
        std::freopen("/dev/null", "w", stderr);
        run_on(cpus);
        await(*begin_);
        ::alarm(kHungSeconds);
        count_blows(*blows_);
        attack.run(directory);
      }) {}

bool Attacker::has_ended() const {
  siginfo_t ended{};
  return ::waitid(P_PID, static_cast<id_t>(child_.pid()), &ended, WEXITED | WNOHANG | WNOWAIT) !=
             0 ||
         ended.si_pid != 0;
}

Pulse::Pulse() : child_([this](const test::Child&) { beat(); }) {}

void Pulse::beat() const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (auto last = std::chrono::steady_clock::now();;) {
    ::poll(nullptr, 0, kBeatMs);
    const auto now = std::chrono::steady_clock::now();
    const auto late = std::chrono::nanoseconds(now - last);
    if (late >= kStill) *stood_still_ns_ += static_cast<std::uint64_t>(late.count());
    ++*beats_;
    last = now;
  }
}

std::chrono::nanoseconds Pulse::stood_still() const {
  const std::uint64_t seen = *beats_;
  while (*beats_ < seen + 2) ::poll(nullptr, 0, 1);
  return std::chrono::nanoseconds((*stood_still_ns_).load());
}

}  // namespace gantry::attack
