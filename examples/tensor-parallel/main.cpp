// One rank of two layers of a transformer's MLP. README.md
#include <signal.h>
#include <sys/signalfd.h>

#include "errors.hpp"
#include "rank.hpp"

namespace tensor_parallel {
namespace {

/// Readable when SIGINT, SIGTERM or SIGHUP has come, which does nothing else from then on.
gantry::Result<int> open_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) return fail_errno("signalfd");
  return descriptor;
}

int be_rank(Options options) {
  const auto signals = open_signals();
  if (!signals) return complain(signals.error()), kFailed;
  options.group.interrupt_descriptor = *signals;
  try {
    Rank rank(options);
    const auto done = rank.run();
    if (done) return kDone;
    complain(done.error());  // while the others do not know yet
    return status_of(done.error());
  } catch (const std::exception& thrown) {  // memory ran out
    complain({gantry::Code::out_of_memory, thrown.what(), ""});
    return kFailed;
  }
}

}  // namespace
}  // namespace tensor_parallel

int main(int argc, char** argv) {
  using namespace tensor_parallel;
  const auto parsed = parse_options(argc, argv);
  if (const int* const status = std::get_if<int>(&parsed)) return *status;
  return be_rank(std::get<Options>(parsed));
}
