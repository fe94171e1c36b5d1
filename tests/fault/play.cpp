// Worker processes that take one run after the other.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <new>

#include "core/base/clock.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "fault/census.hpp"
#include "fault/plan.hpp"

namespace gantry::fault {
namespace {

/// Memory that forked processes share.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(std::size_t count) : bytes_(count * sizeof(T)) {
    at_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    for (std::size_t i = 0; i < count; ++i) new (&(*this)[i]) T();
  }
  ~SharedArray() { ::munmap(at_, bytes_); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  T& operator[](std::size_t index) noexcept { return static_cast<T*>(at_)[index]; }

 private:
  void* at_ = nullptr;
  std::size_t bytes_;
};

struct Desk {
  Board board;
  std::atomic<std::size_t> current{0};
};

struct Office {
  Office(const std::vector<Run>& all, unsigned jobs, bool rehearses)
      : runs(all),
        outcomes(all.size() + 1),
        rehearsals(rehearses ? all.size() : 1),
        desks(jobs),
        next(1),
        takes_down(rehearses) {}
  const std::vector<Run>& runs;
  SharedArray<Outcome> outcomes;
  SharedArray<Rehearsal> rehearsals;
  SharedArray<Desk> desks;
  SharedArray<std::atomic<std::size_t>> next;
  bool takes_down;
};

void take_down(Rehearsal& into, const Run& run, const FaultCounts& counts, std::uint64_t took_ns) {
  into.scenario = run.scenario;
  into.victim = run.victim;
  for (std::size_t i = 0; i < kSteps; ++i) into.passes[i] = counts.passes[i];
  into.total = counts.total;
  into.took_us = took_ns / 1000;
}

// What each run leaves in the survivor's heap would add up.
class HeapWatch {
 public:
  void check() {
    constexpr std::uint64_t kWarm = 30;        // by then whatever is made once has been made
    constexpr std::size_t kSlack = 512 << 10;  // caches of the allocator
    if (++runs_ == kWarm) warm_ = heap_in_use();
    if (runs_ > kWarm && heap_in_use() > warm_ + kSlack)
      throw Trouble(fmt::format("the heap grew from {} to {} bytes in {} runs", warm_,
                                heap_in_use(), runs_ - kWarm));
  }

 private:
  std::uint64_t runs_ = 0;
  std::size_t warm_ = 0;
};

// What was missed and made good by somebody's deadline has hung all the same.
void check_time(std::uint64_t took_ns) {
  constexpr std::uint64_t kMost = 15'000'000'000;  // below the limits of calls
  if (took_ns > kMost)
    throw Trouble(fmt::format("it took {:.1f} s", static_cast<double>(took_ns) / 1e9));
}

void work(Office& office, Desk& desk, const std::string& directory) {
  const auto engine = make_inline_engine();
  if (!engine) return;
  HeapWatch heap;
  std::size_t index = 0;
  while ((index = office.next[0].fetch_add(1)) < office.runs.size()) {
    desk.current = index;
    Outcome& outcome = office.outcomes[index];
    const std::uint64_t started = monotonic_ns();
    try {
      run(office.runs[index], directory, *engine, desk.board);
      heap.check();
      check_time(monotonic_ns() - started);
    } catch (const std::exception& trouble) {
      std::snprintf(outcome.trouble.data(), outcome.trouble.size(), "%s", trouble.what());
    }
    if (office.takes_down)
      take_down(office.rehearsals[index], office.runs[index], desk.board.victim,
                monotonic_ns() - started);
    outcome.struck = desk.board.victim.struck_ns != 0 || !desk.board.victim_finished;
    outcome.late_ns = desk.board.late_ns;
    outcome.ran = true;
    if (outcome.trouble[0] != 0) return;  // what it left would be taken for the next run's
  }
}

std::string make_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "gantry-fault-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw Trouble("no temporary directory");
  return path;
}

struct Worker {
  std::size_t desk;
  std::string directory;
};

// Each worker has a directory of its own; one that had trouble is replaced.
void start(Office& office, std::size_t desk, std::map<pid_t, Worker>& workers) {
  std::string directory = make_directory();
  const pid_t pid = ::fork();
  if (pid < 0) throw Trouble("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(office, office.desks[desk], directory);
    std::_Exit(0);
  }
  workers.emplace(pid, Worker{desk, std::move(directory)});
}

void note_end(Office& office, const Worker& worker, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  Desk& desk = office.desks[worker.desk];
  Outcome& outcome = office.outcomes[desk.current];
  outcome.ran = true;
  std::snprintf(outcome.trouble.data(), outcome.trouble.size(), "the survivor %s (status %d)",
                WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs" : "died", status);
}

}  // namespace

std::vector<Outcome> play(const std::vector<Run>& runs, unsigned jobs,
                          std::vector<Rehearsal>* rehearse) {
  Office office(runs, jobs, rehearse != nullptr);
  std::map<pid_t, Worker> workers;
  for (std::size_t desk = 0; desk < jobs; ++desk) start(office, desk, workers);
  while (!workers.empty()) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    const auto found = workers.find(pid);
    if (found == workers.end()) continue;
    const Worker worker = found->second;
    workers.erase(found);
    note_end(office, worker, status);
    std::error_code ignored;
    std::filesystem::remove_all(worker.directory, ignored);
    if (office.next[0] < runs.size()) start(office, worker.desk, workers);
  }
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    outcomes.push_back(office.outcomes[i]);
    if (rehearse != nullptr) rehearse->push_back(office.rehearsals[i]);
  }
  return outcomes;
}

}  // namespace gantry::fault
