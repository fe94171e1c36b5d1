#pragma once  // stage_link.hpp: what each transport implements for a stage's ends.

#include <gantry/stage.hpp>
#include <memory>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"
#include "core/channel/wire/meter.hpp"

namespace gantry {

/// Writes into the launcher's pages how the links of an end came to their end, so that the launcher
/// knows which stage left first.
class StreamMarks {
 public:
  StreamMarks() = default;
  /// To be called before the end is opened. A page that cannot be had is left out.
  explicit StreamMarks(const StageEndpoint& end);
  void ended() noexcept;
  void broken() noexcept;  ///< Nothing after ended().
  /// The end is about to hang up; nothing after either of those.
  void left() noexcept;

 private:
  ForkGuard fork_guard_;  // a fork's copy gives nothing up
  std::vector<Metrics> pages_;
};

class GANTRY_LOCAL StageInput::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;
  virtual Result<Message> receive(Deadline deadline) = 0;

  StreamMarks marks;
};

class GANTRY_LOCAL StageOutput::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;
  virtual Result<Loan> loan(Bytes size, Deadline deadline) = 0;
  virtual Result<void> publish(Loan&& loan, const SendOptions& options) = 0;
  virtual Result<void> send(ConstByteSpan payload, const SendOptions& options) = 0;
  virtual Result<void> send(Draft draft, const SendOptions& options) = 0;
  virtual Result<void> close(Deadline deadline) = 0;
  [[nodiscard]] virtual Result<Pool> pool() const;

  StreamMarks marks;
  bool converts = false;  ///< Whether `as` means anything to it: only channels convert.
};

using InputImpl = std::unique_ptr<StageInput::Impl>;
using OutputImpl = std::unique_ptr<StageOutput::Impl>;

[[nodiscard]] Result<InputImpl> open_gantry_input(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<OutputImpl> open_gantry_output(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<InputImpl> open_pipe_input(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<OutputImpl> open_pipe_output(const StageEndpoint&, const StageOptions&);

/// The name for errors: "channel 'NAME'".
[[nodiscard]] std::string quoted(const StageEndpoint& end);

/// Takes over the inherited descriptor `number` under another number, which no child inherits. The
/// old number stays occupied, so that it never comes to mean something else: taking it twice is
/// `already_exists`. `not_found` when it is not open. `what` names it in errors.
[[nodiscard]] Result<Fd> take_inherited(int number, std::string_view what);

}  // namespace gantry
