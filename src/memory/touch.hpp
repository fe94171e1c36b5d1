#pragma once  // memory/touch.hpp: making pages present before they are used.

#include <gantry/types.hpp>

namespace gantry {

/// Makes every page of `memory` present; `memory` begins at a page. Writable pages are made, others
/// mapped. Uses up to `threads` threads on the cores of `node` (-1: any); 0: as many as those cores
/// and the size are worth. Errors: `out_of_memory`.
[[nodiscard]] Result<void> touch_pages(ByteSpan memory, bool writable, unsigned threads, int node);

}  // namespace gantry
