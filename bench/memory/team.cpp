#include "team.hpp"

#include <sched.h>

#include <algorithm>

#include "../support/system/cpus.hpp"

namespace gantry::bench {

Team::Team(unsigned threads, std::vector<int> cpus)
    : members_(threads), beginning_(threads), end_(threads) {
  for (unsigned member = 1; member < threads; ++member)
    threads_.emplace_back([this, member, cpu = cpus[member % cpus.size()]] { serve(member, cpu); });
}

Team::~Team() {
  work_ = nullptr;
  if (!threads_.empty()) beginning_.arrive_and_wait();
}

Result<double> Team::run(const Work& work) {
  work_ = &work;  // the barriers order this, and the members' figures, between the threads
  beginning_.arrive_and_wait();
  perform(0);
  end_.arrive_and_wait();
  Clock::time_point began = members_.front().began;
  Clock::time_point ended = members_.front().ended;
  for (const Member& member : members_) {
    if (!member.result) return Unexpected(member.result.error());
    began = std::min(began, member.began);
    ended = std::max(ended, member.ended);
  }
  return std::chrono::duration<double, std::nano>(ended - began).count();
}

void Team::serve(unsigned member, int cpu) {
  static_cast<void>(pin(cpu));  // a wish: the CPU was allowed when the program began
  while (true) {
    beginning_.arrive_and_wait();
    if (work_ == nullptr) return;
    perform(member);
    end_.arrive_and_wait();
  }
}

void Team::perform(unsigned member) {
  Member& me = members_[member];
  me.began = Clock::now();
  try {
    me.result = (*work_)(member);
  } catch (const std::exception& problem) {  // out of memory; it must not leave the thread
    me.result = Unexpected({Code::system, problem.what(), ""});
  }
  me.ended = Clock::now();
}

std::vector<int> allowed_cpus(int first, int second) {
  std::vector<int> cpus = {first};
  if (second != first) cpus.push_back(second);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) cpus.push_back(cpu);
  }
  return cpus;
}

void spread_over(const std::vector<int>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace gantry::bench
