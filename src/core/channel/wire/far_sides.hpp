#pragma once  // channel/wire/far_sides.hpp: ends whose channel is on another host.

#include <gantry/call.hpp>

#include "core/base/moved_from.hpp"

namespace gantry {

/// Gives an end its far side, which goes when the end does.
class FarSides {
 public:
  template <class End>
  static void attach(End& end, std::shared_ptr<detail::FarSide> far_side) noexcept {
    end.far_side_ = std::move(far_side);
  }
  /// The same; its errors name the server there.
  static void attach(Client& client, std::shared_ptr<detail::FarSide> far_side) {
    client.attach(std::move(far_side));
  }
};

/// guarded_on(), and an error says what happened on the other host, if that is where it happened.
template <class Impl, class Work>
[[nodiscard]] auto guarded_on(const std::shared_ptr<Impl>& impl,
                              const std::shared_ptr<detail::FarSide>& far_side,
                              std::string_view what, Work work) noexcept -> decltype(work()) {
  return guarded_on(impl, what, [&] {
    auto result = work();
    if (!result && far_side) [[unlikely]]
      result = tl::unexpected(far_side->reason(std::move(result).error()));
    return result;
  });
}

}  // namespace gantry
