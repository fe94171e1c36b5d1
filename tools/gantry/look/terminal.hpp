#pragma once  // tools/gantry/look/terminal.hpp: a screen of one's own, given back however the
              // program ends.

#include <termios.h>

#include <optional>
#include <string_view>

#include <gantry/types.hpp>

namespace gantry::cli {

/// Standard output's alternate screen without a cursor, and standard input key by key, while it
/// lives. Also given back when SIGQUIT, SIGABRT or a crash ends the program; SIGTSTP is ignored,
/// since the screen would stay behind. One at a time. Both streams as they are where they are no
/// terminal.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] static bool is_possible() noexcept;  ///< Standard output is a terminal.
  [[nodiscard]] bool has_keys() const noexcept { return has_keys_; }
  /// A key that was pressed; nothing when none was, or none will be any more (see has_keys()).
  [[nodiscard]] std::optional<char> key() noexcept;
  /// `text` from the upper left corner, cut to the window; the rest of it empty.
  [[nodiscard]] Result<void> show(std::string_view text);

 private:
  bool has_keys_ = false;
};

}  // namespace gantry::cli
