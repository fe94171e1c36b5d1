#include "core/base/os/fault_answers.hpp"

#include <array>
#include <atomic>

namespace gantry {
namespace {

std::array<std::atomic<FaultAnswer>, 4> answers{};
std::atomic<FaultTeller> teller{nullptr};

// The handlers that were installed before ours. Written once, before ours is installed.
struct sigaction previous_segv;
struct sigaction previous_bus;

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  // The instruction runs again and ends the process, as it would have without us. A signal that
  // somebody sent by kill() does not come again by itself.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) ::raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  for (const auto& known : answers) {
    const FaultAnswer answer = known.load(std::memory_order_acquire);  // [A]
    if (answer != nullptr && answer(signal, info, context)) return;
  }
  if (const FaultTeller tell = teller.load(std::memory_order_acquire); tell != nullptr)  // [A]
    tell(signal, info);
  pass_on(signal, info, context);
}

bool install(int signal, struct sigaction& previous) noexcept {
  struct sigaction ours{};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  if (::sigaction(signal, nullptr, &previous) != 0) return false;
  return ::sigaction(signal, &ours, nullptr) == 0;
}

bool install_once() noexcept {
  static const bool is_installed = install(SIGSEGV, previous_segv) && install(SIGBUS, previous_bus);
  return is_installed;
}

}  // namespace

void tell_of_faults(FaultTeller told) noexcept {
  teller.store(told, std::memory_order_release);  // [A]
  install_once();
}

bool answer_faults(FaultAnswer answer) noexcept {
  if (!install_once()) return false;
  for (auto& place : answers) {
    FaultAnswer free = nullptr;
    if (place.compare_exchange_strong(free, answer, std::memory_order_release,  // [A]
                                      std::memory_order_relaxed) ||  // what is there stays
        free == answer)
      return true;
  }
  return false;
}

}  // namespace gantry
