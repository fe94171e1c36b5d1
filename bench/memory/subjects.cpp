#include "subjects.hpp"

namespace gantry::bench {

const std::vector<BlockSubject>& block_subjects() {
  static const std::vector<BlockSubject> subjects = {
      {kTouchAndRegister, open_touch_and_register, true},
      {kRegister, open_register, true},
      {kMalloc, open_malloc, false},
      {kMalloc64, open_malloc_64, false},
      {kLruCache, open_lru_cache, true},
      {kPoolEager, open_pool_eager, true},
      {kPoolLazy, open_pool_lazy, true},
  };
  return subjects;
}

}  // namespace gantry::bench
