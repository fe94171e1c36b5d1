#pragma once  // channel/wire/handed_callers.hpp: callers of other hosts, where their channel is.

#include <gantry/channel.hpp>

#include "core/base/os/fd.hpp"

namespace gantry {

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
  /// Waits until each caller has received the end of the stream, or has left. From the call on, a
  /// caller that has vanished keeps its place for its bridge's patience and stall limit, whatever
  /// its own are. Errors: `timed_out`, `interrupted`, `peer_gone`: one has vanished before it had
  /// received all.
  [[nodiscard]] virtual Result<void> finish(Deadline deadline, int interrupt) = 0;
  /// The name is given up. What was sent goes on its way.
  virtual void retire() noexcept = 0;
};

/// What the component net adds. Null: there are no descriptors or no memory.
using MakeHandedCallers = std::shared_ptr<HandedCallers> (*)(HandedCallers::Where where);
/// Called while the library of net is loaded, before main().
void add_handed_callers(MakeHandedCallers make) noexcept;
/// Null: net is not linked.
[[nodiscard]] MakeHandedCallers handed_callers_maker() noexcept;

}  // namespace gantry
