#pragma once  // link/turn.hpp: one turn of a loop that serves a link.

#include <gantry/link.hpp>
#include <utility>

namespace gantry {

/// A link that works in turns.
class LinkInTurns {
 public:
  LinkInTurns() = default;
  LinkInTurns(const LinkInTurns&) = delete;
  LinkInTurns& operator=(const LinkInTurns&) = delete;

  /// As Link::poll(). Until end_turn() calls that may not wait neither send nor receive: they queue
  /// what is to go out, and hand out what has come in.
  [[nodiscard]] virtual bool begin_turn() = 0;
  /// True: something has come up meanwhile that calls hand out, such as the signal of a get whose
  /// last bytes have just been sent. The next turn says so, too.
  virtual bool end_turn() noexcept = 0;
  /// A message or another small record waits for the socket, perhaps behind a piece of payload.
  [[nodiscard]] virtual bool has_words_left() const noexcept = 0;
  /// Payload waits for the socket.
  [[nodiscard]] virtual bool has_payload_left() const noexcept = 0;

 protected:
  ~LinkInTurns() = default;
};

/// Looks at the socket once, at its beginning, and sends what was said within it in one go, at its
/// end. One at a time for a link.
class LinkTurn {
 public:
  explicit LinkTurn(Link& link)
      : link_(dynamic_cast<LinkInTurns*>(&link)),
        has_moved_(link_ != nullptr ? link_->begin_turn() : link.poll()) {}
  ~LinkTurn() { static_cast<void>(end()); }
  LinkTurn(const LinkTurn&) = delete;
  LinkTurn& operator=(const LinkTurn&) = delete;

  [[nodiscard]] bool has_moved() const noexcept { return has_moved_; }
  /// Ends it before its scope does. True: as LinkInTurns::end_turn(); a loop does not sleep then.
  [[nodiscard]] bool end() noexcept {
    const bool is_over = std::exchange(is_over_, true);
    return !is_over && link_ != nullptr && link_->end_turn();
  }
  /// Behind end(). True: as LinkInTurns::has_payload_left(), or the link does not work in turns.
  [[nodiscard]] bool has_payload_left() const noexcept {
    return link_ == nullptr || link_->has_payload_left();
  }

 private:
  LinkInTurns* const link_;
  const bool has_moved_;
  bool is_over_ = false;
};

}  // namespace gantry
