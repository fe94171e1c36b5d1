#pragma once  // engine/dsa/populate.hpp: making pages present before a device looks for them.

#include <gantry/types.hpp>

namespace gantry::dsa {

enum class Access : std::uint8_t { read, write };

/// Makes the pages of `range` present for reading or writing, without changing what they hold and
/// without racing with whoever else writes them. False: not all of them could be. Bounded by the
/// size of the range; nothing is written by this thread, so nothing is a signal.
bool populate(ByteSpan range, Access access) noexcept;

}  // namespace gantry::dsa
