#include "program.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "../system/interrupt.hpp"
#include "options.hpp"
#include "output_file.hpp"
#include "plot.hpp"

namespace gantry::bench {
namespace {

Result<void> print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return {};
  return Unexpected(system_error("standard output"));
}

Result<void> measure_and_print(const Measurement& measure) {
  const auto interrupt = Interrupt::create();
  if (!interrupt) return Unexpected(interrupt.error());
  const auto measured = measure(interrupt->descriptor());
  if (!measured) return Unexpected(measured.error());
  if (auto printed = print(measured->text); !printed) return printed;
  return measured->missed ? Result<void>(Unexpected(*measured->missed)) : Result<void>();
}

}  // namespace

Result<void> check_plot(const Options& options) {
  return options.plot.empty() ? Result<void>() : check_picture("--plot", options.plot);
}

Result<void> write_plot(const Options& options, const Report& report) {
  if (options.plot.empty()) return {};
  const std::string svg = plot_svg(report);
  if (!svg.empty()) return write_output("--plot", options.plot, svg);
  return Unexpected(Error{Code::invalid_argument, "--plot: no figure to draw was measured",
                          "see what was skipped without it"});
}

int run_program(std::string_view name,
                const std::function<tl::expected<Measurement, int>()>& parse) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left is an error like others, after cleaning up
  try {
    const auto measurement = parse();
    if (!measurement) return measurement.error();
    const auto done = measure_and_print(*measurement);
    if (done) return 0;
    complain(name, to_string(done.error()));
    return done.error().code == Code::interrupted ? kInterrupted : kFailed;
  } catch (const std::bad_alloc&) {
    complain(name, "out of memory; free memory, or raise the limit of address space (ulimit -v)");
    return kFailed;
  } catch (const std::exception& error) {  // what libraries throw
    complain(name, error.what());
    return kFailed;
  }
}

}  // namespace gantry::bench
