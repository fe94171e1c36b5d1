#pragma once  // tools/gantry/looks.hpp: the channels as they are moving: look after look.

#include <map>

#include "listing.hpp"

namespace gantry::cli {

struct Row {
  ChannelStatus channel;
  bool is_known = false;  ///< Was there at the last look: the rates count.
  double messages_per_s = 0;
  double bytes_per_s = 0;
};

/// One look after the other, and what happened between. For one thread.
class Looks {
 public:
  Looks(WhichChannels which, const Interrupt& interrupt)
      : which_(std::move(which)), interrupt_(interrupt) {}

  /// The channels with their rates since the last look, the quickest first. Errors: those of
  /// list().
  [[nodiscard]] Result<std::vector<Row>> look();

 private:
  struct Seen {
    int pid = 0;
    EndName who;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    bool answered = false;
    std::chrono::nanoseconds age{};
  };
  static void remember_process(ChannelStatus& channel, const Seen& before);
  static void rate(Row& row, const Seen& before);

  WhichChannels which_;
  const Interrupt& interrupt_;
  std::map<std::string, Seen> seen_;
};

}  // namespace gantry::cli
