// gantry once more, with the steps of channels and of those between hosts visible: counts them, and
// ends at the one that $GANTRY_FAULT names, as "FILE STEP PASS". FILE gets words of 64 bits: when
// it was struck (monotonic, in ns; 0: it was not), and how often each step was passed. "list": it
// prints their names.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "core/base/clock.hpp"
#include "core/base/os/fd.hpp"
#include "core/channel/wire/step.hpp"
#include "net/remote/remote_step.hpp"

#include <fcntl.h>

namespace gantry {
namespace {

constexpr std::size_t kAll = kSteps + kRemoteStepNames.size();

struct Counts {
  std::atomic<std::uint64_t> struck_ns;
  std::array<std::atomic<std::uint64_t>, kAll> passes;
};

// The steps are passed on several threads, deep in code that knows nothing of the harness.
Counts* counts_here = nullptr;
std::size_t fatal_step = kAll;
std::uint64_t fatal_pass = 0;

std::string_view name_of(std::size_t step) {
  return step < kSteps ? kStepNames[step] : kRemoteStepNames[step - kSteps];
}

void pass(std::size_t step) noexcept {
  if (counts_here == nullptr) return;
  // Relaxed: counts, read when this process has ended.
  const auto number = counts_here->passes[step].fetch_add(1, std::memory_order_relaxed) + 1;
  if (step != fatal_step || number != fatal_pass) return;
  counts_here->struck_ns.store(monotonic_ns(), std::memory_order_relaxed);
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

[[noreturn]] void list_steps() {
  for (std::size_t step = 0; step < kAll; ++step) std::puts(std::string(name_of(step)).c_str());
  std::exit(0);
}

[[gnu::constructor]] void arm() {
  const char* const told = std::getenv("GANTRY_FAULT");
  if (told == nullptr) return;
  std::istringstream words(told);
  std::string path;
  std::string name;
  words >> path >> name >> fatal_pass;
  if (path == "list") list_steps();
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  void* const memory =
      file && ::ftruncate(file.get(), sizeof(Counts)) == 0
          ? ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
          : MAP_FAILED;
  if (memory == MAP_FAILED) std::abort();
  counts_here = static_cast<Counts*>(memory);
  for (fatal_step = 0; fatal_step < kAll && name_of(fatal_step) != name;) ++fatal_step;
  if (fatal_step == kAll && name != "none") std::abort();
}

}  // namespace

void reached_step(Step step) noexcept {
  pass(static_cast<std::size_t>(step));
}
void reached_step(RemoteStep step) noexcept {
  pass(kSteps + static_cast<std::size_t>(step));
}

}  // namespace gantry
