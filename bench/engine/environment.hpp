#pragma once  // bench/engine/environment.hpp: the engines, buffers and threads of a run.

#include <gantry/runtime.hpp>
#include <optional>

#include "../support/report/report.hpp"
#include "arena.hpp"
#include "settings.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

inline constexpr std::string_view kInlineEngine = "inline";
inline constexpr std::string_view kThreadEngine = "thread";
inline constexpr std::string_view kDsaEngine = "dsa";
inline constexpr std::string_view kAutoEngine = "auto";

/// An engine that is usable here, and what reports call it: "gantry/inline".
struct NamedEngine {
  std::string_view name;
  std::string subject;
  std::shared_ptr<Engine> engine;
};

/// One process does everything: buffers of different processes differ in their luck with physical
/// memory by more than the subjects do. The engines are made before the caller is bound to its CPU,
/// so their threads go where the library puts them.
class Environment {
 public:
  /// Makes the engines; those that are not usable, and sizes that the memory is too short for, go
  /// to the report as skipped.
  [[nodiscard]] static Result<std::unique_ptr<Environment>> open(Settings settings, Report& report,
                                                                 int interrupt_descriptor);

  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] Report& report() noexcept { return report_; }
  [[nodiscard]] Arena& arena() noexcept { return *arena_; }
  [[nodiscard]] Bytes arena_bytes() const noexcept { return arena_->bytes(); }
  [[nodiscard]] Reader& reader() noexcept { return *reader_; }
  [[nodiscard]] int interrupt_descriptor() const noexcept { return interrupt_descriptor_; }

  /// The usable ones, `auto` last.
  [[nodiscard]] const std::vector<NamedEngine>& engines() const noexcept { return engines_; }
  /// Null when it is not usable.
  [[nodiscard]] const NamedEngine* find(std::string_view name) const noexcept;
  /// From which size on the inline engine goes past the cache, as it explains itself; the largest
  /// number when it does so with nothing that the arena holds.
  [[nodiscard]] Bytes streaming_from() const noexcept { return streaming_from_; }

  /// Errors: `interrupted`.
  [[nodiscard]] Result<void> check_interrupt() const;

 private:
  Environment(Settings settings, Report& report, int interrupt_descriptor)
      : settings_(std::move(settings)),
        report_(report),
        interrupt_descriptor_(interrupt_descriptor) {}
  Result<void> open_engines();
  Result<void> learn_streaming_from();

  Settings settings_;
  Report& report_;
  int interrupt_descriptor_;
  std::optional<Runtime> runtime_;
  std::vector<NamedEngine> engines_;
  Bytes streaming_from_ = 0;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace gantry::bench
