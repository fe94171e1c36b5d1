#pragma once  // base/moved_from.hpp: calls on a handle that was moved from.

#include "core/base/result.hpp"

namespace gantry {

/// `what`: the class of the handle.
[[nodiscard]] [[gnu::noinline]] inline tl::unexpected<Error> moved_from(std::string_view what) {
  return fail(Code::invalid_argument, fmt::format("this {} is empty, or was moved from", what),
              "use the one that it was moved to");
}

/// guarded(), unless there is nothing behind the handle.
template <class Pointer, class Work>
[[nodiscard]] auto guarded_on(const Pointer& impl, std::string_view what, Work work) noexcept
    -> decltype(work()) {
  if (impl == nullptr) [[unlikely]]
    return guarded([what]() -> decltype(work()) { return moved_from(what); });
  return guarded(std::move(work));
}

}  // namespace gantry
