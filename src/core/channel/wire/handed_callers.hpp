#pragma once  // channel/wire/handed_callers.hpp: callers of other hosts, where their channel is.

#include <atomic>
#include <gantry/channel.hpp>

#include "core/base/os/fd.hpp"

namespace gantry {

/// What becomes of a producer that acts for one of another host.
enum class Handing : std::uint8_t {
  open,    ///< Nobody reads it yet.
  joined,  ///< A consumer has joined it.
  moved,   ///< A consumer's process has its connection. Nobody else joins.
};
using HandingState = std::atomic<Handing>;

/// Callers of other hosts at one name of this process. A bridge admits them and hands their
/// connections over; the component net makes this object and serves them. Any thread.
class HandedCallers {
 public:
  struct Where {
    std::string name;
    std::string directory;
    std::shared_ptr<Acceptor> acceptor;
    bool ends_with_name = false;  ///< What callers send goes nowhere once the name is given up.
  };

  HandedCallers() = default;
  HandedCallers(const HandedCallers&) = delete;
  HandedCallers& operator=(const HandedCallers&) = delete;
  virtual ~HandedCallers() = default;
  /// Listens to a bridge over `line`. Does not wait.
  virtual void take(Fd line) noexcept = 0;
  /// Reports that a message of `bytes` was published and may be sent now.
  virtual void has_sent(Bytes bytes) noexcept = 0;
  /// Waits until each caller has received the end of the stream, or has left. Errors: `timed_out`,
  /// `interrupted`.
  [[nodiscard]] virtual Result<void> finish(Deadline deadline, int interrupt) = 0;
  /// The name is given up. What was sent goes on its way.
  virtual void retire() noexcept = 0;
};

/// What the component net adds.
struct HandingMakers {
  /// Null: there are no descriptors or no memory.
  std::shared_ptr<HandedCallers> (*callers)(HandedCallers::Where where) = nullptr;
  /// Takes over the connection of the producer of another host that has the name. Errors:
  /// `unsupported` where there is nothing to take over; those of Consumer::open().
  Result<Consumer> (*take_over)(std::string_view name, const ConsumerOptions& options,
                                Deadline deadline) = nullptr;
};
/// Called while the library of net is loaded, before main(). `makers` lives to the end.
void add_handing(const HandingMakers& makers) noexcept;
/// Null: net is not linked.
[[nodiscard]] const HandingMakers* handing_makers() noexcept;

}  // namespace gantry
