// gantry calibrate: measures the engines and keeps the result for every process of this user.
#include <fmt/format.h>

#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "look/calibration_text.hpp"
#include "output.hpp"
#include "tools/command_line/json_text.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::cli {
namespace {

struct CalibrateWish {
  bool quick = false;
  bool json = false;
  bool show = false;
};

Result<CalibrationStatus> measure(Runtime& runtime, const CalibrateWish& wanted,
                                  const Interrupt& interrupt) {
  Progress progress("calibrating");
  const bool shows = !wanted.json || progress.is_drawn();
  return runtime.calibrate({wanted.quick, [&](std::string_view step, double done) {
                              if (interrupt.raised()) return false;
                              if (shows) progress.show(step, done);
                              return true;
                            }});
}

std::string as_text(const CalibrationStatus& status) {
  std::string text = calibration_facts_text(status);
  if (status.calibration.engines.empty()) return text;
  text += "\n" + costs_text(status.calibration);
  const std::string border = break_even_text(status.calibration);
  return border.empty() ? text : text + "\n" + border;
}

Result<void> calibrate(const CalibrateWish& wanted) {
  auto interrupt = Interrupt::create();  // before any thread
  if (!interrupt) return tl::unexpected(interrupt.error());
  auto runtime = Runtime::create({{}, "auto", false});  // whatever $GANTRY_ENGINE prefers
  if (!runtime) return tl::unexpected(runtime.error());
  const auto status = wanted.show ? Result<CalibrationStatus>(runtime->calibration())
                                  : measure(*runtime, wanted, *interrupt);
  if (!status) return tl::unexpected(status.error());
  auto printed =
      print(wanted.json ? json_text(calibration_json(*status), 2) + "\n" : as_text(*status));
  if (!printed || wanted.show || status->kept) return printed;
  return tl::unexpected(
      Error{Code::system, fmt::format("the calibration was not kept: {}", status->note), {}});
}

}  // namespace

void add_calibrate(const Command& command, int& exit_code) {
  auto wanted = std::make_shared<CalibrateWish>();
  const auto quick =
      command->add_flag("--quick", wanted->quick, "In under a second instead of up to 20");
  command->add_flag("--json", wanted->json, "One JSON document instead of tables");
  command->add_flag("--show", wanted->show, "Only show the values in use, without measuring")
      ->excludes(quick);
  command->footer("Example: gantry calibrate --quick");
  command->callback([wanted, &exit_code] {
    const auto done = calibrate(*wanted);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
