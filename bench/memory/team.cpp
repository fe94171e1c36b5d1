#include "team.hpp"

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

}  // namespace gantry::bench
