#pragma once  // stage/inherited.hpp: descriptors that a launcher left open for this process.

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

/// Takes over the inherited descriptor `number` under another number, which no child inherits. The
/// old number stays occupied, so that it never comes to mean something else: taking it twice is
/// `already_exists`. `not_found` when it is not open. `what` names it in errors.
[[nodiscard]] Result<Fd> take_inherited(int number, std::string_view what);

}  // namespace gantry
