#pragma once  // trace/probes.hpp: USDT probes, at which bpftrace, perf, SystemTap and gdb can stop.

#include "core/trace/ring_file.hpp"

#if !defined(GANTRY_NO_PROBES) && __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
/// GANTRY_PROBE(name, argument...): a nop that a tool puts its call in place of, and a note in the
/// file where the arguments are. These are numbers and pointers: docs/mechanisms/probes.md.
#define GANTRY_PROBE(...) STAP_PROBEV(gantry, __VA_ARGS__)
#else
#define GANTRY_PROBE(...) static_cast<void>(0)
#endif

namespace gantry::trace {

/// The probes `wait_begin` and `wait_end` around what waits. `channel` must outlive it.
class WaitProbe {
 public:
  [[gnu::always_inline]] WaitProbe(const std::string& channel, Awaited awaited) noexcept
      : channel_(channel), awaited_(static_cast<int>(awaited)) {
    GANTRY_PROBE(wait_begin, channel_.c_str(), awaited_);
  }
  [[gnu::always_inline]] ~WaitProbe() { GANTRY_PROBE(wait_end, channel_.c_str(), awaited_); }
  WaitProbe(const WaitProbe&) = delete;
  WaitProbe& operator=(const WaitProbe&) = delete;

 private:
  [[maybe_unused]] const std::string& channel_;
  [[maybe_unused]] int awaited_;
};

}  // namespace gantry::trace
